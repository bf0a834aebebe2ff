//! Lines over an axis of powers, drawn as SVG.

use std::error::Error;
use std::path::Path;

pub(crate) use plotters::prelude::SeriesLabelPosition;
use plotters::prelude::*;

pub(crate) type Failure = Box<dyn Error>;

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 5] = [
    RGBColor(119, 119, 119),
    RGBColor(0, 119, 187),
    RGBColor(204, 51, 17),
    RGBColor(0, 153, 136),
    RGBColor(238, 119, 51),
];

/// What is drawn.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Where the lines leave room for their names.
    pub(crate) legend: SeriesLabelPosition,
    pub(crate) lines: Vec<Line>,
}

/// A line, and what it is called.
pub(crate) struct Line {
    name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    pub(crate) fn new(name: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self { name, points }
    }
}

/// What an axis shows, between which figures.
pub(crate) struct Axis {
    name: &'static str,
    from: f64,
    to: f64,
    marks: Vec<f64>,
    show: fn(f64) -> String,
}

impl Axis {
    /// A logarithmic axis with a mark at each power of ten.
    pub(crate) fn powers_of_ten(
        name: &'static str,
        from: f64,
        to: f64,
        show: fn(f64) -> String,
    ) -> Self {
        let powers = std::iter::successors(Some(from), |mark| Some(mark * 10.0));
        Self {
            name,
            from,
            to,
            marks: powers.take_while(|mark| *mark <= to).collect(),
            show,
        }
    }

    /// A logarithmic axis with a mark at each of the powers.
    pub(crate) fn powers_of_two(name: &'static str, marks: &[usize]) -> Self {
        let marks: Vec<_> = marks.iter().map(|mark| *mark as f64).collect();
        Self {
            name,
            from: marks[0],
            to: marks[marks.len() - 1],
            marks,
            show: |figure| format!("{figure:.0}"),
        }
    }

    /// A linear axis from 0.
    pub(crate) fn from_zero(name: &'static str, to: f64) -> Self {
        Self {
            name,
            from: 0.0,
            to,
            marks: Vec::new(),
            show: |figure| format!("{figure}"),
        }
    }

    /// A linear axis from 0 with room above the lines for their names.
    pub(crate) fn above(name: &'static str, lines: &[Line]) -> Self {
        let figures = lines.iter().flat_map(|line| &line.points);
        let highest = figures.map(|(_, y)| *y).fold(0.0, f64::max);
        Self::from_zero(name, 1.3 * highest)
    }
}

impl Chart {
    /// Draws it into a file.
    pub(crate) fn draw(&self, file: &Path) -> Result<(), Failure> {
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let x = (self.x.from..self.x.to).log_scale();
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, 20))
            .margin(12)
            // The last mark's name is as wide.
            .margin_right(36)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(
                x.with_key_points(self.x.marks.clone()),
                self.y.from..self.y.to,
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(self.x.marks.len())
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .x_label_formatter(&|figure| (self.x.show)(*figure))
            .y_label_formatter(&|figure| (self.y.show)(*figure))
            .label_style((FONT, 14))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.9))
            .label_font((FONT, 14))
            .draw()?;
        area.present()?;
        Ok(())
    }
}
