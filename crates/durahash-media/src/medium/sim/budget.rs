//! The two tiers of tests.

/// The count of a test: `usual`, or `deep` where `DURAHASH_DEEP=1` is in the environment.
#[must_use]
pub fn budget<T>(usual: T, deep: T) -> T {
    let is_deep = std::env::var_os("DURAHASH_DEEP").is_some_and(|set| set != "0");
    if is_deep { deep } else { usual }
}
