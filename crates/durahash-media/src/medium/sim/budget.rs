//! The two tiers of tests.

/// The count of a test: `usual`, or `deep` where `DURAHASH_DEEP=1` is in the environment.
#[must_use]
pub fn budget<T>(usual: T, deep: T) -> T {
    let is_deep = std::env::var_os("DURAHASH_DEEP").is_some_and(|set| set != "0");
    if is_deep { deep } else { usual }
}

/// The seed that a test begins at: `first`, or as far behind it as `DURAHASH_SEED` in the environment says.
///
/// # Panics
/// When `DURAHASH_SEED` is not a number.
#[must_use]
pub fn seed(first: u64) -> u64 {
    let run = std::env::var("DURAHASH_SEED");
    first + run.map_or(0, |run| run.parse().expect("DURAHASH_SEED is a number"))
}
