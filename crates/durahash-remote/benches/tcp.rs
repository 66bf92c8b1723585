//! Operations over TCP, by nodes and clients in processes of their own, what they cost each, and Redis beside them, where
//! `redis-server` is installed: `cargo bench -p durahash-remote --bench tcp -- keys=20000 nodes=1 clients=1,2,4 seconds=2`.
//!
//! A client has one operation under way, or one batch of 64 (of Redis, a pipeline). `phases=load,get,put,gets,puts` are
//! those that run, `redis=redis-server` is the program. Time of processors is that of all threads of a process, as the
//! scheduler counts it in `/proc`. The phase `idle` does nothing: `clients=1000 phases=idle seconds=30`.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use durahash_media::hash::WordMix;
use durahash_remote::node::{Limits, Listening, Offers};
use durahash_remote::tcp::{Tcp, TcpMemory};
use durahash_remote::{BlockingMap, Error, Options, Pair, Result};

const BATCH: u64 = 64;
/// Bytes of the nodes' memory for each key, and of each node for each client. The system gives those that are used.
const KEY_BYTES: u64 = 512;
const CLIENT_BYTES: u64 = 4 << 20;
/// Clients that load, at most: a thousand at once in the one segment that there is at first would wait for each other.
const LOADERS: u64 = 8;

/// The value of `name=value` among the arguments: the first one.
fn argument(name: &str, default: &str) -> String {
    let found = env::args().find_map(|arg| Some(arg.strip_prefix(name)?.strip_prefix('=')?.into()));
    found.unwrap_or_else(|| default.into())
}

fn number(name: &str, default: u64) -> u64 {
    argument(name, &default.to_string()).parse().expect("a number")
}

fn keys() -> u64 {
    number("keys", 20_000)
}

fn failed(cause: impl Into<io::Error>) -> Error {
    Error::io("measuring", None, cause.into())
}

fn main() -> Result<()> {
    match argument("role", "").as_str() {
        "node" => return node(),
        "client" => return client(),
        _ => {}
    }
    println!("{} keys of 8 bytes with values of 8, nodes: {}", keys(), number("nodes", 1));
    println!(
        "| of | clients | phase | thousand a second | p50 µs | p99 µs | µs of processor: client | node |"
    );
    println!("|{}", "---|".repeat(8));
    argument("clients", "1,2,4").split(',').try_for_each(run)
}

/// A process that reads commands and answers each by a line.
struct Process(Child, BufReader<ChildStdout>);

