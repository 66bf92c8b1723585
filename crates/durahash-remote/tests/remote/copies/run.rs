//! A run: clients, two nodes, and a scheduler that decides by a seed.

use std::collections::BTreeMap;

use crate::miniature::random::Random;

/// Words of the log; they last for all that clients append.
const WORDS: usize = 16;
const CLIENTS: usize = 3;
/// Operations of a client.
const OPERATIONS: u64 = 3;
/// Steps after which a run is stuck.
const STEPS: u64 = 5_000;

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The backup's word is swapped before the primary's.
    BackupFirst,
    /// The second swap is posted when the first one has succeeded.
    OneAfterTheOther,
    /// Who finds a word decided at the backup completes it at the primary.
    Complete,
    /// And waits for that before it goes on.
    AwaitCompletion,
    /// Reads go to the primary.
    ReadPrimary,
    /// A new view begins when no client of the old one posts any more.
    Fence,
}

impl Rule {
    pub(super) const ALL: [Self; 6] = [
        Rule::BackupFirst,
        Rule::OneAfterTheOther,
        Rule::Complete,
        Rule::AwaitCompletion,
        Rule::ReadPrimary,
        Rule::Fence,
    ];
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    /// From free to a value.
    Swap(u64),
}

/// A verb on one word. The answer is what the word was.
#[derive(Clone, Copy, Debug)]
struct Verb {
    client: usize,
    node: usize,
    at: usize,
    kind: Kind,
    answer: Option<u64>,
    /// Nobody waits for it.
    loose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Between two operations.
    Idle,
    /// The words of the primary are read.
    Look,
    /// The first swap, of the first node in the order of swaps.
    Decide {
        at: usize,
    },
    /// The second one, of the value that was decided.
    Complete {
        at: usize,
        mine: bool,
    },
    /// Both in one batch, where that rule is left out.
    Both {
        at: usize,
    },
    Dead,
}

struct Client {
    step: Step,
    /// The nodes that it takes for those of the index: the primary, and the backup.
    view: (usize, Option<usize>),
    left: u64,
    /// The value that it appends; 0 while it reads.
    value: u64,
    began: u64,
}

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Values that are in the log, by the time of the answer.
    appended: BTreeMap<u64, u64>,
    /// When a read began and ended, and what it saw.
    reads: Vec<(u64, u64, Vec<u64>)>,
}

struct Run {
    random: Random,
    without: Option<Rule>,
    nodes: [[u64; WORDS]; 2],
    /// The node that is dead.
    dead: Option<usize>,
    view: (usize, Option<usize>),
    clients: Vec<Client>,
    verbs: Vec<Verb>,
    now: u64,
    told: Told,
}

/// Runs a schedule; an error says what is wrong with what clients were told.
pub(super) fn run(seed: u64, without: Option<Rule>) -> Result<(), String> {
    let view = (0, Some(1));
    let client = |_| Client { step: Step::Idle, view, left: OPERATIONS, value: 0, began: 0 };
    let mut run = Run {
        random: Random::new(seed),
        without,
        nodes: [[0; WORDS]; 2],
        dead: None,
        view,
        clients: (0..CLIENTS).map(client).collect(),
        verbs: Vec::new(),
        now: 0,
        told: Told::default(),
    };
    let excluded_at = run.random.below(150);
    while run.clients.iter().any(|client| client.step != Step::Dead && client.left > 0) {
        run.now += 1;
        if run.now > STEPS {
            return Err("a client does not end".into());
        }
        if run.now == excluded_at {
            run.exclude();
        }
        run.step();
    }
    run.judge()
}

impl Run {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// One thing happens: a verb takes effect, a client goes on, or dies.
    fn step(&mut self) {
        let waiting: Vec<usize> =
            (0..self.verbs.len()).filter(|i| self.verbs[*i].answer.is_none()).collect();
        if !waiting.is_empty() && !self.random.one_in(3) {
            let verb = self.random.pick(&waiting);
            return self.take_effect(verb);
        }
        let client = self.random.below(CLIENTS as u64) as usize;
        let alive = self.clients.iter().filter(|client| client.step != Step::Dead).count();
        if self.clients[client].step == Step::Dead {
            return;
        }
        if alive > 1 && self.random.one_in(60) {
            self.clients[client].step = Step::Dead;
            // The others take effect at any time.
            let random = &mut self.random;
            self.verbs.retain(|verb| verb.client != client || random.one_in(2));
            return;
        }
        let own = |verb: &&Verb| verb.client == client && !verb.loose;
        if self.verbs.iter().filter(own).all(|verb| verb.answer.is_some()) {
            self.go_on(client);
        }
    }

    fn take_effect(&mut self, i: usize) {
        let verb = self.verbs[i];
        if self.dead == Some(verb.node) {
            // It never answers: the client learns of the new view.
            self.verbs.remove(i);
            if !verb.loose {
                self.renew(verb.client);
            }
            return;
        }
        let word = &mut self.nodes[verb.node][verb.at];
        let was = *word;
        if let Kind::Swap(value) = verb.kind
            && was == 0
        {
            *word = value;
        }
        self.verbs[i].answer = Some(was);
    }

    /// A node is no longer one of the index.
    fn exclude(&mut self) {
        let node = self.random.below(2) as usize;
        if self.random.one_in(2) {
            self.dead = Some(node);
        }
        self.view = (1 - node, None);
        if !self.has(Rule::Fence) {
            return;
        }
        // What was posted takes effect now or never.
        while let Some(i) = self.verbs.iter().position(|verb| verb.answer.is_none()) {
            if self.random.one_in(2) && self.dead != Some(self.verbs[i].node) {
                self.take_effect(i);
            } else {
                self.verbs.remove(i);
            }
        }
        (0..CLIENTS).for_each(|client| self.renew(client));
    }

