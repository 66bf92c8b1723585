//! Enums whose variants have names.

/// Declares an enum with a name for each variant, and a description, which is its documentation, where all have one.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident {
        $($(#[$attribute:meta])* $Variant:ident = $name:literal: $description:literal,)*
    }) => {
        named! {
            $(#[$meta])*
            $vis enum $Enum { $($(#[$attribute])* #[doc = $description] $Variant = $name,)* }
        }

        impl $Enum {
            /// Its description, in a line.
            #[must_use]
            $vis fn description(self) -> &'static str {
                match self { $($Enum::$Variant => $description,)* }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident {
        $($(#[$attribute:meta])* $Variant:ident = $name:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $Enum { $($(#[$attribute])* $Variant,)* }

        impl $Enum {
            /// All of them, in their order.
            $vis const ALL: [Self; [$($name),*].len()] = [$($Enum::$Variant),*];

            /// Its name.
            #[must_use]
            $vis fn name(self) -> &'static str {
                match self { $($Enum::$Variant => $name,)* }
            }
        }
    };
}
pub(crate) use named;
