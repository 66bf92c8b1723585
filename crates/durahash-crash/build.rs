//! Copies the sources of Rewo-Hash and what it uses of its crate, with the changes that plant faults: so the
//! design itself has no hooks for them (`src/designs/planted/mod.rs`).

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "build/rewo.rs"]
mod rewo;

/// A piece of source, which stands once in a file of the design, and what stands there instead.
struct Change {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    copy_rewo(&out.join("planted"))
}

/// Rewo-Hash, and the files of its crate that it uses, and those that these use.
fn copy_rewo(out: &Path) -> Result {
    const DESIGN: &str = "rewo";
    const DESIGNS: &str = "designs";
    /// Where the copy stands in this crate.
    const HERE: &str = "crate::designs::planted";
    /// The module of the traits, of which there is no copy: the library's are implemented.
    const TRAITS: &str = "index";

    let copied = |text: &str| {
        let code = without_comments(text).replace("crate::", &format!("{HERE}::copy::"));
        let traits = format!("{HERE}::{TRAITS}");
        let code = code.replace(&format!("{HERE}::copy::{TRAITS}"), &traits);
        format!("use {HERE}::{{Fault, planted}};\n{code}")
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../durahash/src");
    let mut lost = Vec::new();
    let mut used = BTreeSet::new();
    for (name, text) in design(&root.join(DESIGNS).join(DESIGN))? {
        let planted = plant(rewo::CHANGES, &name, &text, &mut lost);
        modules_in(&planted, &mut used);
        write(&out.join(DESIGN).join(&name), &copied(&planted))?;
    }
    let mut done = BTreeSet::from([TRAITS.to_owned()]);
    while let Some(module) = used.difference(&done).next().cloned() {
        let text = read(&root.join(&module).with_extension("rs"))?;
        modules_in(&text, &mut used);
        write(&out.join(&module).with_extension("rs"), &copied(&text))?;
        done.insert(module);
    }
    done.remove(TRAITS);
    write_root(out, &[DESIGN], &done, &lost)
}

/// The files of a design, by name, without tests.
fn design(dir: &Path) -> Result<Vec<(String, String)>> {
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Directories have tests only.
        if entry.file_type()?.is_file() {
            let name = entry.file_name().into_string().map_err(|_| "a name that is no text")?;
            files.push((name, read(&entry.path())?));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A source without its unit tests, which are at its end.
fn read(path: &Path) -> Result<String> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path)?;
    Ok(text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(&text).to_owned() + "\n")
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::create_dir_all(path.parent().ok_or("a file in no directory")?)?;
    Ok(std::fs::write(path, text)?)
}

/// The copy's root, with what is changed there and nowhere in the sources any more.
fn write_root(out: &Path, public: &[&str], private: &BTreeSet<String>, lost: &[String]) -> Result {
    let mut all = String::new();
    for module in public {
        writeln!(all, "pub mod {module};")?;
    }
    for path in private {
        match path.split_once('/') {
            None => writeln!(all, "mod {path};")?,
            // The files of a folder stand together, since the paths are sorted.
            Some((folder, file)) => {
                let opened = format!("mod {folder} {{\n");
                if !all.contains(&opened) {
                    all += &(opened + "}\n");
                }
                all.truncate(all.len() - "}\n".len());
                writeln!(all, "pub mod {file};\n}}")?;
            }
        }
    }
    writeln!(all, "pub(super) const LOST: &[&str] = &{lost:?};")?;
    write(&out.join("mod.rs"), &all)
}

/// Makes all changes of one file. One whose text is not there exactly once is lost.
fn plant(changes: &[Change], file: &str, text: &str, lost: &mut Vec<String>) -> String {
    let mut planted = text.to_owned();
    for change in changes.iter().filter(|change| change.file == file) {
        if text.matches(change.from).count() == 1 && planted.matches(change.from).count() == 1 {
            planted = planted.replace(change.from, change.to);
        } else {
            lost.push(format!("{file}: {}", change.from));
        }
    }
    planted
}

/// The files of its crate that a source names, each as `folder/file`, or `file` at the root.
fn modules_in(text: &str, used: &mut BTreeSet<String>) {
    let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for part in code.flat_map(|line| line.split("crate::").skip(1)) {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let path = part[..end.unwrap_or(part.len())].split("::").take(2);
        used.insert(path.take_while(is_name).collect::<Vec<_>>().join("/"));
    }
}

/// The source without what is for readers.
fn without_comments(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}
