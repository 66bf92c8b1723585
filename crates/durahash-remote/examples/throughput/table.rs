//! A table, as Markdown and as JSON.

pub(crate) enum Cell {
    Text(&'static str),
    Count(u64),
    /// A number, and how many digits after the point Markdown has.
    Number(f64, usize),
}

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("| {} |\n", self.columns.join(" | "));
        text += &format!("|{}\n", "---|".repeat(self.columns.len()));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::markdown).collect();
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text
    }

    /// A member of an object: the name, and a list with an object for each row.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let members: Vec<String> = (self.columns.iter().zip(row))
                    .map(|(column, cell)| format!("{column:?}: {}", cell.json()))
                    .collect();
                format!("    {{{}}}", members.join(", "))
            })
            .collect();
        format!("  {:?}: [\n{}\n  ]", self.name, rows.join(",\n"))
    }
}

impl Cell {
    fn markdown(&self) -> String {
        match self {
            Cell::Text(text) => (*text).to_string(),
            Cell::Count(count) => thousands(*count),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
        }
    }

    fn json(&self) -> String {
        match self {
            // No text here has anything that is escaped differently.
            Cell::Text(text) => format!("{text:?}"),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number, _) => format!("{number:.6}"),
        }
    }
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
