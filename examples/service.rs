//! A TCP service on tokio: `get KEY`, `set KEY VALUE` and `sync`, a line each.
//!
//!     cargo run -p durahash-examples --bin service

#![forbid(unsafe_code)]

use std::error::Error;

use durahash::{Map, Options};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Answers the lines of a client.
async fn serve(client: TcpStream, map: Map<str, str>) -> Done<()> {
    let (reader, mut writer) = client.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        // Lookups and, in the mode `Interval`, puts take a microsecond: they run where they are. Operations that wait
        // for the disk run on a thread for blocking work.
        let reply = match words[..] {
            ["get", key] => map.get(key)?.unwrap_or_else(|| "none".into()),
            ["set", key, value] => map.put(key, value).map(|()| "done".into())?,
            ["sync"] => {
                let map = map.clone();
                spawn_blocking(move || map.sync()).await??;
                "done".into()
            }
            _ => "what?".into(),
        };
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
    }
    Ok(())
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
        for i in 0..10 {
            let mut client = TcpStream::connect(address).await?;
            let lines = format!("set key{i} value {i}\nget key{i}\nget none{i}\nsync\n");
            client.write_all(lines.as_bytes()).await?;
            client.shutdown().await?;
            let mut replies = String::new();
            client.read_to_string(&mut replies).await?;
            assert_eq!(replies, format!("done\nvalue {i}\nnone\ndone\n"));
        }
        Done::Ok(())
    })?;
    drop(runtime); // and with its tasks the last handle of the map, which closes the pool

    let map: Map<str, str> = Options::new().open(&path)?;
    assert_eq!(map.len()?, 10);
    println!("10 clients were served; the map has {} entries", map.len()?);
    Ok(())
}
