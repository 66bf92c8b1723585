//! Which file of a crate imports from which: `use` lines and paths, with names that a module re-exports
//! traced to the file that has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::layers::{read, sources};

/// Macros stand at the root of the crate, whatever file has them.
const MACROS: [&str; 1] = ["on_media"];

/// The files of a crate.
pub(crate) struct Files {
    /// By path of module, `crate` being the empty one.
    modules: BTreeMap<Vec<String>, File>,
}

struct File {
    text: String,
    /// The code, without tests and comments.
    code: String,
    /// Names that are visible here from elsewhere, and paths of what they stand for.
    uses: Vec<Use>,
}

struct Use {
    name: String,
    path: Vec<String>,
    /// A re-export brings a name to others and uses nothing itself.
    exports: bool,
}

impl Files {
    pub(crate) fn read(src: &Path) -> Files {
        let mut found = Vec::new();
        sources(src, &[], &mut found);
        found.retain(|(path, _)| !path.to_string_lossy().ends_with("_tests.rs"));
        let mut modules = BTreeMap::new();
        for (path, mut module) in found {
            module.retain(|name| name != "lib");
            let text = read(&path);
            // Tests may use the whole crate.
            let code = text.split("\nmod tests {").next().unwrap_or("");
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or(""));
            let mut code = lines.collect::<Vec<_>>().join("\n");
            let uses = take_uses(&mut code);
            modules.insert(module, File { text, code, uses });
        }
        Files { modules }
    }

    /// The path from the root of the crate; `None` where it leads out of it.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut at = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                at.push(first.into());
                if !self.modules.contains_key(&at) {
                    // A module that was imported, or another crate.
                    let mut uses = self.modules.get(module)?.uses.iter();
                    let import =
                        uses.find(|import| import.name == first && import.path.len() > 1)?;
                    at = self.absolute(module, &import.path)?;
                    at.extend(path[1..].iter().cloned());
                    return Some(at);
                }
                at.pop();
            }
        }
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    /// The file that has what `path` leads to.
    fn file_of(&self, path: &[String], depth: u32) -> Option<&Vec<String>> {
        assert!(depth < 20, "{path:?} leads nowhere");
        let len = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n]))?;
        let (module, file) = self.modules.get_key_value(&path[..len])?;
        let exports =
            |name: &String| file.uses.iter().find(|use_| use_.exports && use_.name == *name);
        if let Some(import) = path.get(len).and_then(exports) {
            let target = self.absolute(module, &import.path)?;
            return self.file_of(&target, depth + 1);
        }
        Some(module)
    }

    pub(crate) fn text(&self, module: &[String]) -> &str {
        &self.modules[module].text
    }

    /// Which files each file imports from, and those that it re-exports from if `exports`.
    pub(crate) fn imports(&self, exports: bool) -> BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> {
        let mut all = BTreeMap::new();
        for (module, file) in &self.modules {
            let own = self.modules.keys().filter_map(|other| other.strip_prefix(&module[..]));
            let children: BTreeSet<_> = own.filter_map(|path| path.first()).collect();
            let inline = paths_in(&file.code, &children);
            let named =
                file.uses.iter().filter(|import| exports && !module.is_empty() || !import.exports);
            let to: BTreeSet<_> = named
                .map(|import| &import.path)
                .chain(&inline)
                .filter(|path| path.last().is_none_or(|name| !MACROS.contains(&name.as_str())))
                .filter_map(|path| self.file_of(&self.absolute(module, path)?, 0))
                .filter(|to| *to != module)
                .collect();
            all.insert(module, to);
        }
        all
    }
}

/// Takes out the `use` declarations at the start of lines.
fn take_uses(code: &mut String) -> Vec<Use> {
    let (mut all, mut rest, mut from) = (Vec::new(), String::new(), 0);
    for (at, _) in code.match_indices("use ") {
        let line = &code[code[..at].rfind('\n').map_or(0, |i| i + 1)..at];
        let exports = line.trim_start().starts_with("pub");
        if !(line.trim().is_empty() || exports && line.trim().ends_with(['b', ')'])) {
            continue;
        }
        let end = at + code[at..].find(';').expect("a use ends");
        let tree = &code[at + 4..end];
        let tokens: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
        expand(&tokens, &[], exports, &mut all);
        rest.push_str(&code[from..at]);
        from = end;
    }
    rest.push_str(&code[from..]);
    *code = rest;
    all
}

