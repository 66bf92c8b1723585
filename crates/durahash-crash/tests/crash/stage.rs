//! One thread that is held up before any of its calls into the medium, while others do whole operations
//! and one may be held up in the middle of another: every such place, one after the other. Schedules
//! at random hit the narrow ones too rarely.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use durahash::reh;
use durahash::rewo::{Fault, plant};
use durahash_crash::case::{Case, Table};
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::quiet::catch;
use durahash_crash::script::Op;
use durahash_crash::states::{CrashState, Explorer, Model};
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site, name_thread, seed};

/// An operation that needs more calls into the medium than this waits for ever.
const CALLS_MAX: u64 = 100_000;
/// How long a thread that waits for another sleeps between two looks.
const WAIT: Duration = Duration::from_micros(50);

/// The operations of threads, and the states in which they are held up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) before: Vec<Op>,
    /// Done by the one that is held up, in the first of these.
    pub(crate) one: Vec<Op>,
    /// Done as a whole while the one is held up.
    pub(crate) whole: Vec<Op>,
    /// Done after that by another thread, until it has ended or waits.
    pub(crate) other: Vec<Op>,
    /// The other thread is held up, too, until the one has ended or waits for it.
    pub(crate) stands: bool,
    /// Done as a whole while both are held up. The one must hold nothing that this needs.
    pub(crate) meanwhile: Vec<Op>,
    /// Crashes are looked at, after the others' answers.
    pub(crate) crashes: bool,
    /// The table was opened again before the one begins.
    pub(crate) reopens: bool,
    /// The fault of the other thread, of Rewo-Hash or of REH; the caller of `play` plants its own.
    pub(crate) fault: Option<Fault>,
    pub(crate) reh_fault: Option<reh::Fault>,
}

/// Another thread, and how far it is.
#[derive(Default)]
pub(crate) struct Other {
    state: Mutex<State>,
    turned: Condvar,
    /// Calls that are left until it is held up.
    left: AtomicUsize,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct State {
    pub(crate) waits: bool,
    pub(crate) stands: bool,
    may_go_on: bool,
    ended: bool,
}

/// True if this is the call at which to stop.
fn is_due(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
}

impl Other {
    pub(crate) fn state(&self) -> State {
        *self.state.lock().unwrap()
    }

    fn turn(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock().unwrap());
        self.turned.notify_all();
    }

    fn wait_until(&self, f: impl Fn(&State) -> bool) {
        drop(self.turned.wait_while(self.state.lock().unwrap(), |state| !f(state)).unwrap());
    }

    /// Lets it begin, and returns when it is held up, waits, or has ended.
    pub(crate) fn begin<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let this = Arc::clone(self);
        let thread = std::thread::spawn(move || {
            let done = work();
            this.turn(|state| state.ended = true);
            done
        });
        self.wait_until(|state| state.stands || state.waits || state.ended);
        thread
    }

    /// Comes before each of its calls.
    pub(crate) fn before(&self, call: Call) {
        if is_due(&self.left) {
            self.turn(|state| state.stands = true);
            self.wait_until(|state| state.may_go_on);
        } else if call == Call::Event(Event::Wait) && self.left.load(Ordering::Relaxed) == 0 {
            self.turn(|state| state.waits = true);
            // Not just a yield: calls may be counted, and the one that is waited for may have to wait for
            // a processor.
            std::thread::sleep(WAIT);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Nobody,
    One,
    Other,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Nobody) };
}

struct Stage {
    of: Arc<(Case, Scene)>,
    /// Until the end: the medium holds the hook, which holds this.
    live: Mutex<Option<(Sim, Arc<dyn Table>)>>,
    /// The medium before.
    image: Vec<u64>,
    initial: Vec<Option<u64>>,
    /// Calls that are left until the one is held up.
    left: AtomicUsize,
    other: Arc<Other>,
    thread: Mutex<Option<JoinHandle<()>>>,
    clock: AtomicU64,
    /// By key.
    histories: Mutex<Vec<Vec<Operation>>>,
    /// The first violation.
    wrong: Mutex<Option<String>>,
}

