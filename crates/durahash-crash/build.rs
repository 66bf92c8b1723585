//! Copies the sources of Rewo-Hash, and of what it uses of its crate, with the changes that plant faults:
//! so the design itself has no hooks for them. See `src/designs/planted/mod.rs`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "build/changes.rs"]
mod changes;

use changes::CHANGES;

/// Where the copy stands in this crate.
const HERE: &str = "crate::designs::planted";
/// The design's own directory.
const DESIGN: &str = "rewo";
/// The module of the traits, of which there is no copy: the library's are implemented.
const TRAITS: &str = "index";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../durahash/src");
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("planted");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/changes.rs");
    std::fs::create_dir_all(out.join(DESIGN))?;

    let mut lost = Vec::new();
    let mut used = BTreeSet::new();
    println!("cargo::rerun-if-changed={}", root.join(DESIGN).display());
    for entry in std::fs::read_dir(root.join(DESIGN))? {
        let name = entry?.file_name().into_string().map_err(|_| "a name that is no text")?;
        let text = std::fs::read_to_string(root.join(DESIGN).join(&name))?;
        let planted = plant(&name, without_tests(&text), &mut lost);
        modules_in(&planted, &mut used);
        std::fs::write(out.join(DESIGN).join(&name), copied(&planted))?;
    }
    // What it uses, and what that uses.
    let mut done = BTreeSet::from([TRAITS.to_owned()]);
    while let Some(module) = used.difference(&done).next().cloned() {
        let path = root.join(&module).with_extension("rs");
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(path)?;
        modules_in(without_tests(&text), &mut used);
        let path = out.join(&module).with_extension("rs");
        std::fs::write(path, copied(without_tests(&text)))?;
        done.insert(module);
    }

    let mut all = format!("pub mod {DESIGN};\n");
    for module in done.iter().filter(|module| *module != TRAITS) {
        writeln!(all, "mod {module};")?;
    }
    // What is in the copy, and nowhere in the sources any more.
    writeln!(all, "pub(super) const LOST: &[&str] = &{lost:?};")?;
    std::fs::write(out.join("mod.rs"), all)?;
    Ok(())
}

/// Makes all changes of one file. One whose text is not there exactly once is lost.
fn plant(file: &str, text: &str, lost: &mut Vec<String>) -> String {
    let mut planted = text.to_owned();
    for change in CHANGES.iter().filter(|change| change.file == file) {
        if text.matches(change.from).count() == 1 && planted.matches(change.from).count() == 1 {
            planted = planted.replace(change.from, change.to);
        } else {
            lost.push(format!("{file}: {}", change.from));
        }
    }
    planted
}

/// The source without its unit tests, which are at its end.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// The modules of its crate that a source names.
fn modules_in(text: &str, used: &mut BTreeSet<String>) {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for part in code.flat_map(|line| line.split("crate::").skip(1)) {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
        used.insert(part[..end].to_owned());
    }
}

/// The source as it stands in the copy: names lead to it, and what is for readers is left out.
fn copied(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let traits = format!("{HERE}::{TRAITS}");
    let code = code.replace("crate::", &format!("{HERE}::copy::"));
    let code = code.replace(&format!("{HERE}::copy::{TRAITS}"), &traits);
    format!("use {HERE}::{{Fault, planted}};\n{code}")
}
