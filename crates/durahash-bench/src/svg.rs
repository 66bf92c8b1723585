//! Charts as SVG: what is drawn is given as numbers, and comes out as text.
//!
//! Colours and lines are classes, so that a page may give them other values in the dark; a chart
//! that stands alone brings [`STYLE`] along, on white. The colours are those of Okabe and Ito, which
//! the colour-blind tell apart; their order is one of differing lightness, for paper, and series
//! differ in marks and dashes as well.

use std::fmt::Write as _;

/// Units of length across a chart. Small, so that letters stay large on a telephone.
pub(crate) const WIDTH: f64 = 420.0;

/// Colours of series; more of them begin again.
const COLOURS: usize = 6;

/// The looks of a chart in light surroundings.
pub(crate) const STYLE: &str = "\
svg{--ink:#1b1f24;--soft:#57606a;--rule:#d8dee4;--paper:#fff;--c0:#0072b2;--c1:#e69f00;\
--c2:#009e73;--c3:#cc79a7;--c4:#d55e00;--c5:#56b4e9}";

/// The looks of a chart that hold in any surroundings.
pub(crate) const CLASSES: &str = "\
svg text{font:12.5px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;\
fill:var(--ink)}\
svg .title{font-size:15px;font-weight:600}\
svg .soft{fill:var(--soft)}\
svg .value{font-size:11px;fill:var(--soft)}\
svg .rule{stroke:var(--rule);stroke-width:1}\
svg .axis{stroke:var(--soft);stroke-width:1}\
svg .whisker{stroke:var(--ink);stroke-width:1}\
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}\
svg .mark{stroke:var(--paper);stroke-width:.75}\
svg .ink{fill:var(--soft)}\
svg .c0{--c:var(--c0)}svg .c1{--c:var(--c1)}svg .c2{--c:var(--c2)}\
svg .c3{--c:var(--c3)}svg .c4{--c:var(--c4)}svg .c5{--c:var(--c5)}\
svg .fill{fill:var(--c)}svg .line{stroke:var(--c)}";

/// The class of the `i`-th series.
pub(crate) fn colour(i: usize) -> String {
    format!("c{}", i % COLOURS)
}

/// Text that may stand in XML, in a double-quoted attribute too.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Where a text is held.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under way.
#[derive(Default)]
pub(crate) struct Canvas(String);

impl Canvas {
    /// Appends to the drawing.
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{}</text>"#,
            escape(text)
        ));
    }

    pub(crate) fn rule(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" class="{class}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A bar from the left, which says what it is when it is pointed at.
    pub(crate) fn bar(&mut self, x: f64, y: f64, size: (f64, f64), class: &str, title: &str) {
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" class="fill {class}"><title>{}</title></rect>"#,
            size.0, size.1, escape(title)
        ));
    }

    /// A line through points; `dash` tells series apart without colours.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], class: &str, dash: usize) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        let dash = ["none", "7 3", "2 3", "9 3 2 3"][dash % 4];
        self.add(format_args!(r#"<path d="{d}" class="line {class}" stroke-dasharray="{dash}"/>"#));
    }

    /// A mark around a point: circle, square, diamond, triangle.
    pub(crate) fn mark(&mut self, x: f64, y: f64, shape: usize, class: &str, title: &str) {
        let title = escape(title);
        let corners: &[(f64, f64)] = match shape % 4 {
            0 => {
                return self.add(format_args!(
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="mark {class}"><title>{title}</title></circle>"#
                ));
            }
            1 => &[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)],
            2 => &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
            _ => &[(0.0, -4.8), (4.8, 3.8), (-4.8, 3.8)],
        };
        let points: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        self.add(format_args!(
            r#"<polygon points="{}" class="mark {class}"><title>{title}</title></polygon>"#,
            points.join(" ")
        ));
    }

    /// The drawing, `height` high and named `title`, for a page that has the styles.
    pub(crate) fn finish(self, height: f64, title: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escape(title),
            self.0
        )
    }
}

/// Makes a finished drawing stand alone: its own styles, on white.
pub(crate) fn stand_alone(svg: &str) -> String {
    let Some((head, body)) = svg.split_once('\n') else {
        return svg.to_owned();
    };
    format!(
        "{head}\n<style>{STYLE}{CLASSES}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}"
    )
}

/// How wide a text of the usual size is, about.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 7.1
}

/// A number as an axis shows it.
pub(crate) type Show = fn(f64) -> String;

