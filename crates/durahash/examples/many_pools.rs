//! Opens many pools at once: ten thousand, or as many as the first argument says, in a new directory.
//!
//! ```sh
//! sh -c 'ulimit -n 20000; cargo run --example many_pools -- 10000'
//! ```

use std::time::Instant;

use durahash::{Map, Options, Result, SyncMode};

fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let dir = std::env::temp_dir().join(format!("many_pools-{}", std::process::id()));
    std::fs::create_dir(&dir).expect("the directory is new");
    let start = Instant::now();
    let opened = open_all(&dir, count);
    let _ = std::fs::remove_dir_all(&dir);
    println!("{} pools in {:.1?}", opened?, start.elapsed());
    Ok(())
}

fn open_all(dir: &std::path::Path, count: u64) -> Result<usize> {
    let options = Options::new().sync_mode(SyncMode::Process);
    let maps: Vec<Map<u64, u64>> =
        (0..count).map(|i| options.create(dir.join(i.to_string()))).collect::<Result<_>>()?;
    for (i, map) in (0..).zip(&maps) {
        map.put(&i, &!i)?;
    }
    for (i, map) in (0..).zip(&maps) {
        assert_eq!(map.get(&i)?, Some(!i));
    }
    let system = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in
        system.lines().filter(|line| line.starts_with("VmSize") || line.starts_with("VmRSS"))
    {
        println!("{line}");
    }
    println!(
        "{} mappings",
        std::fs::read_to_string("/proc/self/maps").unwrap_or_default().lines().count()
    );
    Ok(maps.len())
}
