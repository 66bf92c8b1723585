//! What `load` reads: a file, a compressed file, or the standard input, line by line.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
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
/// The same for the value, and the line's end.
const VALUE_TEXT_BYTES: u64 = 2 * MAX_VALUE_BYTES as u64 + 2;
const BUFFER_BYTES: usize = 256 << 10;
/// Pieces that are read before they are wanted, and the most that one is.
const PIECES: usize = 2;
const PIECE_BYTES: usize = 64 << 10;
/// How often something else is looked at while more is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// What gzip data begins with. A line of text practically never does; `dump` sees to it that its
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
    /// What is looked at while more is waited for.
    watch: Rc<RefCell<Option<Watch>>>,
}

/// What the next line is.
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
    /// or has to because its name ends in `.gz`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let watch = Rc::default();
        if path == Path::new("-") {
            let waits = Ahead::start(io::stdin(), Rc::clone(&watch))?;
            return Ok(Input {
                reader: BufReader::with_capacity(BUFFER_BYTES, detected(waits)),
                name: "standard input".into(),
                total_bytes: None,
                read_bytes,
                line: 0,
                watch,
            });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let counted = Counted { file, read_bytes: Arc::clone(&read_bytes) };
        let reader: Box<dyn Read> = if path.extension() == Some(OsStr::new("gz")) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, counted)))
        } else {
            detected(counted)
        };
        Ok(Input {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            name: path.display().to_string(),
            total_bytes: metadata.is_file().then_some(metadata.len()),
            read_bytes,
            line: 0,
            watch,
        })
    }

    /// From now on, while lines of the standard input are waited for, this is asked every so often; what it fails
    /// with is what reading fails with.
    pub(crate) fn watch_meanwhile(&self, watch: Option<Watch>) {
        *self.watch.borrow_mut() = watch;
    }

    /// Bytes of the file that were read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Whether the next line may have to be waited for.
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
        let parts = [("key", KEY_TEXT_BYTES), ("value", VALUE_TEXT_BYTES)];
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

/// What another thread reads, so that who waits for it can look at something else meanwhile.
struct Ahead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    watch: Rc<RefCell<Option<Watch>>>,
}

impl Ahead {
    fn start(
        mut source: impl Read + Send + 'static,
        watch: Rc<RefCell<Option<Watch>>>,
    ) -> io::Result<Self> {
        let (give, pieces) = sync_channel(PIECES);
        let read = move || {
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
