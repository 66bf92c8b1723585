//! A TCP service on tokio: `get KEY`, `set KEY VALUE` and `sync`, a line each.
//!
//!     cargo run -p durahash-examples --bin service

use std::error::Error;
use std::io;

use durahash::{Map, Options};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Lookups and, in the mode `Interval`, puts take microseconds: they run where they are. What waits for the
/// disk runs on a thread for blocking work.
async fn reply(map: &Map<str, str>, line: &str) -> Done<String> {
    let mut words = line.splitn(3, ' ');
    Ok(match [words.next(), words.next(), words.next()] {
        [Some("get"), Some(key), None] => map.get(key)?.unwrap_or_else(|| "none".into()),
        [Some("set"), Some(key), Some(value)] => map.put(key, value).map(|()| "done".into())?,
        [Some("sync"), None, None] => {
            let map = map.clone();
            spawn_blocking(move || map.sync()).await??;
            "done".into()
        }
        _ => "what?".into(),
    })
}

async fn serve(client: TcpStream, map: Map<str, str>) -> Done<()> {
    let (reader, mut writer) = client.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = reply(&map, &line).await.unwrap_or_else(|e| format!("failed: {e}"));
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
    }
    Ok(())
}

/// Sends lines, and returns the replies.
async fn ask(address: std::net::SocketAddr, lines: String) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(lines.as_bytes()).await?;
    stream.shutdown().await?;
    let mut replies = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut replies).await?;
    Ok(replies)
}

fn main() -> Done<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("service.pool");
    let map: Map<str, str> = Options::new().create(&path)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, map.clone()));
            }
        });
        let lines = |i| format!("set key{i} value {i}\nget key{i}\nget none{i}\nsync\n");
        let asked: Vec<_> = (0..10).map(|i| (i, tokio::spawn(ask(address, lines(i))))).collect();
        for (i, replies) in asked {
            assert_eq!(replies.await??, format!("done\nvalue {i}\nnone\ndone\n"));
        }
        Done::Ok(())
    })?;
    drop(runtime); // and with its tasks the last handle of the map, which closes the pool

    let map: Map<str, str> = Options::new().open(&path)?;
    assert_eq!(map.len()?, 10);
    println!("10 clients were served; the map has {} entries", map.len()?);
    Ok(())
}
