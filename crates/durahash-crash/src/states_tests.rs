use std::collections::BTreeSet;

use durahash_media::sim::{Sim, name_thread};
use durahash_media::{Memory, PmU64, Storage};

use super::*;

/// All images seen. Each must come once, with the right hash.
#[derive(Default)]
struct Seen {
    images: BTreeSet<Vec<u64>>,
    visits: usize,
}

impl Visit for Seen {
    fn passed(&mut self, _step: usize) -> bool {
        false
    }

    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()> {
        assert_eq!(state.hash, image_hash(state.image));
        self.images.insert(state.image.to_vec());
        self.visits += 1;
        ControlFlow::Continue(())
    }
}

/// The states at the end of what `run` does to a medium of three lines of zeros, as the words of
/// the first line and the first word of the second.
fn ends(model: Model, run: impl FnOnce(&Sim, &[PmU64])) -> BTreeSet<[u64; 3]> {
    let image = [0; 24];
    let sim = Sim::from_image(&image, 4096);
    name_thread(1);
    sim.record(Vec::new());
    run(&sim, sim.region().words(0, 24).unwrap());
    let trace = sim.recorded();
    let mut seen = Seen::default();
    let flow = Explorer::new(model, 1).explore(&image, &trace, trace.len(), &mut seen);
    assert!(flow.is_continue());
    assert_eq!(seen.visits, seen.images.len(), "each state once");
    let short = |image: &Vec<u64>| [image[0], image[1], image[8]];
    seen.images.iter().map(short).collect()
}

#[test]
fn of_a_line_a_prefix_of_two_lines_any() {
    let run = |sim: &Sim, words: &[PmU64]| {
        sim.store(&words[0], 1);
        sim.store(&words[8], 1);
        sim.store(&words[1], 1);
        sim.store(&words[0], 2);
    };
    let line = [[0, 0], [1, 0], [1, 1], [2, 1]];
    let x86 = line.iter().flat_map(|[a, b]| [[*a, *b, 0], [*a, *b, 1]]);
    assert_eq!(ends(Model::X86, run), x86.collect());
    let word = (0..12).map(|i| [i % 3, i / 3 % 2, i / 6]);
    assert_eq!(ends(Model::Word, run), word.collect());
    assert_eq!(ends(Model::Program, run), [[2, 1, 1]].into());
}

#[test]
fn a_flush_takes_what_was_stored_and_a_fence_of_its_thread_makes_it_durable() {
    let run = |fence: fn(&Sim)| {
        move |sim: &Sim, words: &[PmU64]| {
            sim.store(&words[0], 1);
            sim.flush(&words[0]);
            sim.store(&words[1], 1);
            fence(sim);
        }
    };
    let anything = [[0, 0, 0], [1, 0, 0], [1, 1, 0]].into();
    let flushed = [[1, 0, 0], [1, 1, 0]].into();
    assert_eq!(ends(Model::X86, run(|_| ())), anything);
    assert_eq!(ends(Model::X86, run(|sim| sim.fence())), flushed);
    assert_eq!(ends(Model::X86, run(|sim| sim.drain())), flushed);
    let other = |sim: &Sim| {
        name_thread(2);
        sim.fence();
    };
    assert_eq!(ends(Model::X86, run(other)), anything);
    assert_eq!(ends(Model::X86, run(|sim| sim.sync(0, 64).unwrap())), anything);
    assert_eq!(ends(Model::Word, run(|sim| sim.fence())), flushed);
}

#[test]
fn a_locked_instruction_orders_flushes_on_x86_alone() {
    let run = |sim: &Sim, words: &[PmU64]| {
        sim.store(&words[0], 1);
        sim.flush(&words[0]);
        sim.cas(&words[8], 0, 5).unwrap();
    };
    assert_eq!(ends(Model::X86, run), [[1, 0, 0], [1, 0, 5]].into());
    let word = [[0, 0, 0], [1, 0, 0], [0, 0, 5], [1, 0, 5]];
    assert_eq!(ends(Model::Word, run), word.into());
}