/// The leaves of a tree of imports.
fn expand(tree: &str, above: &[String], exports: bool, all: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut path = above.to_vec();
        path.extend(
            tree[..open].split("::").map(str::trim).filter(|s| !s.is_empty()).map(Into::into),
        );
        let inside = &tree[open + 1..tree.rfind('}').expect("it is closed")];
        let (mut depth, mut from) = (0, 0);
        for (i, c) in inside.char_indices().chain([(inside.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !inside[from..i].trim().is_empty() {
                        expand(&inside[from..i], &path, exports, all);
                    }
                    from = (i + 1).min(inside.len());
                }
                _ => {}
            }
        }
        return;
    }
    let (tree, name) = tree.split_once(" as ").map_or((tree, None), |(a, b)| (a, Some(b)));
    let mut path = above.to_vec();
    path.extend(tree.split("::").map(|s| s.trim().to_owned()));
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.map_or_else(|| path.last().cloned().unwrap_or_default(), Into::into);
    all.push(Use { name, path, exports });
}

/// Paths that are written where they are used, from the root of the crate, a module above or a child.
fn paths_in(code: &str, children: &BTreeSet<&String>) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for start in ["crate", "super"].into_iter().chain(children.iter().map(|name| name.as_str())) {
        for (at, _) in code.match_indices(&format!("{start}::")) {
            // `$crate::` is written in a macro, for its user; `pub(in crate::` uses nothing.
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c))
                || code[..at].ends_with("pub(in ")
            {
                continue;
            }
            let end = code[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let path = &code[at..end.map_or(code.len(), |end| at + end)];
            all.push(path.split("::").filter(|s| !s.is_empty()).map(Into::into).collect());
        }
    }
    all
}

/// The first cycle that is found, as a list of its nodes.
pub(crate) fn cycle<T: Ord + Copy>(edges: &BTreeMap<T, BTreeSet<T>>) -> Option<Vec<T>> {
    // A node that imports nothing is on no cycle, nor is one that imports only such.
    let mut left: BTreeSet<T> = edges.keys().copied().collect();
    while let Some(&done) = left.iter().find(|node| edges[node].iter().all(|to| !left.contains(to)))
    {
        left.remove(&done);
    }
    let mut at = *left.first()?;
    let mut way = Vec::new();
    while !way.contains(&at) {
        way.push(at);
        at = *edges[&at].iter().find(|to| left.contains(to))?;
    }
    let start = way.iter().position(|node| *node == at)?;
    Some(way.split_off(start))
}

#[test]
fn paths_lead_to_files() {
    let mut code =
        "use super::{a::B, c};\npub(crate) use d::{E as F};\ncrate::g::h(super::i, j::k);\n".into();
    let names: Vec<_> =
        take_uses(&mut code).into_iter().map(|u| (u.name, u.path.join("::"), u.exports)).collect();
    let named = |a: &str, b: &str, exports| (a.to_owned(), b.to_owned(), exports);
    let all =
        [named("B", "super::a::B", false), named("c", "super::c", false), named("F", "d::E", true)];
    assert_eq!(names, all);
    assert_eq!(paths_in(&code, &BTreeSet::from([&"j".to_owned()])).len(), 3);
    let edges = |pairs: &[(&'static str, &[&'static str])]| -> BTreeMap<_, _> {
        let edge =
            |(from, to): &(&'static str, &[&'static str])| (*from, to.iter().copied().collect());
        pairs.iter().map(edge).collect()
    };
    assert_eq!(cycle(&edges(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    assert_eq!(cycle(&edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])), Some(vec!["b", "c"]));
}
