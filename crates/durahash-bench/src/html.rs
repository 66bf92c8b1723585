//! A report as one page that needs nothing but itself.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::{Error, Result};
use crate::figures;
use crate::report::Report;
use crate::svg::{CLASSES, STYLE, escape};
use crate::tables::simulated;
use crate::tables::{Table, facts, tables};

/// The looks of the page. Figures take theirs from the same colours.
const PAGE_STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--rule:#d8dee4;--paper:#fff;\
--back:#f6f8fa;--warn:#9a3412}\
@media(prefers-color-scheme:dark){@media screen{:root{--ink:#e6edf3;--soft:#9aa4af;--rule:#30363d;\
--paper:#161b22;--back:#0d1117;--warn:#fdba74}\
svg{--ink:#e6edf3;--soft:#9aa4af;--rule:#30363d;--paper:#161b22;--c0:#4aa3df;--c2:#1dbf93}}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--back);color:var(--ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
main{max-width:1340px;margin:0 auto;padding:24px 16px 48px}\
h1{font-size:1.75rem;line-height:1.2;margin:8px 0 4px}\
h2{font-size:1.25rem;margin:40px 0 12px}\
h3{font-size:1rem;margin:0 0 8px}\
p{margin:0 0 12px;max-width:90ch}\
.lead,figcaption,.note{color:var(--soft);font-size:.875rem}\
.warn{color:var(--warn);font-weight:600}\
.card,figure{background:var(--paper);border:1px solid var(--rule);border-radius:8px;margin:0}\
.card{padding:16px;margin-bottom:16px}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;margin:0}\
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\
.figures{columns:3 350px;column-gap:16px}\
figure{padding:8px 8px 12px;margin-bottom:16px;break-inside:avoid}\
figure svg{display:block;width:100%;height:auto}\
figcaption{padding:4px 10px 0}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}\
th,td{padding:4px 12px 4px 0;text-align:right;white-space:nowrap;\
border-bottom:1px solid var(--rule)}\
th{color:var(--soft);font-weight:500;vertical-align:bottom}\
th.name,td.name{text-align:left}\
td.words{text-align:left;color:var(--soft);padding-left:8px}\
.note{margin:8px 0 0}\
@media(max-width:600px){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:6px}\
main{padding:16px 8px 32px}figure{padding:4px 2px 10px}}\
@media print{body{background:#fff}.card,figure{border-color:#ccc}main{max-width:none}\
.figures{columns:2}}";

impl Report {
    /// The report as one HTML page: no scripts, nothing from elsewhere.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>durahash benchmark</title>\n<style>{STYLE}{PAGE_STYLE}{CLASSES}</style>\n\
             </head>\n<body>\n<main>\n<h1>durahash benchmark</h1>\n\
             <p class=\"lead\">Crash-consistent hash indexes: what each design costs and gains on \
             one machine. Compare numbers of one page only; those of other machines, and of other \
             hours of this one, differ.</p>\n"
        );
        if let Some(name) = &self.setup.emulates {
            // Writing to a string does not fail.
            let _ = writeln!(
                page,
                "<p class=\"warn\">The latency of {} is emulated: no time on this page was taken \
                 on the real thing.</p>",
                escape(name)
            );
        }
        if simulated(self).is_some() {
            page.push_str(
                "<p class=\"warn\">What is titled \u{201c}simulated\u{201d} is virtual time on assumed NICs, no \
                 measurement.</p>\n",
            );
        }
        page.push_str("<div class=\"card\"><dl>\n");
        for (name, fact) in facts(self) {
            let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escape(&fact));
        }
        page.push_str("</dl></div>\n<h2>Figures</h2>\n<div class=\"figures\">\n");
        for figure in figures::draw(self) {
            let _ = writeln!(
                page,
                "<figure>\n{}<figcaption>{}</figcaption>\n</figure>",
                figure.inline(),
                escape(figure.caption)
            );
        }
        page.push_str("</div>\n<h2>Tables</h2>\n");
        for table in tables(self) {
            page.push_str(&table.to_html());
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    /// Writes the report into a directory, which is made if there is none: the page
    /// (`report.html`), the data (`report.json`), and each figure as an SVG file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_page(&self, dir: &Path) -> Result<()> {
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|e| Error::io("writing", Some(&path), e))
        };
        std::fs::create_dir_all(dir)
            .map_err(|e| Error::io("making the directory", Some(dir), e))?;
        write("report.html", &self.to_html())?;
        write("report.json", &self.to_json())?;
        for figure in figures::draw(self) {
            write(&format!("{}.svg", figure.name), &figure.file())?;
        }
        Ok(())
    }
}

impl Table {
    fn to_html(&self) -> String {
        let mut html = format!(
            "<div class=\"card\"><h3>{}</h3>\n<div class=\"scroll\"><table>\n<tr>",
            escape(&self.title)
        );
        let class = |column: usize| match self.header[column].as_str() {
            "" => " class=\"words\"",
            _ if self.is_words(column) => " class=\"name\"",
            _ => "",
        };
        let cells = |html: &mut String, element: &str, row: &[String]| {
            for (column, cell) in row.iter().enumerate() {
                let class = class(column);
                let _ = write!(html, "<{element}{class}>{}</{element}>", escape(cell));
            }
        };
        cells(&mut html, "th", &self.header);
        for row in &self.rows {
            html.push_str("</tr>\n<tr>");
            cells(&mut html, "td", row);
        }
        let _ = write!(
            html,
            "</tr>\n</table></div>\n<p class=\"note\">{}</p></div>\n",
            escape(&self.note)
        );
        html
    }
}
