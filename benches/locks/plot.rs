//! A chart of a group: how many a second, over how many tasks.

use std::error::Error;
use std::path::PathBuf;

use plotters::prelude::*;

/// Its size.
const SIZE: (u32, u32) = (760, 440);
const COLORS: [RGBColor; 4] =
    [RGBColor(190, 40, 40), RGBColor(40, 90, 170), RGBColor(60, 140, 60), RGBColor(120, 120, 120)];

/// One contender: its name, and its rate for each number of tasks.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Writes it to the build directory, and says where that is. Both axes are logarithmic.
pub fn plot(group: &str, title: &str, curves: &[Curve]) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{group}.svg"));
    match drawn(&path, title, curves) {
        Ok(()) => eprintln!("{group}: {}", path.display()),
        Err(error) => eprintln!("{group}: no chart: {error}"),
    }
}

fn drawn(path: &PathBuf, title: &str, curves: &[Curve]) -> Result<(), Box<dyn Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            points().map(of).fold((f64::MAX, 1.0), |(low, high), value| (value.min(low), value.max(high)));
        low * 0.8..high * 1.25
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
    for (curve, color) in curves.iter().zip(COLORS) {
        let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(2)).point_size(3);
        chart.draw_series(line)?.label(curve.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}
