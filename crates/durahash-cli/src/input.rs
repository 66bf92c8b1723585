//! The input of `load`: a file, a compressed file, a pipe, or the standard input, line by line.
//!
//! Only a regular file is read where its lines are wanted. Everything else may have nothing to say for as long
//! as it likes, a named pipe from its opening on, so a thread of its own opens and reads it.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use durahash::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use flate2::bufread::MultiGzDecoder;

use crate::store::Watch;

/// The most that a key can take in a line: every byte of it escaped, and the tab.
const KEY_TEXT_BYTES: u64 = 2 * MAX_KEY_BYTES as u64 + 1;
const BUFFER_BYTES: usize = 256 << 10;
/// Pieces that are read before they are wanted, and the most that one is.
const PIECES: usize = 2;
const PIECE_BYTES: usize = 64 << 10;
/// How often something else is looked at while more is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// The first bytes of gzip data. A line of text practically never does; `dump` sees to it that its
/// first one does not.
pub(crate) const GZIP_START: [u8; 3] = [0x1f, 0x8b, 8];

/// A source of lines.
pub(crate) struct Input {
    reader: BufReader<Box<dyn Read>>,
    /// As messages name it.
    pub(crate) name: String,
    /// Bytes of the file, where it has a size.
    pub(crate) total_bytes: Option<u64>,
    read_bytes: Arc<AtomicU64>,
    /// The number of the last line read, from 1.
    pub(crate) line: u64,
    /// A check that runs while the reader waits for more.
    watch: Rc<RefCell<Option<Watch>>>,
    /// The most that a value can take in a line, and the line's end.
    value_text_bytes: u64,
}

/// The next line.
pub(crate) enum Line {
    /// A line to be parsed, in the buffer.
    Entry,
    /// A line that starts with `#`.
    Comment,
    /// Longer than any entry can be: which part is too large. The rest of it was skipped.
    TooLong(&'static str),
    /// There is none.
    End,
}

impl Input {
    /// The file at `path`, or the standard input for `-`; decompressed where it begins as gzip does,
    /// or has to because its name ends in `.gz`. A regular file is read a little way: one that is none of that fails at once.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let watch = Rc::default();
        let is_stdin = path == Path::new("-");
        let (source, total_bytes): (Box<dyn Read>, _) = if is_stdin {
            (Box::new(Ahead::start(|| Ok(io::stdin()), Rc::clone(&watch))?), None)
        } else {
            let metadata = fs::metadata(path)?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if metadata.is_file() {
                let file = File::open(path)?;
                let counted = Counted { file, read_bytes: Arc::clone(&read_bytes) };
                (Box::new(counted), Some(metadata.len()))
            } else {
                let path = path.to_owned();
                (Box::new(Ahead::start(|| File::open(path), Rc::clone(&watch))?), None)
            }
        };
        let reader: Box<dyn Read> = if path.extension() == Some(OsStr::new("gz")) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, source)))
        } else {
            detected(source)
        };
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        if total_bytes.is_some() {
            fill(&mut reader)?;
        }
        Ok(Input {
            reader,
            name: if is_stdin { "standard input".into() } else { path.display().to_string() },
            total_bytes,
            read_bytes,
            line: 0,
            watch,
            value_text_bytes: value_text_bytes(MAX_VALUE_BYTES),
        })
    }

    /// From now on, waits for lines of an input that is no regular file call this every so often; its failure ends the
    /// read.
    pub(crate) fn watch_meanwhile(&self, watch: Option<Watch>) {
        *self.watch.borrow_mut() = watch;
    }

    /// From now on a value has at most so many bytes.
    pub(crate) fn limit_values(&mut self, bytes: usize) {
        self.value_text_bytes = value_text_bytes(bytes);
    }

    /// Bytes of the file that were read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// True if the next line may have to be waited for.
    pub(crate) fn may_wait(&self) -> bool {
        !self.reader.buffer().contains(&b'\n')
    }

    /// Reads the next line into `buffer`, which never grows beyond what an entry can need.
    pub(crate) fn next_line(&mut self, buffer: &mut Vec<u8>) -> io::Result<Line> {
        buffer.clear();
        let reader = &mut self.reader;
        let Some(&first) = fill(reader)?.first() else {
            return Ok(Line::End);
        };
        self.line += 1;
        if first == b'#' {
            reader.skip_until(b'\n')?;
            return Ok(Line::Comment);
        }
        let parts = [("key", KEY_TEXT_BYTES), ("value", self.value_text_bytes)];
        for (part, limit_bytes) in parts {
            let got = reader.by_ref().take(limit_bytes).read_until(b'\n', buffer)?;
            if buffer.ends_with(b"\n") || (got as u64) < limit_bytes {
                return Ok(Line::Entry);
            }
            if part == "value" || !buffer.contains(&b'\t') {
                reader.skip_until(b'\n')?;
                return Ok(Line::TooLong(part));
            }
        }
        Ok(Line::Entry)
    }
}

/// Every byte of a value escaped, and the line's end.
fn value_text_bytes(bytes: usize) -> u64 {
    2 * bytes as u64 + 2
}

/// The reader's buffer, filled; a signal does not keep from it.
fn fill(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Ok(_) => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    reader.fill_buf()
}

/// An input that another thread opens and reads, so that the waiting thread can check other things meanwhile.
struct Ahead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    watch: Rc<RefCell<Option<Watch>>>,
}

