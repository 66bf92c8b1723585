//! The text form of entries that `dump` writes and `load` reads: `KEY<TAB>VALUE`, one a line.
//!
//! | byte | written as | |
//! |---|---|---|
//! | tab | `\t` | it ends the key |
//! | line feed | `\n` | it ends the line |
//! | carriage return | `\r` | editors and other systems change it |
//! | backslash | `\\` | it begins an escape |
//! | `#` at the start of the key | `\#` | a line that starts with it is a comment |
//!
//! All other bytes stand for themselves, whatever they are, so every byte string has a form and
//! comes back from it. The first tab ends the key; tabs after it belong to the value, so that lines
//! with more columns can be loaded too. A carriage return before the line feed belongs to the line's
//! end (a file from Windows); `dump` never leaves one there. Text that begins with the bytes 1f 8b 08
//! is taken for compressed, so a dump whose first key does has an empty comment before it.

/// Appends the line of an entry, line feed included.
pub(crate) fn write_line(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if key.first() == Some(&b'#') {
        out.push(b'\\');
    }
    escape(key, out);
    out.push(b'\t');
    escape(value, out);
    out.push(b'\n');
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'\t' => out.extend(br"\t"),
            b'\n' => out.extend(br"\n"),
            b'\r' => out.extend(br"\r"),
            b'\\' => out.extend(br"\\"),
            other => out.push(other),
        }
    }
}

/// Key and value of a line that is no comment, or why it has none.
pub(crate) fn read_line(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(tab) = line.iter().position(|b| *b == b'\t') else {
        return Err("no tab between key and value".into());
    };
    Ok((unescape(&line[..tab])?, unescape(&line[tab + 1..])?))
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(escaped @ (b'\\' | b'#')) => *escaped,
                Some(_) => return Err(no_escape(&text[text.len() - rest.len() - 1..])),
                None => return Err(r"a single backslash at the end (it is written \\)".into()),
            },
            other => other,
        });
    }
    Ok(bytes)
}

/// Says that a backslash before `text` means nothing.
fn no_escape(text: &[u8]) -> String {
    let start = text.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    let escape = match start {
        Some(c) if !c.is_control() && !c.is_whitespace() => format!(r"\{c} is"),
        _ => format!("a backslash and the byte {:#04x} are", text[0]),
    };
    format!(r"{escape} not an escape (a backslash is written \\)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn line(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_line(key, value, &mut out);
        out
    }

    #[test]
    fn the_format_is_this() {
        assert_eq!(line(b"key", b"value"), b"key\tvalue\n");
        assert_eq!(line(b"", b""), b"\t\n");
        assert_eq!(line(b"#a#", b"#"), b"\\#a#\t#\n");
        assert_eq!(line(b"a\tb\nc\rd\\e", b"\t\n\r\\"), b"a\\tb\\nc\\rd\\\\e\t\\t\\n\\r\\\\\n");
        assert_eq!(line(b"\0\xff", b"\x80"), b"\0\xff\t\x80\n");
    }

    #[test]
    fn lines_of_others_are_read() {
        let read = |line: &[u8]| {
            let (key, value) = read_line(line).unwrap();
            [key, value].map(|part| part.escape_ascii().to_string())
        };
        assert_eq!(read(b"k\tv"), ["k", "v"], "the last line may lack its end");
        assert_eq!(read(b"k\tv\r\n"), ["k", "v"]);
        assert_eq!(read(b"k\tv\r\r\n"), ["k", r"v\r"]);
        assert_eq!(read(b"k\rk\tv\n"), [r"k\rk", "v"]);
        assert_eq!(read(b"a\tb\tc\n"), ["a", r"b\tc"]);
        assert_eq!(read(b"a\\#\t#\n"), ["a#", "#"]);
    }

    #[test]
    fn bad_lines_say_why() {
        let why = |line: &[u8]| read_line(line).unwrap_err();
        assert_eq!(why(b"\n"), "no tab between key and value");
        assert_eq!(why(b"key value\n"), "no tab between key and value");
        assert_eq!(why(b"k\t\\d\n"), r"\d is not an escape (a backslash is written \\)");
        assert_eq!(why(b"k\\\tv\n"), r"a single backslash at the end (it is written \\)");
        assert_eq!(why(b"k\tv\\\r\n"), r"a single backslash at the end (it is written \\)");
        assert_eq!(why("k\t\\é\n".as_bytes()), r"\é is not an escape (a backslash is written \\)");
        for (bad, byte) in [(&b"k\t\\\xa4x\n"[..], "0xa4"), (b"k\t\\\r\r\n", "0x0d")] {
            let wanted = format!(
                r"a backslash and the byte {byte} are not an escape (a backslash is written \\)"
            );
            assert_eq!(why(bad), wanted);
        }
    }

    /// Bytes among which those with a meaning are frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let special = prop::sample::select(b"\t\n\r\\#tnr".to_vec());
        vec(prop_oneof![special, any::<u8>()], 0..24)
    }

    proptest! {
        #[test]
        fn every_entry_comes_back(entries in vec((bytes(), bytes()), 0..8)) {
            let mut text = Vec::new();
            for (key, value) in &entries {
                write_line(key, value, &mut text);
            }
            let lines = text.split_inclusive(|b| *b == b'\n');
            let back: Vec<_> = lines
                .map(|line| {
                    prop_assert_ne!(line[0], b'#');
                    Ok(read_line(line).unwrap())
                })
                .collect::<Result<_, TestCaseError>>()?;
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn any_line_is_read_or_refused(line in bytes()) {
            if let Ok((key, value)) = read_line(&line) {
                let mut text = Vec::new();
                write_line(&key, &value, &mut text);
                prop_assert_eq!(read_line(&text).unwrap(), (key, value));
            }
        }
    }
}