impl Stage {
    fn tell(&self, wrong: String) {
        self.wrong.lock().unwrap().get_or_insert(wrong);
    }

    /// Does an operation, and writes it down.
    fn apply(&self, table: &dyn Table, op: Op) {
        let key = op.key().map(usize::from);
        let begin = self.clock.fetch_add(1, Ordering::SeqCst);
        let at = key.map_or(0, |key| {
            let history = &mut self.histories.lock().unwrap()[key];
            history.push(Operation { op, begin, end: None });
            history.len() - 1
        });
        let word = key.map_or(0, |key| self.of.0.keys[key]);
        match catch(|| table.apply(op, word)) {
            Ok(Ok(answer)) => {
                let end = self.clock.fetch_add(1, Ordering::SeqCst);
                if let Some(key) = key {
                    self.histories.lock().unwrap()[key][at].end = Some((end, answer));
                }
            }
            Ok(Err(e)) => self.tell(format!("{op}: {e}")),
            Err(said) => self.tell(format!("{op}: {said}")),
        }
    }

    /// Runs the others' operations while the one is held up.
    fn let_others(self: &Arc<Self>) {
        let (_, scene) = &*self.of;
        ROLE.set(Role::Nobody);
        let (sim, table) = self.live.lock().unwrap().clone().expect("not over");
        scene.whole.iter().for_each(|op| self.apply(&*table, *op));
        let (stage, held) = (Arc::clone(self), Arc::clone(&table));
        let thread = self.other.begin(move || {
            ROLE.set(Role::Other);
            name_thread(2);
            plant(stage.of.1.fault);
            reh::plant(stage.of.1.reh_fault);
            stage.of.1.other.iter().for_each(|op| stage.apply(&*held, *op));
        });
        *self.thread.lock().unwrap() = Some(thread);
        if scene.crashes {
            self.crash(&sim);
        }
        ROLE.set(Role::One);
        scene.meanwhile.iter().for_each(|op| self.apply(&*table, *op));
    }

