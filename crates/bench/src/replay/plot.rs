//! Misses by the size of the fast tier, as SVG: one of each trace.

use super::report::{Report, TierReport, TraceReport};
use crate::error::BenchError;
use cuesta_placement::Kind;
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 440);
const LEGEND_WIDTH: u32 = 120;
const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(216, 216, 216);

type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// A line of a plot: percent of reads that miss, by the share of the fast tier.
struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Names of files and what belongs into them. A trace with a fast tier of one size has no plot.
pub fn plots(report: &Report) -> Result<Vec<(String, String)>, BenchError> {
    let mut plots = Vec::new();
    for trace in &report.traces {
        let lines = lines(trace);
        if lines.iter().any(|line| line.points.len() > 1) {
            let mut svg = String::new();
            draw(trace, &lines, &mut svg)
                .map_err(|error| BenchError::Unusable(format!("drawing {}: {error}", trace.name)))?;
            let name: String = trace
                .name
                .chars()
                .map(|letter| if letter.is_alphanumeric() { letter } else { '-' })
                .collect();
            plots.push((format!("replay-{name}.svg"), svg + "\n"));
        }
    }
    Ok(plots)
}

fn lines(trace: &TraceReport) -> Vec<Line> {
    let line = |name, colour, misses: &dyn Fn(&TierReport) -> Option<u64>| {
        let points = trace.tiers.iter().filter_map(|tier| {
            let share = tier.share.filter(|share| *share > 0.0)?;
            Some((share.log2(), misses(tier)? as f64 * 100.0 / tier.reads.max(1) as f64))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|one, next| one.0.total_cmp(&next.0));
        Line { name, colour, points }
    };
    let of = |kind: Kind, colour| {
        let find = |tier: &TierReport| {
            let policy = tier.policies.iter().find(|policy| policy.policy == kind.name())?;
            Some(policy.misses.reads)
        };
        line(kind.name(), colour, &find)
    };
    let mut lines = vec![
        of(Kind::Ziggurat, RGBColor(0, 114, 178)),
        of(Kind::Frequency, RGBColor(0, 158, 115)),
        of(Kind::Benefit, RGBColor(213, 94, 0)),
        line("best fixed", RGBColor(140, 140, 140), &|tier| Some(tier.fixed_misses)),
        line("optimum", RGBColor(40, 40, 40), &|tier| Some(tier.optimum_misses)),
    ];
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn draw(trace: &TraceReport, lines: &[Line], svg: &mut String) -> Result<(), DrawingError> {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), (x, _)| (min.min(x), max.max(x)));
    let y_max = points().map(|(_, y)| y).fold(1.0, f64::max);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&BACKGROUND)?;
    let (drawing, legend) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let mut axes = ChartBuilder::on(&drawing)
        .caption(format!("misses, {}", trace.name), text(17))
        .margin(10)
        .x_label_area_size(48)
        .y_label_area_size(66)
        .build_cartesian_2d(x.0 - 0.15..x.1 + 0.15, 0.0..y_max * 1.05)?;
    axes.configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .x_desc("fast tier, percent of the content")
        .y_desc("reads that miss, percent")
        .label_style(text(12))
        .axis_desc_style(text(13))
        .x_label_formatter(&|x| format!("{:.0}", x.exp2()))
        .draw()?;
    for (row, line) in lines.iter().enumerate() {
        axes.draw_series(LineSeries::new(line.points.iter().copied(), line.colour.stroke_width(2)))?;
        for &point in &line.points {
            axes.plotting_area().draw(&Circle::new(point, 4, line.colour.filled()))?;
        }
        let y = 52 + 24 * row as i32;
        legend.draw(&PathElement::new([(4, y), (32, y)], line.colour.stroke_width(2)))?;
        legend.draw(&Text::new(line.name, (40, y - 6), text(13)))?;
    }
    root.present()
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}
