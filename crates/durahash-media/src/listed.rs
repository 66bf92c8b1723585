//! Enums that know all of their values.

/// Declares an enum, and a list of all its values.
#[doc(hidden)]
#[macro_export]
macro_rules! listed {
    ($(#[$docs:meta])* $vis:vis enum $type:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $type { $($(#[$doc])* $name,)* }

        impl $type {
            /// All of them.
            $vis const ALL: &[$type] = &[$($type::$name,)*];
        }
    };
}
