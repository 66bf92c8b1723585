//! The miniature of the papers' figures, by the program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::SystemTime;

fn paper(words: &str, dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durahash-baselines"));
    command.arg("paper").args(words.split(' ')).arg("--report").arg(dir);
    command.output().unwrap()
}

fn files(dir: &Path, end: &str) -> BTreeMap<String, SystemTime> {
    let all = fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let named = all.map(|file| {
        (file.file_name().into_string().unwrap(), file.metadata().unwrap().modified().unwrap())
    });
    named.filter(|(name, _)| name.ends_with(end)).collect()
}

/// Each number that stands beside one of a paper is measured, and lies where it has to; all figures are drawn; a second
/// run measures nothing.
#[test]
fn the_miniature_has_the_numbers_of_the_papers() {
    let dir = tempfile::tempdir().unwrap();
    let papers = Mutex::new(["reh", "sephash", "pea", "esh", "rewo"].into_iter());
    let next = || papers.lock().unwrap().next();
    let measure = || {
        while let Some(name) = next() {
            let done = paper(&format!("{name} --small"), dir.path());
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    };
    // Two at a time, as each goes by one thread most of the time.
    std::thread::scope(|scope| {
        scope.spawn(measure);
        measure();
    });
    let mut wrong = Vec::new();
    for name in files(dir.path(), ".md").keys() {
        let page = fs::read_to_string(dir.path().join(name)).unwrap();
        wrong.extend(
            page.lines()
                .filter(|line| {
                    line.starts_with("| ")
                        && (line.contains("| not measured") || line.contains(", not in "))
                })
                .map(|line| format!("{name}: {line}")),
        );
        for figure in page.lines().filter(|line| line.starts_with("![")) {
            let file = figure.rsplit('(').next().unwrap().trim_end_matches(')');
            assert!(dir.path().join(file).exists(), "{file}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let before = files(dir.path(), ".json");
    assert!(before.len() > 20, "{before:?}");
    assert!(paper("all --small", dir.path()).status.success());
    assert_eq!(files(dir.path(), ".json"), before);
    // Rows of other numbers of keys are no part of the same page.
    let other = paper("reh --figure 8 --keys 5000", dir.path());
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("name another directory"));
}
