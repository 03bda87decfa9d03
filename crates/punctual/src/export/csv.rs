//! Tables as CSV (RFC 4180, lines end as Unix ends them).

use std::io::{self, Write};

use super::columns::{COLUMNS, Value};
use super::row::Row;

/// Packets as CSV: a line of names, a line for each row. What there is nothing to say of is empty.
#[derive(Debug)]
pub(super) struct Csv<W> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> Csv<W> {
    pub(super) fn start(mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", COLUMNS.map(|column| column.name).join(","))?;
        Ok(Self { out, line: Vec::new() })
    }

    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        self.line.clear();
        for column in &COLUMNS {
            match column.value(row) {
                Value::Null => {}
                Value::Unsigned(value) => write!(self.line, "{value}")?,
                Value::Signed(value) => write!(self.line, "{value}")?,
                Value::Word(word) => self.line.extend_from_slice(word.as_bytes()),
                Value::Hash(hash) => write!(self.line, "{hash:08x}")?,
            }
            self.line.push(b',');
        }
        if let Some(last) = self.line.last_mut() {
            *last = b'\n';
        }
        self.out.write_all(&self.line)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A field of free text: in quotes where it has a comma, a quote or a line's end.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