    /// A client takes the view of now, and begins its operation again.
    fn renew(&mut self, client: usize) {
        let view = self.view;
        let this = &mut self.clients[client];
        this.view = view;
        if this.step == Step::Dead || this.step == Step::Idle {
            return;
        }
        self.verbs.retain(|verb| verb.client != client || verb.answer.is_none() && verb.loose);
        self.look(client);
    }

    fn post(&mut self, client: usize, node: usize, at: usize, kind: Kind, loose: bool) {
        self.verbs.push(Verb { client, node, at, kind, answer: None, loose });
    }

    /// The answers to a client, in the order of their posts.
    fn answers(&mut self, client: usize) -> Vec<u64> {
        let mut answers = Vec::new();
        self.verbs.retain(|verb| {
            let done = verb.client == client && verb.answer.is_some();
            if done && !verb.loose {
                answers.extend(verb.answer);
            }
            !done
        });
        answers
    }

    fn look(&mut self, client: usize) {
        self.clients[client].step = Step::Look;
        let (primary, backup) = self.clients[client].view;
        let node = match backup {
            Some(backup) if !self.has(Rule::ReadPrimary) && self.random.one_in(2) => backup,
            _ => primary,
        };
        (0..WORDS).for_each(|at| self.post(client, node, at, Kind::Read, false));
    }

    fn decide(&mut self, client: usize, at: usize) {
        let Client { view: (primary, backup), value, .. } = self.clients[client];
        let order = match backup {
            Some(backup) if self.has(Rule::BackupFirst) => (backup, Some(primary)),
            _ => (primary, backup),
        };
        self.post(client, order.0, at, Kind::Swap(value), false);
        self.clients[client].step = Step::Decide { at };
        if let Some(second) = order.1.filter(|_| !self.has(Rule::OneAfterTheOther)) {
            self.post(client, second, at, Kind::Swap(value), false);
            self.clients[client].step = Step::Both { at };
        }
    }

    /// Puts a decided value where it is not yet; false where there is one copy.
    fn complete(&mut self, client: usize, at: usize, value: u64, loose: bool) -> bool {
        let (primary, backup) = self.clients[client].view;
        let Some(backup) = backup else { return false };
        let node = if self.has(Rule::BackupFirst) { primary } else { backup };
        self.post(client, node, at, Kind::Swap(value), loose);
        true
    }

    fn go_on(&mut self, client: usize) {
        let answers = self.answers(client);
        let value = self.clients[client].value;
        match self.clients[client].step {
            Step::Dead => {}
            Step::Idle => {
                let reads = self.random.one_in(2);
                let this = &mut self.clients[client];
                if this.left == 0 {
                    return;
                }
                this.began = self.now;
                this.value = if reads { 0 } else { 1 + client as u64 * OPERATIONS + this.left };
                if self.random.one_in(2) {
                    this.view = self.view;
                }
                self.look(client);
            }
            Step::Look => {
                let seen: Vec<u64> = answers.into_iter().take_while(|word| *word != 0).collect();
                if value == 0 {
                    let began = self.clients[client].began;
                    self.told.reads.push((began, self.now, seen));
                    self.end(client);
                } else if seen.contains(&value) {
                    // As a swap of unknown outcome has turned out.
                    self.appended(client);
                } else {
                    self.decide(client, seen.len());
                }
            }
            Step::Decide { at } => {
                let mine = answers[0] == 0;
                let decided = if mine { value } else { answers[0] };
                let loose = !mine && !self.has(Rule::AwaitCompletion);
                if (mine || self.has(Rule::Complete))
                    && self.complete(client, at, decided, loose)
                    && !loose
                {
                    self.clients[client].step = Step::Complete { at, mine };
                } else {
                    self.decided(client, at, mine);
                }
            }
            Step::Complete { at, mine } => self.decided(client, at, mine),
            Step::Both { at } => self.decided(client, at, answers[0] == 0),
        }
    }

    /// The word has its value on both nodes.
    fn decided(&mut self, client: usize, at: usize, mine: bool) {
        if mine { self.appended(client) } else { self.decide(client, at + 1) }
    }

    fn appended(&mut self, client: usize) {
        self.told.appended.insert(self.clients[client].value, self.now);
        self.end(client);
    }

    fn end(&mut self, client: usize) {
        let this = &mut self.clients[client];
        (this.step, this.left) = (Step::Idle, this.left - 1);
    }

    /// Compares what clients were told with the log that there is at the end.
    fn judge(&self) -> Result<(), String> {
        let words = self.nodes[self.view.0];
        let log: Vec<u64> = words.into_iter().take_while(|word| *word != 0).collect();
        for (i, value) in log.iter().enumerate() {
            if log[..i].contains(value) {
                return Err(format!("{value} is there twice"));
            }
        }
        if let Some(value) = self.told.appended.keys().find(|value| !log.contains(value)) {
            return Err(format!("{value} was appended and is not there"));
        }
        for (began, _, seen) in &self.told.reads {
            if !log.starts_with(seen) {
                return Err(format!("{seen:?} was read, and the log is {log:?}"));
            }
            let missed =
                self.told.appended.iter().find(|(value, at)| *at < began && !seen.contains(value));
            if let Some((value, _)) = missed {
                return Err(format!("{value} was appended before a read that does not see it"));
            }
            let longer =
                self.told.reads.iter().find(|other| other.1 < *began && other.2.len() > seen.len());
            if longer.is_some() {
                return Err("a read sees less than one before it".into());
            }
        }
        Ok(())
    }
}
