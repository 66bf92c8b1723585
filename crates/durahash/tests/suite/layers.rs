//! Modules import downward only, designs do not import one another, and unsafe code has one home.
//!
//! The order is the one that each `lib.rs` shows: groups of `mod` lines, from low to high. A module
//! may use what stands in a group above its own; those of one group stand side by side.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::imports::{Files, cycle};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The group of each module, by the `mod` lines of `lib.rs`.
fn groups(lib: &str) -> HashMap<&str, usize> {
    let mut groups = HashMap::new();
    for (number, group) in lib.split("\n\n").enumerate() {
        for line in group.lines() {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            if let Some(name) = line.strip_prefix("mod ") {
                groups.insert(name.trim_end_matches([';', '{', '}', ' ']), number);
            }
        }
    }
    groups
}

/// All source files below `dir`, each with the path of its module.
pub(crate) fn sources(dir: &Path, module: &[String], found: &mut Vec<(PathBuf, Vec<String>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let mut module = module.to_vec();
        module.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            sources(&path, &module, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("tests.rs") {
            module.retain(|name| name != "mod");
            found.push((path, module));
        }
    }
}

/// The top modules of this crate that a line of `module` names by `crate::` or `super::`.
fn named<'a>(line: &'a str, module: &[String]) -> Vec<&'a str> {
    let code = line.split("//").next().unwrap_or("");
    let name = |rest: &'a str| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    };
    // A macro writes `$crate::` for the crate that uses it.
    let paths = code.match_indices("crate::").filter(|(i, _)| !code[..*i].ends_with('$'));
    let mut names: Vec<_> = paths.map(|(i, path)| name(&code[i + path.len()..])).collect();
    let mut rest = code.trim_start();
    rest = rest.split_once("use ").map_or("", |(_, rest)| rest);
    let mut depth = module.len();
    while let Some(after) = rest.strip_prefix("super::") {
        (rest, depth) = (after, depth - 1);
        // In a test module within the file, the first `super` is the file itself.
        if depth == 0 && !rest.starts_with('*') {
            names.push(name(rest));
            break;
        }
    }
    names
}

#[test]
fn no_module_imports_upward() {
    let mut wrong = Vec::new();
    for (name, macros) in [
        ("durahash-media", &["on_media"][..]),
        ("durahash", &[]),
        ("durahash-bench", &[]),
        ("durahash-remote", &[]),
        ("durahash-ucx", &[]),
    ] {
        let src = crates().join(name).join("src");
        let lib = read(&src.join("lib.rs"));
        let groups = groups(&lib);
        let mut files = Vec::new();
        sources(&src, &[], &mut files);
        assert!(files.len() > groups.len(), "{name}: {groups:?}");
        for (path, module) in files.iter().filter(|(_, module)| module[0] != "lib") {
            let own = groups[module[0].as_str()];
            let text = read(path);
            // Tests may use the whole crate.
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
            for (i, line) in code.lines().enumerate() {
                for used in named(line, module) {
                    let fine = match groups.get(used) {
                        Some(group) => used == module[0] || *group < own,
                        // What the crate re-exports would hide which module is used.
                        None => macros.contains(&used),
                    };
                    if !fine {
                        wrong.push(format!("{}:{}: {}", path.display(), i + 1, line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports from above or the side:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_one_another() {
    for name in ["durahash-media", "durahash-ucx"] {
        let files = Files::read(&crates().join(name).join("src"));
        let imports = files.imports();
        assert!(imports.values().any(|to| to.len() > 3), "{name}: imports are seen");
        if let Some(cycle) = cycle(&imports) {
            let way: Vec<_> = cycle.iter().map(|module| module.join("::")).collect();
            panic!(
                "{name}: each of these imports from the next, the last from the first: {way:#?}"
            );
        }
    }
}

/// The walk above is no use if it sees nothing.
#[test]
fn imports_are_seen() {
    let module = ["reh", "grow"].map(String::from);
    let seen = |line| named(line, &module);
    assert_eq!(seen("use crate::map::Map;"), ["map"]);
    assert_eq!(seen("    crate::a::b(crate::c::D)"), ["a", "c"]);
    assert_eq!(seen("use super::super::esh::Esh;"), ["esh"]);
    assert!(seen("use super::layout::Link;").is_empty());
    assert!(seen("/// [`Map`](crate::Map)").is_empty());
    assert!(seen("$crate::Field {").is_empty());
    assert_eq!(named("pub(crate) use super::raw::Raw;", &module[..1]), ["raw"]);
    let lib = "mod a;\npub mod b;\n\n#[cfg(x)]\nmod c;\n";
    assert_eq!(groups(lib), [("a", 0), ("b", 0), ("c", 1)].into());
}

/// Bindings to C, which have one file.
const BINDINGS: [&str; 2] = ["durahash-ucx", "sys.rs"];

#[test]
fn unsafe_code_is_in_the_media_crate_and_bindings_only() {
    for entry in fs::read_dir(crates()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() == "durahash-media" {
            continue;
        }
        if path.file_name().unwrap() == BINDINGS[0] {
            let mut files = Vec::new();
            sources(&path.join("src"), &[], &mut files);
            for (file, _) in files.iter().filter(|(file, _)| !file.ends_with(BINDINGS[1])) {
                let text = read(file);
                assert!(!text.contains("unsafe {") && !text.contains("unsafe impl"), "{file:?}");
            }
            assert!(read(&path.join("src/lib.rs")).contains("\n#![deny(unsafe_code)]\n"));
            continue;
        }
        for root in ["src/lib.rs", "src/main.rs"] {
            let root = path.join(root);
            assert!(
                !root.exists() || read(&root).contains("\n#![forbid(unsafe_code)]\n"),
                "{} does not forbid unsafe code",
                root.display()
            );
        }
    }
}