#[test]
fn of_nontemporal_stores_any_until_a_fence() {
    let run = |sim: &Sim, words: &[PmU64]| {
        sim.store_nt(&words[0], 1);
        sim.store_nt(&words[1], 1);
    };
    let any = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]];
    assert_eq!(ends(Model::X86, run), any.into());
    let fenced = |sim: &Sim, words: &[PmU64]| {
        run(sim, words);
        sim.fence();
        sim.store(&words[1], 2);
    };
    assert_eq!(ends(Model::X86, fenced), [[1, 1, 0], [1, 2, 0]].into());
    // A word keeps the order of stores of either kind.
    let mixed = |sim: &Sim, words: &[PmU64]| {
        sim.store(&words[0], 1);
        sim.store_nt(&words[0], 2);
        sim.store(&words[0], 3);
        sim.fence();
    };
    assert_eq!(ends(Model::X86, mixed), [[2, 0, 0], [3, 0, 0]].into());
}

#[test]
fn a_file_that_is_cut_loses_what_was_on_its_way() {
    let image = [1; 16];
    let sim = Sim::from_image(&image, 4096);
    sim.record(Vec::new());
    let words = sim.region().words(0, 16).unwrap();
    sim.store(&words[1], 2);
    sim.store(&words[9], 2);
    sim.trim(64).unwrap();
    sim.grow(192).unwrap();
    let trace = sim.recorded();
    let mut seen = Seen::default();
    let mut explorer = Explorer::new(Model::X86, 1);
    let flow = explorer.explore(&image, &trace, trace.len(), &mut seen);
    assert!(flow.is_continue());
    let left = |v| {
        let mut image = vec![0; 24];
        image[..8].fill(1);
        image[1] = v;
        image
    };
    assert_eq!(seen.images, [left(1), left(2)].into());
}

#[test]
fn points_between_miss_nothing() {
    // Whatever is visited anywhere in a trace is visited by a walk that stops at every step.
    let image = [0; 24];
    let sim = Sim::from_image(&image, 4096);
    let words = sim.region().words(0, 24).unwrap();
    let mut rng = Rng::new(7);
    for model in Model::ALL {
        sim.record(Vec::new());
        for v in 1..40 {
            let word = &words[rng.below(24)];
            match rng.below(4) {
                0 => sim.flush(word),
                1 => sim.fence(),
                _ => sim.store(word, v),
            }
        }
        let trace = sim.recorded();
        let mut seen = Seen::default();
        let mut explorer = Explorer::new(model, 1);
        assert!(explorer.explore(&image, &trace, 0, &mut seen).is_continue());
        let mut each = Seen::default();
        for end in 0..=trace.len() {
            let flow = explorer.explore(&image, &trace[..end], end, &mut each);
            assert!(flow.is_continue());
        }
        assert_eq!(seen.images, each.images, "{model:?}");
    }
}

#[test]
fn of_too_many_states_the_extremes_and_a_sample() {
    let image = [0; 1024];
    let sim = Sim::from_image(&image, 8192);
    sim.record(Vec::new());
    let words = sim.region().words(0, 1024).unwrap();
    words.iter().for_each(|word| sim.store(word, 1));
    let trace = sim.recorded();
    let mut seen = Seen::default();
    let flow = Explorer::new(Model::X86, 1).explore(&image, &trace, 0, &mut seen);
    assert!(flow.is_continue());
    // 128 lines: none, all, each alone, all but each, and the sample.
    assert_eq!(seen.visits, 2 + 2 * 128 + SAMPLES as usize);
    let full_lines = |image: &Vec<u64>| image.iter().sum::<u64>() / 8;
    let of = |count| seen.images.iter().filter(|i| full_lines(i) == count).count();
    assert_eq!((of(0), of(1), of(127), of(128)), (1, 128, 128, 1));
}
