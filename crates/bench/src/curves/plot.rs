//! Charts as SVG, one of each group of peers.
//!
//! The background is opaque and light, because the page around the chart may be dark. Peers differ by colour and by
//! marker. Both axes are logarithmic: positions are logarithms already, and values become some here.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::chart::Chart;
use super::table::{GROUPS, Group};
use crate::error::BenchError;
use crate::peers::name::PeerName;

const SIZE: (u32, u32) = (760, 440);
const LEGEND_WIDTH: u32 = 110;
const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(216, 216, 216);
const FONT: &str = "sans-serif";
/// So much of a decade is left free above and below the values.
const ROOM: f64 = 0.12;
/// With more decades than so many, only powers of ten are written at the axis.
const DECADES_DIVIDED_MAX: f64 = 3.0;

/// Names of files and what belongs into them.
pub fn plots(charts: &[Chart]) -> Result<Vec<(String, String)>, BenchError> {
    let mut plots = Vec::new();
    for group in GROUPS {
        for chart in charts {
            if group.peers.iter().any(|peer| !points(chart, *peer).is_empty()) {
                plots.push((format!("{}-{}.svg", chart.name, group.name), plot(chart, group)?));
            }
        }
    }
    Ok(plots)
}

fn plot(chart: &Chart, group: &Group) -> Result<String, BenchError> {
    let mut svg = String::new();
    draw(chart, group, &mut svg)
        .map_err(|error| BenchError::Unusable(format!("drawing {}: {error}", chart.name)))?;
    svg.push('\n');
    Ok(svg)
}

/// Position and logarithm of the value of each point; a value that has no logarithm has no point.
fn points(chart: &Chart, peer: PeerName) -> Vec<(f64, f64)> {
    let points = chart.peers.get(&peer).into_iter().flatten();
    points.map(|point| (point.position, point.value.log10())).filter(|(_, y)| y.is_finite()).collect()
}

fn draw(chart: &Chart, group: &Group, svg: &mut String) -> Result<(), DrawingError> {
    let peers: Vec<(PeerName, Vec<(f64, f64)>)> = group
        .peers
        .iter()
        .map(|&peer| (peer, points(chart, peer)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = || peers.iter().flat_map(|(_, points)| points.iter().copied());
    let x = span(all().map(|(x, _)| x));
    let y = span(all().map(|(_, y)| y));
    let y = y.0 - ROOM..y.1 + ROOM;

    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&BACKGROUND)?;
    let (drawing, legend) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let title = format!("{}, {}", chart.title, group.title);
    let mut axes = ChartBuilder::on(&drawing)
        .caption(title, text(17))
        .margin(10)
        .x_label_area_size(48)
        .y_label_area_size(66)
        .build_cartesian_2d(
            Axis { range: x.0 - 0.15..x.1 + 0.15, lines: places(all().map(|(x, _)| x)) },
            Axis { lines: ticks(&y), range: y },
        )?;
    axes.configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .x_desc(chart.curve.along.axis())
        .y_desc(chart.quantity.axis())
        .label_style(text(12))
        .axis_desc_style(text(13))
        .x_label_formatter(&|x| at(chart, *x))
        .y_label_formatter(&|y| short(10_f64.powf(*y)))
        .draw()?;
    for (row, (peer, points)) in peers.iter().enumerate() {
        let colour = colour(*peer);
        axes.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        for &point in points {
            axes.plotting_area().draw(&marker(*peer, point))?;
        }
        let y = 52 + 24 * row as i32;
        legend.draw(&PathElement::new([(4, y), (32, y)], colour.stroke_width(2)))?;
        legend.draw(&marker(*peer, (18, y)))?;
        legend.draw(&Text::new(peer.as_str(), (40, y - 6), text(13)))?;
    }
    root.present()
}

type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// An axis of logarithms, with lines just where they are wanted.
struct Axis {
    range: Range<f64>,
    lines: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.lines.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(value), max.max(value)))
}

/// Each of them once.
fn places(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut places: Vec<f64> = values.collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// Where the axis of values has its lines: logarithms of round numbers.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let is_long = range.end - range.start > DECADES_DIVIDED_MAX;
    let steps: &[f64] = if is_long { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = range.start.floor() as i32..=range.end.ceil() as i32;
    decades
        .flat_map(|decade| steps.iter().map(move |step| f64::from(decade) + step.log10()))
        .filter(|tick| range.contains(tick))
        .collect()
}

/// The name of the point at that position.
fn at(chart: &Chart, position: f64) -> String {
    let mut points = chart.peers.values().flatten();
    points.find(|point| point.position == position).map(|point| point.at.clone()).unwrap_or_default()
}

/// A round number without zeros behind it.
fn short(value: f64) -> String {
    let scaled = |value: f64, unit: &dyn Display| format!("{}{unit}", (value * 1e3).round() / 1e3);
    match value {
        value if value >= 0.999e6 => scaled(value / 1e6, &" M"),
        value if value >= 0.999e3 => scaled(value / 1e3, &" k"),
        value => scaled(value, &""),
    }
}

/// One for each kind of file system, told apart also by readers who do not see all colours.
fn colour(peer: PeerName) -> RGBColor {
    match peer {
        PeerName::Tmpfs => RGBColor(0, 114, 178),
        PeerName::Ext4Ram | PeerName::Ext4Disk => RGBColor(0, 158, 115),
        PeerName::XfsRam | PeerName::XfsDisk => RGBColor(204, 121, 167),
        _ => RGBColor(213, 94, 0),
    }
}

fn marker<'a, C: Clone + 'static>(peer: PeerName, at: C) -> DynElement<'a, SVGBackend<'a>, C> {
    let style = colour(peer).filled();
    match peer {
        PeerName::Tmpfs => TriangleMarker::new(at, 6, style).into_dyn(),
        PeerName::Ext4Ram | PeerName::Ext4Disk => {
            (EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], style)).into_dyn()
        }
        PeerName::XfsRam | PeerName::XfsDisk => Cross::new(at, 5, colour(peer).stroke_width(2)).into_dyn(),
        _ => Circle::new(at, 4, style).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::chart::tests::two_peers;

    #[test]
    fn what_was_measured_is_drawn_with_its_units_and_peers() {
        let plots = plots(&two_peers()).unwrap();
        assert_eq!(plots.len(), 9, "nothing of a disk");
        let (name, svg) = &plots[0];
        assert_eq!(name, "append-time-memory.svg");
        for words in ["µs an operation", "bytes of a request", "64 B", "4 KiB", "1 MiB", "cuesta", "tmpfs"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        let numbers = |from, to| {
            ticks(&(from..to)).into_iter().map(|tick| short(10_f64.powf(tick))).collect::<Vec<_>>()
        };
        assert_eq!(numbers(-0.5, 1.1), ["0.5", "1", "2", "5", "10"]);
        assert_eq!(numbers(2.9, 6.9), ["1 k", "10 k", "100 k", "1 M"]);
    }
}