    /// Recovers what a crash leaves now, and holds it against the answers.
    fn crash(&self, sim: &Sim) {
        let (case, trace) = (&self.of.0, sim.recorded());
        let histories = self.histories.lock().unwrap().clone();
        let allowed = self.initial.iter().zip(&histories).map(|(v, done)| outcomes(*v, done));
        let allowed: Vec<_> =
            allowed.enumerate().filter(|(i, _)| !histories[*i].is_empty()).collect();
        let mut judge = |state: &CrashState<'_>| {
            let sim = Sim::from_image(state.image, case.max_bytes);
            let table = (case.open)(sim).expect("recovered");
            for (key, allowed) in &allowed {
                let held = table.apply(Op::Get(*key as u16), case.keys[*key]).expect("a lookup");
                if !allowed.contains(&held) {
                    self.tell(format!("a crash leaves {held:?}, explained are {allowed:?}"));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let _ =
            Explorer::new(Model::X86, seed(1)).explore(&self.image, &trace, usize::MAX, &mut judge);
    }
}

struct Switch(Arc<Stage>);

impl Hook for Switch {
    fn before(&self, call: Call, _site: Site) {
        let Stage { of, left, other, .. } = &*self.0;
        match ROLE.get() {
            Role::Nobody => {}
            // A reader may wait for a writer that makes its change visible, a writer for its locks.
            Role::One if of.1.stands && call == Call::Event(Event::Wait) => {
                other.turn(|state| state.may_go_on = true);
                other.wait_until(|state| state.ended);
            }
            Role::One if is_due(left) => self.0.let_others(),
            // Sleeps: the other one may need this processor, and every wait costs a counted call.
            Role::One if call == Call::Event(Event::Wait) => std::thread::sleep(WAIT),
            Role::One => {}
            Role::Other => other.before(call),
        }
    }
}

/// Returns true if the one was held up before its call of this number, and how far the other one came that was to
/// be held up before its own.
fn play(of: &Arc<(Case, Scene)>, one: usize, other: usize) -> Result<(bool, State), String> {
    let (case, scene) = &**of;
    let mut sim = Sim::new(case.max_bytes);
    let mut table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).expect("a table"));
    let mut initial = vec![None; case.keys.len()];
    for op in &scene.before {
        let key = usize::from(op.key().expect("every one has a key"));
        table.apply(*op, case.keys[key]).expect("nothing fails here");
        initial[key] = op.outcome(initial[key]);
    }
    if scene.reopens {
        sim = Sim::from_image(&sim.image(), case.max_bytes);
        table = Arc::from((case.open)(sim.clone()).expect("it opens"));
    }
    let stage = Arc::new(Stage {
        of: Arc::clone(of),
        live: Mutex::new(Some((sim.clone(), Arc::clone(&table)))),
        image: if scene.crashes { sim.image() } else { Vec::new() },
        left: AtomicUsize::new(one),
        other: Arc::new(Other { left: AtomicUsize::new(other), ..Other::default() }),
        thread: Mutex::default(),
        clock: AtomicU64::new(0),
        histories: Mutex::new(vec![Vec::new(); initial.len()]),
        initial,
        wrong: Mutex::default(),
    });
    sim.set_hook(Box::new(Switch(Arc::clone(&stage))));
    sim.set_budget(Some(CALLS_MAX));
    name_thread(1);
    if scene.crashes {
        sim.record(Vec::new());
    }
    ROLE.set(Role::One);
    for op in &scene.one {
        stage.apply(&*table, *op);
        // A value that was seen once stays, also while the other one is held up.
        stage.left.store(0, Ordering::Relaxed);
    }
    ROLE.set(Role::Nobody);
    stage.other.turn(|state| state.may_go_on = true);
    let thread = stage.thread.lock().unwrap().take();
    let was_held_up = thread.is_some();
    thread.into_iter().for_each(|thread| thread.join().expect("it ends"));
    *stage.live.lock().unwrap() = None;

    if stage.wrong.lock().unwrap().is_none() {
        (0..case.keys.len() as u16).for_each(|key| stage.apply(&*table, Op::Get(key)));
        table.check(&mut |finding| stage.tell(format!("{finding:?}"))).expect("checks");
        for (key, history) in stage.histories.lock().unwrap().iter().enumerate() {
            if outcomes(stage.initial[key], history).is_empty() {
                stage.tell(format!("key {key} is not linearizable: {history:?}"));
            }
        }
    }
    let wrong = stage.wrong.lock().unwrap().take();
    wrong.map_or_else(|| Ok((was_held_up, stage.other.state())), Err)
}

/// How often a scene was played, and how often the other one waited.
#[derive(Default)]
pub(crate) struct Plays {
    pub(crate) plays: usize,
    pub(crate) waited: usize,
}

/// Plays a scene with the one, and the other if it is to stand, held up before each call in turn.
pub(crate) fn every_place(case: &Case, scene: &Scene) -> Result<Plays, String> {
    let of = Arc::new((case.clone(), scene.clone()));
    let mut all = Plays::default();
    for one in 1.. {
        let mut reached = false;
        for other in 1.. {
            let other = if scene.stands { other } else { 0 };
            let (was_held_up, state) = play(&of, one, other)
                .map_err(|wrong| format!("held up at {one} and {other} of {scene:?}: {wrong}"))?;
            reached |= was_held_up;
            all.plays += 1;
            all.waited += usize::from(state.waits);
            if !state.stands {
                break;
            }
        }
        if !reached {
            break;
        }
    }
    Ok(all)
}

/// Puts of these keys.
pub(crate) fn puts(keys: &[u16]) -> Vec<Op> {
    keys.iter().map(|key| Op::Put(*key, 1)).collect()
}
