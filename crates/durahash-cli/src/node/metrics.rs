//! Figures about a node by HTTP, as Prometheus reads them.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use durahash_remote::Error;
use durahash_remote::node::{Figure, Gauges};

use crate::exit::{Exit, Failure};

/// Time for a request, and for each part of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections at once, at most, each with a thread.
const AT_ONCE: usize = 16;
/// Bytes of a request, at most.
const REQUEST_BYTES: usize = 8 << 10;
/// Pause when the system is short of something.
const SHORT_OF_MEANS: Duration = Duration::from_millis(50);

/// Answers who asks at this address until the process ends; the oldest connection of too many is ended for a new one.
/// Returns the address, with the port that the system chose for port 0.
pub(super) fn tell(listen: &str, gauges: Gauges) -> Result<SocketAddr, Failure> {
    let failed = |e| Failure::node(&Error::io("listening", Some(listen.into()), e));
    let listener = TcpListener::bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let serve = move || {
        let mut latest = VecDeque::<Arc<TcpStream>>::new();
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(SHORT_OF_MEANS);
                continue;
            };
            if latest.len() == AT_ONCE
                && let Some(oldest) = latest.pop_front()
            {
                // It may be over already.
                drop(oldest.shutdown(Shutdown::Both));
            }
            let (stream, gauges) = (Arc::new(stream), gauges.clone());
            latest.push_back(Arc::clone(&stream));
            let answer = move || {
                // Who asks may be gone.
                drop(answer(&stream, &gauges));
                drop(stream.shutdown(Shutdown::Both));
            };
            // Without a thread, who asks comes again.
            drop(start(answer));
        }
    };
    start(serve).map_err(|e| Failure::new(Exit::Io, format!("starting a thread: {e}")))?;
    Ok(address)
}

fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("durahash-metrics".into()).spawn(run).map(drop)
}

fn answer(mut stream: &TcpStream, gauges: &Gauges) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() >= REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            some => request.extend(&bytes[..some]),
        }
    }
    let is_asked = [&b"GET /metrics "[..], b"GET / "].iter().any(|get| request.starts_with(get));
    let (status, body) = match is_asked {
        true => ("200 OK", text(&gauges.read())),
        false => ("404 Not Found", "The figures are at /metrics\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The text format of Prometheus.
fn text(figures: &[Figure]) -> String {
    let mut text = String::new();
    for Figure { name, help, counts, label, values, .. } in figures {
        let (kind, end) = if *counts { ("counter", "_total") } else { ("gauge", "") };
        let name = format!("durahash_node_{name}{end}");
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (part, value) in values {
            let part = label.map(|label| format!("{{{label}=\"{part}\"}}")).unwrap_or_default();
            let _ = writeln!(text, "{name}{part} {value}");
        }
    }
    text
}
