use super::catalogue::figures;

/// Every figure and table of the evaluations stands in the catalogue, and is repeated or says why not.
#[test]
fn all_figures_of_the_papers_are_there() {
    for (paper, ids) in [
        ("reh", "6 7 8 recovery"),
        ("esh", "5 8 9 10 table2"),
        ("rewo", "10 11 12 13 14 15 16 table2 table5 table6"),
        ("pea", "4 5 6 7 8 9 10 table3 table4"),
        ("sephash", "2 3 12 13 14 15 16 17 18 19 20 21 22 table1 table2 table3"),
    ] {
        let figures = figures(paper).unwrap();
        for id in ids.split(' ') {
            let id = id.replace("table", "table ");
            assert!(figures.iter().any(|figure| figure.is(&id)), "{paper}, {id}");
        }
        for figure in &figures {
            let name = figure.file_name();
            let words = [figure.title, figure.axes, figure.claim];
            assert!(words.iter().all(|word| !word.is_empty()), "{name}");
            assert!(!figure.runs.is_empty() || !figure.limits.is_empty(), "{name}");
        }
    }
}
