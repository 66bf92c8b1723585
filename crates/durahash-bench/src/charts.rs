//! The three kinds of charts: bars, lines, and ranges of percentiles.

use crate::svg::{Anchor, Axis, Canvas, Show, WIDTH, colour, duration, number, width_of};

/// Room left and right of what is plotted.
const RIGHT: f64 = 18.0;
const LEFT: f64 = 14.0;

/// A chart's head: its title, and the names of its series.
struct Head<'a> {
    title: &'a str,
    /// The facts beside the title: threads, medium.
    subtitle: &'a str,
    series: &'a [String],
    /// The style of each series' line; none where they are bars.
    lines: &'a [Style],
}

/// The look of a line: its colour and mark, and its dashes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub(crate) colour: usize,
    pub(crate) dash: usize,
}

impl Style {
    fn path(self, canvas: &mut Canvas, points: &[(f64, f64)]) {
        canvas.path(points, &colour(self.colour), self.dash);
    }

    fn mark(self, canvas: &mut Canvas, at: (f64, f64), title: &str) {
        let class = format!("fill {}", colour(self.colour));
        canvas.mark(at.0, at.1, self.colour, &class, title);
    }
}

impl Head<'_> {
    /// Draws it; returns where the room below begins.
    fn draw(&self, canvas: &mut Canvas) -> f64 {
        canvas.text(LEFT, 22.0, Anchor::Start, "title", self.title);
        let mut y = 22.0;
        if !self.subtitle.is_empty() {
            y += 19.0;
            canvas.text(LEFT, y, Anchor::Start, "soft", self.subtitle);
        }
        y += 22.0;
        let mut x = LEFT;
        for (i, name) in self.series.iter().enumerate() {
            let line = self.lines.get(i);
            let mark = if line.is_some() { 34.0 } else { 18.0 };
            let width = mark + width_of(name) + 14.0;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + 18.0);
            }
            match line {
                Some(style) => {
                    style.path(canvas, &[(x, y - 4.0), (x + 28.0, y - 4.0)]);
                    style.mark(canvas, (x + 14.0, y - 4.0), name);
                }
                None => canvas.bar(x, y - 10.0, (12.0, 12.0), &colour(i), name),
            }
            canvas.text(x + mark, y, Anchor::Start, "", name);
            x += width;
        }
        y + 10.0
    }
}

/// The bar of one series in one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Groups of horizontal bars, one for each series.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    pub(crate) axis: &'a str,
    /// How a bar's number is written beside it.
    pub(crate) show: Show,
    pub(crate) series: Vec<String>,
    /// A name, and a bar for each series.
    pub(crate) groups: Vec<(String, Vec<Option<Bar>>)>,
}

impl Bars<'_> {
    pub(crate) fn svg(&self) -> String {
        const BAR: f64 = 13.0;
        let mut canvas = Canvas::default();
        let top =
            Head { title: self.title, subtitle: self.subtitle, series: &self.series, lines: &[] }
                .draw(&mut canvas);
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars.iter().flatten());
        let max = bars().map(|bar| bar.max).fold(0.0, f64::max);
        let axis = Axis::linear(0.0, max, number);
        let left = labels(self.groups.iter().map(|(name, _)| name.as_str()));
        // Room for the number beside the longest bar.
        let right = WIDTH - 44.0;
        let x = |v: f64| left + axis.at(v) * (right - left);
        let group = BAR * self.series.len() as f64 + 9.0;
        let bottom = top + group * self.groups.len() as f64 + 3.0;
        vertical_rules(&mut canvas, &axis, &x, (top, bottom), self.axis);
        for (i, (name, bars)) in self.groups.iter().enumerate() {
            let y = top + group * i as f64 + 6.0;
            let middle = y + (group - 9.0) / 2.0 + 4.5;
            canvas.text(left - 8.0, middle, Anchor::End, "", name);
            for (s, bar) in bars.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let y = y + BAR * s as f64;
                let value = (self.show)(bar.value);
                let title = format!("{name}, {}: {value}", self.series[s]);
                let width = (x(bar.value) - left).max(0.5);
                canvas.bar(left, y, (width, BAR - 1.5), &colour(s), &title);
                if bar.max - bar.min > 0.0 {
                    let y = y + (BAR - 1.5) / 2.0;
                    canvas.rule((x(bar.min), y), (x(bar.max), y), "whisker");
                }
                let end = x(bar.value).max(x(bar.max));
                canvas.text(end + 4.0, y + BAR - 3.2, Anchor::Start, "value", &value);
            }
        }
        canvas.rule((left, top), (left, bottom), "axis");
        canvas.finish(bottom + 42.0, self.title)
    }
}

/// One line.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) style: Style,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines over a common axis.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    pub(crate) x: (&'a str, Axis),
    pub(crate) y: (&'a str, Axis),
    pub(crate) series: Vec<Line>,
    /// Points between two marks, at least 1.
    pub(crate) marks: usize,
}

