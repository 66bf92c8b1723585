//! Figures about a node.

/// A figure about a node, for monitoring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Its name: small letters and underscores.
    pub name: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// It counts since the node was started, and never falls.
    pub counts: bool,
    /// What the parts of the figure differ by, if it has parts.
    pub label: Option<&'static str>,
    /// Each part, by its value of the label; one without a value where there are no parts.
    pub values: Vec<(&'static str, u64)>,
}

impl Figure {
    /// How much there is of something now.
    pub(crate) fn now(name: &'static str, help: &'static str, value: u64) -> Self {
        Figure { name, help, counts: false, label: None, values: vec![("", value)] }
    }

    /// How often something has happened.
    pub(crate) fn since(name: &'static str, help: &'static str, value: u64) -> Self {
        Figure { counts: true, ..Self::now(name, help, value) }
    }

    /// The same, of each kind.
    pub(crate) fn each(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Self {
        let values = values.into_iter().collect();
        Figure { name, help, counts: true, label: Some(label), values }
    }
}