impl Process {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().expect("it is piped");
        Ok(Process(child, BufReader::new(out)))
    }

    /// This program, with these arguments before its own.
    fn of_this(with: &[String]) -> Result<Self> {
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        let own = env::args().skip(1).filter(|arg| arg.contains('='));
        Self::start(command.args(with).args(own)).map_err(failed)
    }

    fn tell(&mut self, what: impl Display) -> Result<()> {
        writeln!(self.0.stdin.as_mut().expect("it is piped"), "{what}").map_err(failed)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.1.read_line(&mut line).map_err(failed)? {
            0 => Err(failed(io::ErrorKind::UnexpectedEof)),
            _ => Ok(line.trim().into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nanoseconds that all threads of a process had a processor.
fn processor_ns(process: impl Display) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    // A thread may end meanwhile.
    let stats = threads.filter_map(|t| fs::read_to_string(t.path().join("schedstat")).ok());
    stats.filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// All phases with so many clients, on nodes of their own, and on Redis.
fn run(clients: &str) -> Result<()> {
    let count = number("nodes", 1);
    let node = |_| Process::of_this(&["role=node".into()]);
    let mut nodes = (0..count).map(node).collect::<Result<Vec<_>>>()?;
    let addresses = nodes.iter_mut().map(Process::line).collect::<Result<Vec<_>>>()?.join(",");
    phases("durahash", clients, &addresses, nodes)?;
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|on| on.local_addr()).map_err(failed)?;
    let mut redis = Command::new(argument("redis", "redis-server"));
    redis.args(["--port", &free.port().to_string(), "--save", "", "--appendonly", "no"]);
    match Process::start(redis.args(["--bind", "127.0.0.1"])) {
        Ok(redis) => phases("redis", clients, &free.to_string(), vec![redis]),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            println!("there is no redis-server here to measure beside it: {e}");
            Ok(())
        }
        Err(e) => Err(failed(e)),
    }
}

fn phases(of: &str, clients: &str, addresses: &str, nodes: Vec<Process>) -> Result<()> {
    let mut processes = Vec::new();
    for i in 0..clients.parse::<u64>().expect("a number") {
        let with = ["role=client", &format!("of={of}"), &format!("clients={clients}")];
        let place = [format!("addresses={addresses}"), format!("client={i}")];
        let mut process = Process::of_this(&[&with.map(str::to_owned)[..], &place].concat())?;
        // The first one makes the index, and the others come together.
        if i == 0 {
            process.line()?;
        }
        processes.push(process);
    }
    for process in &mut processes[1..] {
        process.line()?;
    }
    let of_nodes = |nodes: &[Process]| nodes.iter().map(|n| processor_ns(n.0.id())).sum::<u64>();
    for phase in argument("phases", "load,get,put,gets,puts").split(',') {
        let before = of_nodes(&nodes);
        processes.iter_mut().try_for_each(|client| client.tell(phase))?;
        let (mut rate, mut ops, mut own_ns, mut latencies) = (0.0, 0.0, 0.0, Vec::new());
        for client in &mut processes {
            let line = client.line()?;
            let figures: Vec<f64> = line.split(' ').map(|f| f.parse().expect("a number")).collect();
            (rate, ops, own_ns) = (rate + figures[0], ops + figures[1], own_ns + figures[2]);
            if figures[1] > 0.0 {
                latencies.push((figures[3], figures[4]));
            }
        }
        latencies.sort_unstable_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
        // Those of the client in the middle.
        let (p50, p99) = latencies[latencies.len() / 2];
        let [own, node] = [own_ns, (of_nodes(&nodes) - before) as f64].map(|ns| ns / ops / 1e3);
        let rate = rate / 1e3;
        println!(
            "| {of} | {clients} | {phase} | {rate:.1} | {p50:.1} | {p99:.1} | {own:.2} | {node:.2} |"
        );
    }
    processes[0].tell("space")?;
    println!("{of}, {clients} clients: {}", processes[0].line()?);
    Ok(())
}

/// A node, until its input ends.
fn node() -> Result<()> {
    let bytes = keys() * KEY_BYTES / number("nodes", 1) + u64::from(rows()) * CLIENT_BYTES;
    let memory = TcpMemory::anonymous(bytes, rows())?;
    let mut limits = Limits::default();
    limits.connections = limits.handshakes + rows() as usize;
    let listening = Listening::bind("127.0.0.1:0", &memory, None, limits)?;
    println!("{}", listening.address());
    io::stdin().read_to_end(&mut Vec::new()).map(drop).map_err(failed)
}

fn rows() -> u32 {
    let all = argument("clients", "1,2,4");
    all.split(',').filter_map(|clients| clients.parse().ok()).max().unwrap_or(1).max(64)
}

/// What a client works on.
trait Store {
    /// Whether all of these are there.
    fn have(&mut self, keys: &[Vec<u8>]) -> Result<bool>;
    fn put(&mut self, pairs: &[Pair]) -> Result<()>;
    fn space(&mut self) -> Result<String>;
}

impl Store for BlockingMap<Tcp> {
    fn have(&mut self, keys: &[Vec<u8>]) -> Result<bool> {
        match keys {
            [key] => Ok(self.get(key)?.is_some()),
            _ => Ok(self.get_many(keys)?.iter().all(Option::is_some)),
        }
    }

    fn put(&mut self, pairs: &[Pair]) -> Result<()> {
        match pairs {
            [(key, value)] => BlockingMap::put(self, key, value),
            _ => self.put_many(pairs),
        }
    }

    fn space(&mut self) -> Result<String> {
        let taken = self.summary()?.taken_bytes;
        Ok(format!("{taken} bytes taken, {:.1} for each key", taken as f64 / keys() as f64))
    }
}

/// A connection to Redis, and commands that go to it together.
struct Redis(TcpStream, Vec<u8>);

impl Redis {
    fn add(&mut self, words: &[&[u8]]) {
        self.1.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.1.extend(format!("${}\r\n", word.len()).bytes());
            self.1.extend_from_slice(word);
            self.1.extend(b"\r\n");
        }
    }

    /// Sends the commands, and reads as many bytes of answers.
    fn call(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let mut answers = vec![0; bytes];
        self.0.write_all(&self.1).and_then(|()| self.0.read_exact(&mut answers)).map_err(failed)?;
        self.1.clear();
        Ok(answers)
    }
}

