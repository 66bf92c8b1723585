//! Bars for long work, on the standard error and only if that is a terminal.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::output::complain;

/// How often something that cannot tell how far it is shows that it is alive.
const TICK: Duration = Duration::from_millis(100);
/// Entries between two looks at the bar, so that it costs nothing.
pub(crate) const STEP: u64 = 1024;

/// A bar, or nothing where nobody would see it. Gone from the screen when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of bytes read, or without an end where their number is not known.
    pub(crate) fn of_bytes(what: &'static str, total: Option<u64>) -> Self {
        let Some(total) = total else {
            return Self::without_end(what);
        };
        Self::with(
            ProgressBar::new(total),
            "{prefix} {wide_bar} {percent:>3}%  {msg}{binary_bytes_per_sec}, {eta} left",
            what,
        )
    }

    /// A bar of entries.
    pub(crate) fn of_entries(what: impl Into<Cow<'static, str>>, total: u64) -> Self {
        Self::with(
            ProgressBar::new(total),
            "{prefix} {wide_bar} {percent:>3}%  {human_pos} entries, {rate}, {eta} left",
            what,
        )
    }

    /// A bar of parts of about equal length.
    pub(crate) fn of_parts(what: &'static str, total: u64) -> Self {
        let template = "{prefix} {wide_bar} {percent:>3}%  {msg}{elapsed}, {eta} left";
        Self::with(ProgressBar::new(total), template, what)
    }

    /// A sign of life, with the time it has taken.
    pub(crate) fn without_end(what: &'static str) -> Self {
        let bar = Self::with(ProgressBar::new_spinner(), "{prefix} {spinner} {msg}{elapsed}", what);
        if !bar.0.is_hidden() {
            bar.0.enable_steady_tick(TICK);
        }
        bar
    }

    /// Where the work is now, of how much. Until this is first said there is a sign of life.
    pub(crate) fn watch(&mut self, done: u64, of: u64) {
        if done == 1 {
            *self = Self::of_entries(self.0.prefix(), of);
        }
        if done.is_multiple_of(STEP) {
            self.set(done);
        }
    }

    /// Nothing to be seen.
    pub(crate) fn none() -> Self {
        Progress(ProgressBar::hidden())
    }

    fn with(bar: ProgressBar, template: &str, what: impl Into<Cow<'static, str>>) -> Self {
        if !io::stderr().is_terminal() {
            return Self::none();
        }
        let style = ProgressStyle::with_template(template).expect("templates are constants");
        let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            // A bar that cannot be drawn is not missed.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        });
        Progress(bar.with_style(style).with_prefix(what))
    }

    /// Where the work is now.
    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Sets the message beside the bar.
    pub(crate) fn say(&self, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(message());
        }
    }

    /// Writes a line to the standard error, above the bar.
    pub(crate) fn complain(&self, line: &str) {
        self.0.suspend(|| complain(line));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
