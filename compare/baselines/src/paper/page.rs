//! The page of a paper: a section for each figure, in Markdown, which reads as text as well.

use std::fmt::Write as _;

use durahash_bench::{Report, figures, table_of};

use super::catalogue::Figure;

/// The beginning of the page.
pub(super) fn head(paper: &str) -> String {
    format!(
        "# The figures of the paper: {paper}\n\n\
         What is counted is the same on every machine, times are not; a medium that is emulated is not the real one.\n\n"
    )
}

/// The section of a figure.
pub(super) fn of_figure(figure: &Figure, report: Option<&Report>) -> String {
    let mut text = format!("## {}: {}\n\n", figure.name(), figure.title);
    for (name, what) in
        [("Axes", figure.axes), ("Beside", figure.among), ("The paper", figure.claim)]
    {
        if !what.is_empty() {
            let _ = writeln!(text, "- {name}: {what}.");
        }
    }
    if let Some(emulates) = report.and_then(|report| report.setup.emulates.as_ref()) {
        let _ = writeln!(
            text,
            "- Times: {emulates} is emulated; no time here is one of the real thing. A load waits for the one before it, which a core does \
             not: tables that read several blocks, the baselines first, look slower for it."
        );
    }
    if let Some(report) = report {
        let (machine, setup) = (&report.machine, &report.setup);
        let _ = writeln!(
            text,
            "- Run: {}, {} cores, durahash {}, {} keys, seed {}.",
            machine.cpu, machine.cores, setup.version, setup.keys, setup.seed
        );
    }
    for limit in &figure.limits {
        let _ = writeln!(text, "- Not repeated: {limit}.");
    }
    text.push('\n');
    let Some(report) = report else { return text };
    if !figure.says.is_empty() {
        text.push_str("| | the paper | here |\n|---|---|---|\n");
        for stated in &figure.says {
            let found = stated.here(report);
            let mut here = found.map_or_else(|| "not measured".into(), three_digits);
            if let (Some(found), Some([from, to])) = (found, stated.range)
                && !(from..=to).contains(&found)
            {
                let _ = write!(here, ", not in {from} to {to}");
            }
            let _ = writeln!(text, "| {} | {} | {here} |", stated.what, stated.paper);
        }
        text.push('\n');
    }
    for spec in &figure.lists {
        if let Some(table) = table_of(report, *spec) {
            let mut lines = Vec::new();
            // Nor does writing to a vector.
            let _ = table.write_text(&mut lines);
            let _ = writeln!(text, "```text\n{}```\n", String::from_utf8_lossy(&lines));
        }
    }
    for spec in &figure.draws {
        for drawn in figures::draw_one(report, *spec) {
            let _ =
                writeln!(text, "![{}]({}-{}.svg)\n", figure.title, figure.file_name(), drawn.name);
        }
    }
    text
}

/// A number with three digits that count; a ratio to nothing is none.
fn three_digits(n: f64) -> String {
    if !n.is_finite() {
        return "-".into();
    }
    let digits = if n == 0.0 { 0 } else { (2 - n.abs().log10().floor() as i64).clamp(0, 6) };
    format!("{n:.*}", digits as usize)
}
