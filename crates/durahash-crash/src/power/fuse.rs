//! A file system with one file, a disk, spoken as the kernel's FUSE protocol: no library, since a dozen of
//! its requests are enough for a loop device.

use std::fs::File;
use std::io::{self, Read, Write};

use super::record::{Recorder, Step};

/// Name of the file.
pub(super) const DISK: &str = "disk";
const ROOT_NODE: u64 = 1;
const DISK_NODE: u64 = 2;
const MAX_WRITE: u32 = 128 << 10;
/// For how long the kernel may believe what it was told of names and sizes, in seconds.
const VALID: u64 = 3600;

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENODEV: i32 = 19;
const ENOSYS: i32 = 38;

// Numbers of requests.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const HEAD_BYTES: usize = 40;
const REPLY_HEAD_BYTES: usize = 16;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

/// A reply that is put together field by field.
#[derive(Default)]
struct Reply(Vec<u8>);

impl Reply {
    fn u32s(mut self, fields: &[u32]) -> Self {
        fields.iter().for_each(|field| self.0.extend(field.to_le_bytes()));
        self
    }

    fn u64s(mut self, fields: &[u64]) -> Self {
        fields.iter().for_each(|field| self.0.extend(field.to_le_bytes()));
        self
    }

    fn attr(self, node: u64, disk: &Recorder) -> Self {
        const DIRECTORY: u32 = 0o040_755;
        const FILE: u32 = 0o100_600;
        let (mode, bytes) = if node == DISK_NODE { (FILE, disk.bytes()) } else { (DIRECTORY, 0) };
        // Number, size, blocks, times; their nanoseconds, mode, links, owner, group, device, block.
        self.u64s(&[node, bytes, bytes / 512, 0, 0, 0]).u32s(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
    }
}

/// Answers requests from `device` until it is unmounted.
pub(super) fn serve(mut device: &File, disk: &Recorder) -> io::Result<()> {
    let mut buffer = vec![0; MAX_WRITE as usize + (64 << 10)];
    loop {
        let bytes = match device.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(e) if e.raw_os_error() == Some(ENODEV) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            // The request is gone.
            Err(e) if e.raw_os_error() == Some(ENOENT) => continue,
            Err(e) => return Err(e),
        };
        let Some((head, body)) = buffer[..bytes].split_at_checked(HEAD_BYTES) else {
            continue;
        };
        let (request, unique, node) = (u32_at(head, 4), u64_at(head, 8), u64_at(head, 16));
        if [FORGET, BATCH_FORGET, INTERRUPT].contains(&request) {
            continue;
        }
        let (errno, reply) = match answer(request, node, body, disk) {
            Ok(reply) => (0, reply.0),
            Err(errno) => (errno, Vec::new()),
        };
        let bytes = (REPLY_HEAD_BYTES + reply.len()) as u32;
        let mut message =
            Reply::default().u32s(&[bytes, errno.wrapping_neg() as u32]).u64s(&[unique]);
        message.0.extend(reply);
        match device.write(&message.0) {
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(ENOENT) => {}
            Err(e) if e.raw_os_error() == Some(ENODEV) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

fn answer(request: u32, node: u64, body: &[u8], disk: &Recorder) -> Result<Reply, i32> {
    let reply = Reply::default();
    Ok(match request {
        // Version 7.31: read ahead, no flags, requests in the background, bytes of a write, of a time.
        INIT => reply
            .u32s(&[7, 31, u32_at(body, 8), 0, 12 << 16 | 16, MAX_WRITE, 1, 0, 0])
            .u32s(&[0; 7]),
        LOOKUP if node == ROOT_NODE && body == [DISK.as_bytes(), &[0]].concat() => {
            let entry = reply.u64s(&[DISK_NODE, 0, VALID, VALID]).u32s(&[0, 0]);
            entry.attr(DISK_NODE, disk)
        }
        LOOKUP => return Err(ENOENT),
        GETATTR | SETATTR => reply.u64s(&[VALID]).u32s(&[0, 0]).attr(node, disk),
        OPEN | OPENDIR => reply.u64s(&[0]).u32s(&[0, 0]),
        READ => Reply(disk.read(u64_at(body, 8) as usize, u32_at(body, 16) as usize)),
        WRITE => {
            const WRITE_HEAD_BYTES: usize = 40;
            let (off, bytes) = (u64_at(body, 8) as usize, u32_at(body, 16));
            let data = body.get(WRITE_HEAD_BYTES..).filter(|data| data.len() == bytes as usize);
            if !data.is_some_and(|data| disk.write(off, data)) {
                return Err(EIO);
            }
            reply.u32s(&[bytes, 0])
        }
        FSYNC => {
            disk.did(Step::Flush);
            reply
        }
        FLUSH | RELEASE | RELEASEDIR => reply,
        STATFS => reply.u64s(&[0; 10]),
        _ => return Err(ENOSYS),
    })
}