/// Maps numbers to a length.
pub(crate) struct Axis {
    log: bool,
    lo: f64,
    hi: f64,
    /// Where the numbers are written.
    pub(crate) ticks: Vec<f64>,
    /// How they are.
    pub(crate) show: Show,
}

impl Axis {
    /// From `lo` to `hi` or a little beyond, in about five steps.
    pub(crate) fn linear(lo: f64, hi: f64, show: Show) -> Self {
        let hi = if hi > lo { hi } else { lo + 1.0 };
        let rough = (hi - lo) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps.map(|m| m * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((lo / step).floor(), (hi / step - 1e-9).ceil());
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step);
        Axis { log: false, lo: first * step, hi: last * step, ticks: ticks.collect(), show }
    }

    /// Whole powers of ten around `lo` and `hi`, which are positive.
    pub(crate) fn log(lo: f64, hi: f64, show: Show) -> Self {
        let first = lo.log10().floor() as i32;
        let last = (hi.log10().ceil() as i32).max(first + 1);
        let ticks: Vec<f64> = (first..=last).map(|power| 10_f64.powi(power)).collect();
        Self::log_at(ticks, show)
    }

    /// Logarithmic, from the first of `ticks` to the last.
    pub(crate) fn log_at(ticks: Vec<f64>, show: Show) -> Self {
        Axis { log: true, lo: ticks[0], hi: ticks[ticks.len() - 1], ticks, show }
    }

    /// Where `v` lies, from 0 to 1.
    pub(crate) fn at(&self, v: f64) -> f64 {
        let part = if self.log {
            (v.max(self.lo) / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (v - self.lo) / (self.hi - self.lo)
        };
        part.clamp(0.0, 1.0)
    }
}

/// A number in three digits: `0`, `0.25`, `12.5`, `250k`, `10M`.
pub(crate) fn number(v: f64) -> String {
    scaled(v, &[(999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (10_000.0, 1e3, "k"), (0.0, 1.0, "")])
}

/// Nanoseconds in three digits: `250 ns`, `1.5 µs`, `20 ms`.
pub(crate) fn duration(ns: f64) -> String {
    scaled(
        ns,
        &[(999.5e6, 1e9, " s"), (999.5e3, 1e6, " ms"), (999.5, 1e3, " µs"), (0.0, 1.0, " ns")],
    )
}

/// A number in the first unit that it is large enough for.
fn scaled(v: f64, units: &[(f64, f64, &str)]) -> String {
    let unit = units.iter().find(|(least, ..)| v.abs() >= *least);
    let (_, unit, name) = unit.unwrap_or(&(0.0, 1.0, ""));
    format!("{}{name}", digits(v / unit))
}

/// Three digits, without zeros at the end of a fraction.
fn digits(v: f64) -> String {
    let text = three_digits(v);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Three digits: `0.25`, `1.20`, `12.5`, `250`.
pub(crate) fn three_digits(v: f64) -> String {
    let places = match v.abs() {
        a if a >= 99.95 => 0,
        a if a >= 9.995 => 1,
        _ => 2,
    };
    format!("{v:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (v, text) in [
            (0.0, "0"),
            (0.254, "0.25"),
            (12.5, "12.5"),
            (123.4, "123"),
            (9999.0, "9999"),
            (250_000.0, "250k"),
            (999_999.0, "1M"),
            (2e9, "2G"),
        ] {
            assert_eq!(number(v), text);
        }
        for (v, text) in [
            (12.0, "12 ns"),
            (999.6, "1 µs"),
            (15_300.0, "15.3 µs"),
            (2e6, "2 ms"),
            (3.25e9, "3.25 s"),
        ] {
            assert_eq!(duration(v), text);
        }
    }

    #[test]
    fn axes_reach_around_their_numbers() {
        for (lo, hi) in [(0.0, 7.3), (0.0, 0.001), (0.6, 0.71), (0.0, 1e9), (3.0, 3.0)] {
            let axis = Axis::linear(lo, hi, number);
            assert!(axis.lo <= lo && axis.hi >= hi, "{lo} {hi}");
            assert!((3..=8).contains(&axis.ticks.len()), "{:?}", axis.ticks);
        }
        let axis = Axis::log(90.0, 2e6, duration);
        assert_eq!((axis.lo, axis.hi), (10.0, 1e7));
        assert!((axis.at(1e4) - 0.5).abs() < 1e-9);
        assert_eq!((axis.at(0.0), axis.at(1e9)), (0.0, 1.0));
        assert_eq!(Axis::log(100.0, 100.0, duration).ticks.len(), 2);
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("<a> & \"b\""), "&lt;a&gt; &amp; &quot;b&quot;");
    }
}