impl Ahead {
    /// Fails where the source cannot be opened, unless that takes its time: then reading does.
    fn start<R: Read>(
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
        watch: Rc<RefCell<Option<Watch>>>,
    ) -> io::Result<Self> {
        let (give, pieces) = sync_channel(PIECES);
        let read = move || {
            let mut source = match open() {
                Ok(source) => source,
                Err(e) => return drop(give.send(Err(e))),
            };
            if give.send(Ok(Vec::new())).is_err() {
                return;
            }
            let mut buffer = vec![0; PIECE_BYTES];
            loop {
                let piece = match source.read(&mut buffer) {
                    Ok(0) => return,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    read => read.map(|len| buffer[..len].to_vec()),
                };
                let failed = piece.is_err();
                // Nobody may want it any more.
                if give.send(piece).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("durahash-input".into()).spawn(read)?;
        if let Ok(Err(e)) = pieces.recv_timeout(LOOK) {
            return Err(e);
        }
        Ok(Ahead { pieces, piece: io::Cursor::default(), watch })
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.pieces.recv_timeout(LOOK) {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(watch) = &*self.watch.borrow() {
                        watch().map_err(io::Error::other)?;
                    }
                }
            }
        }
    }
}

/// A source that is decompressed if it begins as gzip does.
enum Detected<R> {
    /// Not yet read: what comes through a pipe may have to be waited for.
    Unread(Option<R>),
    Text(Box<dyn Read>),
}

fn detected<R: Read + 'static>(source: R) -> Box<dyn Read> {
    Box::new(Detected::Unread(Some(source)))
}

impl<R: Read + 'static> Read for Detected<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Detected::Unread(source) = self
            && let Some(mut source) = source.take()
        {
            // No further than it looks like gzip: a line that is typed in is not waited beyond.
            let mut start = Vec::new();
            for wanted in GZIP_START {
                (&mut source).take(1).read_to_end(&mut start)?;
                if start.last() != Some(&wanted) {
                    break;
                }
            }
            let gzip = start == GZIP_START;
            let whole = io::Cursor::new(start).chain(source);
            *self = Detected::Text(if gzip {
                Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, whole)))
            } else {
                Box::new(whole)
            });
        }
        match self {
            Detected::Text(text) => text.read(buffer),
            // Its first read failed.
            Detected::Unread(_) => Ok(0),
        }
    }
}

/// A file that says how far it was read.
struct Counted {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn input(dir: &Path, name: &str, bytes: &[u8]) -> Input {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        Input::open(&path).unwrap()
    }

    /// The lines of an input: what each is, and the beginning of those to be parsed.
    fn lines(mut input: Input) -> Vec<String> {
        let (mut lines, mut buffer) = (Vec::new(), Vec::new());
        loop {
            lines.push(match input.next_line(&mut buffer).unwrap() {
                Line::End => return lines,
                Line::Comment => "comment".into(),
                Line::TooLong(part) => format!("{part} too long"),
                Line::Entry => buffer[..buffer.len().min(9)].escape_ascii().to_string(),
            });
            assert_eq!(lines.len() as u64, input.line);
        }
    }

    #[test]
    fn lines_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let text = b"a\tb\n# c\n\n\\#d\te\r\n#\nlast";
        let found = lines(input(dir.path(), "plain", text));
        let wanted = ["a\\tb\\n", "comment", "\\n", "\\\\#d\\te\\r\\n", "comment", "last"];
        assert_eq!(found, wanted);
        assert!(lines(input(dir.path(), "empty", b"")).is_empty());
    }

    #[test]
    fn compressed_files_are_read_in_all_their_members() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        for text in ["a\tb\n", "c\td\n"] {
            let mut member = flate2::write::GzEncoder::new(bytes, flate2::Compression::fast());
            member.write_all(text.as_bytes()).unwrap();
            bytes = member.finish().unwrap();
        }
        let whole = bytes.len();
        assert_eq!(lines(input(dir.path(), "two.gz", &bytes)), ["a\\tb\\n", "c\\td\\n"]);

        assert_eq!(lines(input(dir.path(), "two", &bytes)), ["a\\tb\\n", "c\\td\\n"]);
        for start in [&GZIP_START[..1], &GZIP_START[..2]] {
            let text = [start, b"\tx\n"].concat();
            assert_eq!(lines(input(dir.path(), "text", &text)), [text.escape_ascii().to_string()]);
            assert_eq!(lines(input(dir.path(), "short", start)).len(), 1);
        }

        let mut cut = input(dir.path(), "cut.gz", &bytes[..whole - 9]);
        let mut buffer = Vec::new();
        let e = std::iter::repeat_with(|| cut.next_line(&mut buffer)).find_map(Result::err);
        assert_eq!(e.unwrap().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(cut.total_bytes, Some(whole as u64 - 9));
        assert_eq!(cut.read_bytes(), whole as u64 - 9);
    }

    #[test]
    fn a_value_that_is_too_large_is_skipped_without_being_kept() {
        let dir = tempfile::tempdir().unwrap();
        let value = |bytes: usize| ["k\t", &r"\\".repeat(bytes), "\r\n"].concat();
        let text = value(1 << 20) + &value(3 << 20) + "k\tv\n";
        let mut input = input(dir.path(), "values", text.as_bytes());
        input.limit_values(1 << 20);
        assert_eq!(lines(input)[1], "value too long");
    }

    #[test]
    fn a_line_that_no_entry_can_have_is_skipped_without_being_kept() {
        let dir = tempfile::tempdir().unwrap();
        let most = KEY_TEXT_BYTES as usize - 1;
        let mut text = vec![b'x'; most + 1];
        text.extend(b"\tv\n");
        text.extend(vec![b'y'; most]);
        text.extend(b"\tv\n# comments may be as long\nk\tv\n");
        let found = lines(input(dir.path(), "long", &text));
        assert_eq!(found, ["key too long", "yyyyyyyyy", "comment", "k\\tv\\n"]);
    }
}