impl Lines<'_> {
    pub(crate) fn svg(&self) -> String {
        const HEIGHT: f64 = 210.0;
        let mut canvas = Canvas::default();
        let names: Vec<String> = self.series.iter().map(|line| line.name.clone()).collect();
        let styles: Vec<Style> = self.series.iter().map(|line| line.style).collect();
        let head =
            Head { title: self.title, subtitle: self.subtitle, series: &names, lines: &styles };
        let (x_label, x_axis) = &self.x;
        let (y_label, y_axis) = &self.y;
        let top = head.draw(&mut canvas) + 24.0;
        let bottom = top + HEIGHT;
        let shown: Vec<String> = y_axis.ticks.iter().map(|v| (y_axis.show)(*v)).collect();
        let left = labels(shown.iter().map(String::as_str));
        let right = WIDTH - RIGHT;
        let x = |v: f64| left + x_axis.at(v) * (right - left);
        let y = |v: f64| bottom - y_axis.at(v) * HEIGHT;
        canvas.text(LEFT, top - 12.0, Anchor::Start, "soft", y_label);
        for (v, text) in y_axis.ticks.iter().zip(&shown) {
            canvas.rule((left, y(*v)), (right, y(*v)), "rule");
            canvas.text(left - 8.0, y(*v) + 4.5, Anchor::End, "soft", text);
        }
        vertical_rules(&mut canvas, x_axis, &x, (top, bottom), x_label);
        canvas.rule((left, bottom), (right, bottom), "axis");
        for Line { name, style, points } in &self.series {
            let at: Vec<(f64, f64)> = points.iter().map(|(px, py)| (x(*px), y(*py))).collect();
            style.path(&mut canvas, &at);
            let marked = points.iter().zip(&at).step_by(self.marks.max(1));
            for ((px, py), at) in marked {
                let (px, py) = ((x_axis.show)(*px), (y_axis.show)(*py));
                style.mark(&mut canvas, *at, &format!("{name}: {py} at {px}"));
            }
        }
        canvas.finish(bottom + 42.0, self.title)
    }
}

/// Groups of percentiles of nanoseconds, on a logarithmic axis: a line from the first to the last
/// for each series, and a mark for each percentile.
pub(crate) struct Ranges<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    pub(crate) axis: &'a str,
    pub(crate) percentiles: &'a [&'a str],
    pub(crate) series: Vec<String>,
    /// A name, and the percentiles of each series.
    pub(crate) groups: Vec<(String, Vec<Option<Vec<f64>>>)>,
}

impl Ranges<'_> {
    pub(crate) fn svg(&self) -> String {
        const ROW: f64 = 15.0;
        let mut canvas = Canvas::default();
        let head =
            Head { title: self.title, subtitle: self.subtitle, series: &self.series, lines: &[] };
        let y = head.draw(&mut canvas) + 12.0;
        let mut x = LEFT + 6.0;
        for (shape, name) in self.percentiles.iter().enumerate() {
            canvas.mark(x, y - 4.0, shape, "ink", name);
            canvas.text(x + 11.0, y, Anchor::Start, "soft", name);
            x += 11.0 + width_of(name) + 16.0;
        }
        let top = y + 12.0;
        let all = || {
            let series = self.groups.iter().flat_map(|(_, series)| series.iter().flatten());
            series.flatten().copied().filter(|ns| *ns > 0.0)
        };
        let (lo, hi) = (all().fold(f64::MAX, f64::min), all().fold(1.0, f64::max));
        let axis = Axis::log(lo.min(hi), hi, duration);
        let left = labels(self.groups.iter().map(|(name, _)| name.as_str()));
        let right = WIDTH - RIGHT - 8.0;
        let x = |v: f64| left + axis.at(v) * (right - left);
        let group = ROW * self.series.len() as f64 + 6.0;
        let bottom = top + group * self.groups.len() as f64 + 4.0;
        vertical_rules(&mut canvas, &axis, &x, (top, bottom), self.axis);
        for (i, (name, series)) in self.groups.iter().enumerate() {
            let y = top + group * i as f64 + 5.0;
            let middle = y + (group - 6.0) / 2.0 + 4.5;
            canvas.text(left - 8.0, middle, Anchor::End, "", name);
            for (s, values) in series.iter().enumerate() {
                let Some(values) = values else { continue };
                let y = y + ROW * s as f64 + ROW / 2.0;
                let points: Vec<(f64, f64)> = values.iter().map(|ns| (x(*ns), y)).collect();
                canvas.path(&points, &colour(s), 0);
                for (shape, (ns, at)) in values.iter().zip(&points).enumerate() {
                    let (percentile, ns) = (self.percentiles[shape], duration(*ns));
                    let title = format!("{name}, {}: {percentile} {ns}", self.series[s]);
                    canvas.mark(at.0, at.1, shape, &format!("fill {}", colour(s)), &title);
                }
            }
        }
        canvas.rule((left, top), (left, bottom), "axis");
        canvas.finish(bottom + 42.0, self.title)
    }
}

/// Where the plot begins, beside labels.
fn labels<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    LEFT + names.map(width_of).fold(20.0, f64::max) + 8.0
}

/// The rules, numbers and label of an axis that lies below.
fn vertical_rules(
    canvas: &mut Canvas,
    axis: &Axis,
    x: &dyn Fn(f64) -> f64,
    (top, bottom): (f64, f64),
    label: &str,
) {
    let mut free = f64::MIN;
    for v in &axis.ticks {
        let text = (axis.show)(*v);
        let half = width_of(&text) / 2.0;
        canvas.rule((x(*v), top), (x(*v), bottom), "rule");
        // The last number may be wider than the room beside the plot.
        let middle = x(*v).min(WIDTH - half - 2.0);
        if middle - half > free {
            canvas.text(middle, bottom + 17.0, Anchor::Middle, "soft", &text);
            free = middle + half + 4.0;
        }
    }
    let (first, last) = (axis.ticks[0], axis.ticks[axis.ticks.len() - 1]);
    let middle = (x(first) + x(last)) / 2.0;
    canvas.text(middle, bottom + 35.0, Anchor::Middle, "soft", label);
}
