//! Figures of pairs: printed row by row as they come, then their medians.

use anyhow::{Context, Result};
use serde_json::Value;

/// A table that is printed while it grows.
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<f64>>,
}

impl Table {
    /// Prints the title and the heads of the columns.
    pub(crate) fn begin(title: &str, columns: &[&'static str]) -> Self {
        println!("\n{title}");
        print!("{:>8}", "");
        for column in columns {
            print!(" {column:>WIDTH$}");
        }
        println!();
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Prints and keeps a row: one figure for each column.
    pub(crate) fn row(&mut self, figures: &[f64]) {
        assert_eq!(figures.len(), self.columns.len(), "a figure for each column");
        print_row(&(self.rows.len() + 1).to_string(), figures);
        self.rows.push(figures.to_vec());
    }

    /// Prints the median of each column and returns them.
    pub(crate) fn end(self) -> Vec<f64> {
        let medians: Vec<f64> = (0..self.columns.len())
            .map(|column| median(self.rows.iter().map(|row| row[column]).collect()))
            .collect();
        print_row("median", &medians);
        medians
    }
}

fn print_row(head: &str, figures: &[f64]) {
    print!("{head:>8}");
    for figure in figures {
        print!(" {figure:>WIDTH$.4}");
    }
    println!();
}

/// The middle figure, of an even number the upper one; NaN of none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The number at `pointer` (RFC 6901) in a result.
pub(crate) fn number(result: &Value, pointer: &str) -> Result<f64> {
    let found = result.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("no number at {pointer} in {result}"))
}

/// Wide enough for the longest head.
const WIDTH: usize = 14;
