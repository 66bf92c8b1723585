//! Panics of the code under test, caught and kept out of the output.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `f`.
///
/// # Errors
/// The message of a panic of `f`, and its place.
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                SAID.set(info.to_string());
            } else {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    // State that a panic leaves behind is thrown away with the medium it happened on.
    let done = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(before);
    done.map_err(|_| SAID.take())
}
