//! Tables that `docs/benchmarks-remote.md` shows, held to what is counted.

const DOCUMENT: &str = include_str!("../../../../docs/benchmarks-remote.md");

pub(crate) struct Table {
    /// The names of the columns, as a row of Markdown.
    pub(crate) head: &'static str,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    fn markdown(&self) -> String {
        let columns = self.head.matches(" | ").count() + 1;
        let row = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
        let rows: String = self.rows.iter().map(row).collect();
        format!("{}\n|{}\n{rows}", self.head, "---|".repeat(columns))
    }

    /// Prints the table. Its rows must be the first of the document's table.
    pub(crate) fn assert_documented(&self) {
        let text = self.markdown();
        println!("{text}");
        assert!(
            DOCUMENT.contains(&text),
            "docs/benchmarks-remote.md has another table than this:\n{text}"
        );
    }
}

/// A count, with commas: 1,234,567.
pub(crate) fn count(count: u64) -> String {
    if count < 1000 {
        return count.to_string();
    }
    format!("{},{:03}", self::count(count / 1000), count % 1000)
}

/// A number with so many digits after the point.
pub(crate) fn number(number: f64, digits: usize) -> String {
    format!("{number:.digits$}")
}

#[test]
fn tables_are_markdown() {
    let row = vec!["a".to_owned(), count(1_034_567), count(567), number(0.5, 2)];
    let table = Table { head: "| b | c | d | e |", rows: vec![row] };
    let text = "| b | c | d | e |\n|---|---|---|---|\n| a | 1,034,567 | 567 | 0.50 |\n";
    assert_eq!(table.markdown(), text);
}
