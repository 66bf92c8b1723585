//! Modules import downward only, designs do not import one another, and unsafe code has one home.
//!
//! The order is the one that each `lib.rs` shows, and the `mod.rs` of each folder that says so: groups of `mod`
//! lines, from low to high. A module may use what stands in a group above its own; those of one group stand side by
//! side. No files of a library import one another, and no modules that stand side by side in the other crates.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::imports::{Files, cycle};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The crates whose imports are looked at.
const CRATES: [&str; 5] =
    ["durahash-media", "durahash", "durahash-bench", "durahash-remote", "durahash-ucx"];

/// Stands above the `mod` lines of a folder that are in order.
const LISTED: &str = "// From low to high.\n";

/// The group of each module, by the `mod` lines of `lib.rs` or of a folder.
fn groups(lib: &str) -> HashMap<&str, usize> {
    let mut groups = HashMap::new();
    for (number, group) in lib.split("\n\n").enumerate() {
        for line in group.lines() {
            let line = line.strip_prefix("pub").unwrap_or(line);
            let line = line.trim_start_matches("(in crate::medium)").trim_start_matches("(crate)");
            let line = line.trim_start();
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

#[test]
fn no_module_imports_upward() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let files = Files::read(&crates().join(name).join("src"));
        let imports = files.imports(true);
        assert!(imports.values().any(|to| to.len() > 3), "{name}: imports are seen");
        for (from, to) in
            imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (*from, *to)))
        {
            // Each folder that is listed from low to high has an order of its own.
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            let (Some(own), Some(other)) = (from.get(common), to.get(common)) else {
                // A re-export of the crate's root hides the module that is used.
                if to.is_empty() {
                    wrong.push(format!("{name}: {} from the root", from.join("::")));
                }
                continue;
            };
            let folder = files.text(&from[..common]);
            let groups = groups(folder);
            if (common == 0 || folder.contains(LISTED))
                && groups[other.as_str()] >= groups[own.as_str()]
            {
                wrong.push(format!("{name}: {} from {}", from.join("::"), to.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "imports from above or the side:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_one_another() {
    let libraries = ["durahash-media", "durahash", "durahash-remote", "durahash-ucx"];
    let others = ["durahash-bench", "durahash-cli", "durahash-crash", "durahash-testkit"];
    let outside = ["../fuzz", "../compare", "../compare/baselines"];
    for name in libraries.into_iter().chain(others).chain(outside) {
        let files = Files::read(&crates().join(name).join("src"));
        let mut imports: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
        for (from, all) in files.imports(false) {
            for to in all {
                let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                if libraries.contains(&name) {
                    imports.entry(from).or_default().insert(to);
                } else if common < from.len().min(to.len()) {
                    // A module and its children count as one there.
                    imports.entry(&from[..=common]).or_default().insert(&to[..=common]);
                }
            }
        }
        if let Some(cycle) = cycle(&imports) {
            let way: Vec<_> = cycle.iter().map(|module| module.join("::")).collect();
            panic!(
                "{name}: each of these imports from the next, the last from the first: {way:#?}"
            );
        }
    }
}

#[test]
fn groups_are_seen() {
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
