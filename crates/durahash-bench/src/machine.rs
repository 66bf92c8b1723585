//! The machine that numbers come from.

use std::hint::black_box;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A machine. Facts that the system does not tell are `unknown`, or zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Operating system and the version of its kernel.
    pub system: String,
    /// Architecture of the instruction set.
    pub architecture: String,
    /// When the system gives huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        let memory = read("/proc/meminfo");
        let memory = field(&memory, "MemTotal").and_then(|kib| kib.split(' ').next());
        let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        Machine {
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
            memory_bytes: memory.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
            system: format!("{} {}", std::env::consts::OS, kernel.trim()).trim().to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            huge_pages: known(huge_pages.split(['[', ']']).nth(1)),
        }
    }
}

fn known(text: Option<&str>) -> String {
    text.unwrap_or("unknown").to_owned()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The processor in `/proc/cpuinfo`; ARM has no names there, but numbers.
fn cpu(info: &str) -> String {
    if let Some(name) = field(info, "model name") {
        return name.to_owned();
    }
    match (field(info, "CPU implementer"), field(info, "CPU part")) {
        (Some(implementer), Some(part)) => format!("ARM implementer {implementer} part {part}"),
        _ => known(None),
    }
}

/// Bytes that a process (`self` or a number) has handed to the system to be written; 0 where it does not count.
pub(crate) fn written_bytes(process: &str) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    field(&io, "write_bytes").and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Writes to so much memory and gives it back. A hypervisor may have taken what nobody has used for seconds, and the first
/// store to each page of it then costs several times the rest of an insert.
pub(crate) fn warm_memory(bytes: u64) {
    drop(black_box(vec![1_u8; bytes as usize]));
}

/// The file system that `dir` lies on.
pub(crate) fn file_system(dir: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    known(file_system_in(&mounts, &dir))
}

/// The type of the last mount with the longest path above `dir`: later ones hide earlier ones.
fn file_system_in<'a>(mounts: &'a str, dir: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let at = mount.split(' ').nth(4)?.replace("\\040", " ");
        dir.starts_with(&at).then_some((at.len(), kind.split(' ').next()?))
    });
    mounts.max_by_key(|(len, _)| *len).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name() {
        let machine = Machine::this();
        assert!(machine.cores > 0);
        assert!(!machine.cpu.is_empty() && !machine.architecture.is_empty());
        if cfg!(target_os = "linux") {
            assert!(machine.memory_bytes > 0 && machine.system.starts_with("linux "));
        }
        assert!(!file_system(Path::new(".")).is_empty());
    }

    #[test]
    fn processors_are_named_by_name_or_number() {
        assert_eq!(cpu("processor\t: 0\nmodel name\t: Fast 9000\n"), "Fast 9000");
        let arm = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd40\n";
        assert_eq!(cpu(arm), "ARM implementer 0x41 part 0xd40");
        assert_eq!(cpu(""), "unknown");
    }

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "\
            22 1 8:1 / / rw - ext4 /dev/sda rw\n\
            23 22 0:5 / /mnt/a\\040b rw shared:1 - tmpfs none rw\n\
            24 22 0:6 / /mnt rw - xfs /dev/sdb rw\n\
            25 22 0:7 / /mnt rw - ext2 /dev/sdc rw\n";
        for (dir, kind) in
            [("/home/x", "ext4"), ("/mnt/a b/c", "tmpfs"), ("/mnt/c", "ext2"), ("/mnty", "ext4")]
        {
            assert_eq!(file_system_in(mounts, Path::new(dir)), Some(kind), "{dir}");
        }
    }
}
