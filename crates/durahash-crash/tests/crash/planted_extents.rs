//! A fault that giving extents back invites, planted and found: an extent is free before the merge that
//! empties it, or whatever else replaces what lies there, is durable.

use durahash_crash::cases::named;
use durahash_crash::mutate::Verdict;
use durahash_crash::run::Tester;
use durahash_crash::states::Model;
use durahash_media::sim::{Action, Step, budget};

use crate::planted_esh::{Functions, is_store};

/// File, function and line of a store.
type Place = (&'static str, &'static str, &'static str);

/// Plants it into a copy of `steps`, where it is committed there that nothing names the extent; the first step that is another one.
fn released_first(
    of: &Functions,
    commit: Place,
    steps: &[Step],
    out: &mut Vec<Step>,
) -> Option<usize> {
    out.clear();
    out.extend_from_slice(steps);
    let mut first = None;
    for fence in 0..out.len() {
        if out[fence].action != Action::Fence
            || !of.is(&out[fence], "pool/extents.rs", "release", "")
        {
            continue;
        }
        let (file, function, line) = commit;
        let is_commit = |step: &Step| is_store(step) && of.is(step, file, function, line);
        let kind = (0..fence).rev().find(|i| is_store(&out[*i]))?;
        if let Some(commit) = (0..kind).rev().find(|i| is_commit(&out[*i])) {
            out[commit..=fence].rotate_right(fence + 1 - kind);
            first.get_or_insert(commit);
        }
    }
    first
}

#[test]
fn an_extent_that_is_released_too_early_is_found() {
    let of = Functions::default();
    for (name, prefill, commit) in [
        ("reh", "emptied", ("reh/grow.rs", "commit_merge", "medium.store(to")),
        ("esh", "emptied", ("extendible/array.rs", "store", "medium.store(word")),
        // The small segments that two large ones have replaced.
        ("pea-small", "grown", ("extendible/array.rs", "write", "map.set_root(")),
    ] {
        let case = &named(name);
        let mut tester = Tester::new(case, Model::X86).one_in(budget(16, 1));
        tester.keep_corpus();
        let base = tester.base(prefill).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(base.is_some(), "crashes on the way there were looked at");
        let verdict = tester.planted(|steps, out| released_first(&of, commit, steps, out));
        println!("{name}: {verdict:?}");
        assert!(matches!(verdict, Verdict::Caught(_)), "{name}: {verdict:?}");
    }
}
