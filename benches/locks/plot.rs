//! A chart of a group: how many a second, over how many tasks.

use std::error::Error;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::table::{median, quantile};

/// Its size.
const SIZE: (u32, u32) = (760, 440);
const COLORS: [RGBColor; 5] = [
    RGBColor(190, 40, 40),
    RGBColor(40, 90, 170),
    RGBColor(60, 140, 60),
    RGBColor(120, 120, 120),
    RGBColor(220, 140, 30),
];

/// The median rates of contenders, for each number of tasks.
pub struct Chart {
    curves: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl Chart {
    pub fn new(names: &[&'static str]) -> Self {
        assert!(names.len() <= COLORS.len(), "a curve without a colour would be left out");
        Self { curves: names.iter().map(|name| (*name, Vec::new())).collect() }
    }

    /// Of each contender what it came to in each round.
    pub fn add(&mut self, tasks: usize, figures: &[Vec<f64>]) {
        for ((_, points), figures) in self.curves.iter_mut().zip(figures) {
            points.push((tasks as f64, median(figures)));
        }
    }

    /// Writes it to the build directory, and says where that is. Both axes are logarithmic.
    pub fn write(&self, group: &str, title: &str) {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{group}.svg"));
        match drawn(&path, title, &self.curves) {
            Ok(()) => eprintln!("{group}: {}", path.display()),
            Err(error) => eprintln!("{group}: no chart: {error}"),
        }
    }
}

fn drawn(path: &Path, title: &str, curves: &[(&'static str, Vec<(f64, f64)>)]) -> Result<(), Box<dyn Error>> {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = curves.iter().flat_map(|(_, points)| points.iter().map(of)).collect();
        quantile(&values, 0.0) * 0.8..quantile(&values, 1.0) * 1.25
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(range(|point| point.0).log_scale(), range(|point| point.1).log_scale())?;
    let number = |value: &f64| format!("{value:.0}");
    chart.configure_mesh().x_desc("tasks").x_label_formatter(&number).y_label_formatter(&number).draw()?;
    for ((name, points), color) in curves.iter().zip(COLORS) {
        let line = LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3);
        chart.draw_series(line)?.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}
