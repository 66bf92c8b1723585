//! The kinds of charts: groups of bars or of marks, and lines.

use crate::svg::{Anchor, Axis, Canvas, Show, WIDTH, colour, duration, number, width_of};

/// Room left and right of what is plotted.
const RIGHT: f64 = 18.0;
const LEFT: f64 = 14.0;

/// A series: its name, its look as a line, and where it stands among the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) order: (usize, usize),
    pub(crate) style: Style,
    pub(crate) name: String,
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

/// A chart's head: its title, and its series.
pub(crate) struct Head<'a> {
    pub(crate) title: &'a str,
    /// The facts beside the title: threads, medium.
    pub(crate) subtitle: &'a str,
    pub(crate) series: Vec<Series>,
}

impl Head<'_> {
    /// Draws it; returns where the room below begins.
    fn draw(&self, canvas: &mut Canvas, has_lines: bool) -> f64 {
        canvas.text(LEFT, 22.0, Anchor::Start, "title", self.title);
        let mut y = 22.0;
        if !self.subtitle.is_empty() {
            y += 19.0;
            canvas.text(LEFT, y, Anchor::Start, "soft", self.subtitle);
        }
        y += 22.0;
        let mut x = LEFT;
        let mark = if has_lines { 34.0 } else { 18.0 };
        for (i, Series { style, name, .. }) in self.series.iter().enumerate() {
            let width = mark + width_of(name) + 14.0;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + 18.0);
            }
            if has_lines {
                style.path(canvas, &[(x, y - 4.0), (x + 28.0, y - 4.0)]);
                style.mark(canvas, (x + 14.0, y - 4.0), name);
            } else {
                canvas.bar(x, y - 10.0, (12.0, 12.0), &colour(i), name);
            }
            canvas.text(x + mark, y, Anchor::Start, "", name);
            x += width;
        }
        y + 10.0
    }
}

/// A name, and the values of each series.
pub(crate) type Group = (String, Vec<Option<Vec<f64>>>);

/// Groups of rows, one row for each series: horizontal bars, or marks on lines.
pub(crate) struct Groups<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) axis: &'a str,
    /// How a bar's number is written beside it.
    pub(crate) show: Show,
    /// The marks of each line, which are nanoseconds on a logarithmic axis. Without them the values are a bar, and the
    /// ends of its whisker.
    pub(crate) marks: &'a [&'a str],
    pub(crate) groups: Vec<Group>,
}

impl Groups<'_> {
    pub(crate) fn svg(&self) -> String {
        const ROW: f64 = 14.0;
        const GAP: f64 = 8.0;
        let mut canvas = Canvas::default();
        let mut top = self.head.draw(&mut canvas, false);
        let values = || {
            let rows = self.groups.iter().flat_map(|(_, rows)| rows.iter().flatten());
            rows.flatten().copied().filter(|value| *value > 0.0)
        };
        let most = values().fold(0.0, f64::max);
        // Right of it is room for the number beside the longest bar, or half the last mark.
        let (axis, right) = if self.marks.is_empty() {
            (Axis::linear(0.0, most, number), WIDTH - 44.0)
        } else {
            let (y, mut x) = (top + 12.0, LEFT + 6.0);
            for (shape, name) in self.marks.iter().enumerate() {
                canvas.mark(x, y - 4.0, shape, "ink", name);
                canvas.text(x + 11.0, y, Anchor::Start, "soft", name);
                x += 11.0 + width_of(name) + 16.0;
            }
            top = y + 12.0;
            let most = most.max(1.0);
            let axis = Axis::log(values().fold(f64::MAX, f64::min).min(most), most, duration);
            (axis, WIDTH - RIGHT - 8.0)
        };
        let left = labels(self.groups.iter().map(|(name, _)| name.as_str()));
        let x = |v: f64| left + axis.at(v) * (right - left);
        let group = ROW * self.head.series.len() as f64 + GAP;
        let bottom = top + group * self.groups.len() as f64 + 3.0;
        vertical_rules(&mut canvas, &axis, &x, (top, bottom), self.axis);
        for (i, (name, rows)) in self.groups.iter().enumerate() {
            let y = top + group * i as f64 + 5.5;
            let middle = y + (group - GAP) / 2.0 + 4.5;
            canvas.text(left - 8.0, middle, Anchor::End, "", name);
            for (s, values) in rows.iter().enumerate() {
                let Some(values) = values else { continue };
                let (y, middle) = (y + ROW * s as f64, y + ROW * (s as f64 + 0.5) - 0.75);
                let series = &self.head.series[s].name;
                let at = |v: &f64| (x(*v), middle);
                if let ([], [value, min, max]) = (self.marks, &values[..]) {
                    let text = (self.show)(*value);
                    let size = ((x(*value) - left).max(0.5), ROW - 1.5);
                    canvas.bar(left, y, size, &colour(s), &format!("{name}, {series}: {text}"));
                    if max > min {
                        canvas.rule(at(min), at(max), "whisker");
                    }
                    let end = x(value.max(*max));
                    canvas.text(end + 4.0, y + ROW - 3.4, Anchor::Start, "value", &text);
                    continue;
                }
                canvas.path(&values.iter().map(at).collect::<Vec<_>>(), &colour(s), 0);
                for (shape, (mark, ns)) in self.marks.iter().zip(values).enumerate() {
                    let title = format!("{name}, {series}: {mark} {}", duration(*ns));
                    canvas.mark(x(*ns), middle, shape, &format!("fill {}", colour(s)), &title);
                }
            }
        }
        canvas.rule((left, top), (left, bottom), "axis");
        canvas.finish(bottom + 42.0, self.head.title)
    }
}

/// Lines over a common axis.
pub(crate) struct Lines<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) x: (&'a str, Axis),
    pub(crate) y: (&'a str, Axis),
    /// Of each series.
    pub(crate) points: Vec<Vec<(f64, f64)>>,
}

impl Lines<'_> {
    pub(crate) fn svg(&self) -> String {
        const HEIGHT: f64 = 210.0;
        let mut canvas = Canvas::default();
        let (x_label, x_axis) = &self.x;
        let (y_label, y_axis) = &self.y;
        let top = self.head.draw(&mut canvas, true) + 24.0;
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
        let longest = self.points.iter().map(Vec::len).max().unwrap_or(0);
        let step = if longest > 32 { longest / 8 } else { 1 };
        for (Series { name, style, .. }, points) in self.head.series.iter().zip(&self.points) {
            let at: Vec<(f64, f64)> = points.iter().map(|(px, py)| (x(*px), y(*py))).collect();
            style.path(&mut canvas, &at);
            for ((px, py), at) in points.iter().zip(&at).step_by(step) {
                let (px, py) = ((x_axis.show)(*px), (y_axis.show)(*py));
                style.mark(&mut canvas, *at, &format!("{name}: {py} at {px}"));
            }
        }
        canvas.finish(bottom + 42.0, self.head.title)
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
