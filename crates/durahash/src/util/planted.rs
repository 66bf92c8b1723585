//! Faults that tests plant.

/// Declares the faults of a module that tests plant, to prove that they would be found.
///
/// The module asks `planted` where it may be wrong. Without the cargo feature `planted` that is constant, and
/// nothing is left of it. With it, as the crash tester's tests are built, `plant` says which fault the module has
/// that this thread works on.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        durahash_media::listed! {
            /// A fault that tests plant.
            pub enum Fault { $($(#[$doc])* $name,)* }
        }

        thread_local! {
            static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
        }

        /// From now on what this thread works on has this fault.
        #[cfg(feature = "planted")]
        pub fn plant(fault: Option<Fault>) {
            PLANTED.set(fault);
        }

        /// True if what this thread works on has this fault.
        pub(crate) fn planted(fault: Fault) -> bool {
            cfg!(feature = "planted") && PLANTED.get() == Some(fault)
        }
    };
}

pub(crate) use faults;