impl Store for Redis {
    fn have(&mut self, keys: &[Vec<u8>]) -> Result<bool> {
        keys.iter().for_each(|key| self.add(&[b"GET", key]));
        // `$8`, the value, and two ends of lines.
        Ok(self.call(14 * keys.len())?.chunks(14).all(|answer| answer.starts_with(b"$8\r\n")))
    }

    fn put(&mut self, pairs: &[Pair]) -> Result<()> {
        pairs.iter().for_each(|(key, value)| self.add(&[b"SET", key, value]));
        assert!(self.call(5 * pairs.len())?.chunks(5).all(|answer| answer == b"+OK\r\n"));
        Ok(())
    }

    fn space(&mut self) -> Result<String> {
        Ok("it keeps what it has in its own memory".into())
    }
}

/// A client, which does the phases that it reads from its input.
fn client() -> Result<()> {
    let addresses: Vec<_> = argument("addresses", "").split(',').map(str::to_owned).collect();
    if argument("of", "") == "redis" {
        let begin = Instant::now();
        let stream = loop {
            match TcpStream::connect(&addresses[0]) {
                Err(_) if begin.elapsed() < Duration::from_secs(10) => {
                    thread::sleep(Duration::from_millis(10));
                }
                connected => break connected.map_err(failed)?,
            }
        };
        stream.set_nodelay(true).map_err(failed)?;
        return serve(&mut Redis(stream, Vec::new()));
    }
    let fabric = Tcp::attach(Offers::gather(&addresses, None, &Limits::default())?)?;
    let mut options = Options::default();
    options.max_clients = rows();
    options.tick_ns = number("tick", options.tick_ns);
    let mut map = match number("client", 0) {
        0 => BlockingMap::create(fabric, options)?,
        _ => BlockingMap::open(fabric, options)?,
    };
    serve(&mut map)?;
    map.close()
}

fn serve(store: &mut impl Store) -> Result<()> {
    println!("ready");
    for line in io::stdin().lines() {
        match line.map_err(failed)?.as_str() {
            "space" => println!("{}", store.space()?),
            phase => println!("{}", measure(store, phase)?),
        }
    }
    Ok(())
}

fn pair(key: u64) -> Pair {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().into(), key.to_le_bytes().into())
}

/// Operations a second, how many, nanoseconds of a processor, and of each operation or batch p50 and p99 in µs.
fn measure(store: &mut impl Store, phase: &str) -> Result<String> {
    let (own, of, keys) = (number("client", 0), number("clients", 1), keys());
    let limit = Duration::from_secs(number("seconds", 2));
    let (mix, mut drawn) = (WordMix::new(own), 0);
    let mut draw = |count| {
        let from = drawn;
        drawn += count;
        (from..drawn).map(|i| pair(mix.mix(i) % keys)).collect::<Vec<_>>()
    };
    let loaders = of.min(LOADERS);
    let mut loads = (own..keys).step_by(loaders as usize).filter(|_| own < loaders).map(pair);
    let (ns, start, mut ops, mut latencies) = (processor_ns("self"), Instant::now(), 0, Vec::new());
    if phase == "idle" {
        thread::sleep(limit);
        // Of a second.
        ops = limit.as_secs() as usize;
    }
    while phase != "idle" && (phase == "load" || start.elapsed() < limit) {
        let pairs = match phase {
            "load" => loads.by_ref().take(BATCH as usize).collect(),
            "get" | "put" => draw(1),
            "gets" | "puts" => draw(BATCH),
            _ => panic!("phases are load, get, put, gets, puts and idle"),
        };
        if pairs.is_empty() {
            break;
        }
        ops += pairs.len();
        let begin = Instant::now();
        if phase.starts_with("get") {
            let names: Vec<_> = pairs.into_iter().map(|pair| pair.0).collect();
            assert!(store.have(&names)?, "keys are looked up after a load");
        } else {
            store.put(&pairs)?;
        }
        latencies.push(begin.elapsed());
    }
    let (seconds, ns) = (start.elapsed().as_secs_f64(), processor_ns("self") - ns);
    latencies.sort_unstable();
    let at =
        |percent| latencies.get(latencies.len() * percent / 100).map_or(0.0, Duration::as_secs_f64);
    Ok(format!("{} {ops} {ns} {} {}", ops as f64 / seconds, at(50) * 1e6, at(99) * 1e6))
}
