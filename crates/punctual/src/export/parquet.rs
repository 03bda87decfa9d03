//! Tables as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::columns::{COLUMNS, Column, Kind, Value};
use super::row::Row;
use super::survey::Survey;

/// Packets as Parquet, compressed by zstd. Holds one row group, of at most [`GROUP`] rows.
pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    rows: usize,
    peak: usize,
}

/// Rows of a row group: 300 bytes each before they are encoded, 40 MB in all.
pub(super) const GROUP: usize = 1 << 17;

/// One column of the row group that is being collected.
struct Buffer {
    values: Values,
    /// 1 where there is a value; empty for a column that always has one.
    present: Vec<i16>,
}

enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Text(Texts),
}

/// Texts of which equal neighbours share their bytes.
#[derive(Default)]
struct Texts {
    values: Vec<ByteArray>,
    last: Option<(Value, ByteArray)>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn start(out: W, survey: &Survey) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(&schema()).map_err(as_io)?);
        let properties = Arc::new(properties(survey)?);
        let file = SerializedFileWriter::new(out, schema, properties).map_err(as_io)?;
        let columns = COLUMNS.iter().map(Buffer::new).collect();
        Ok(Self { file, columns, rows: 0, peak: 0 })
    }

    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        for (column, buffer) in COLUMNS.iter().zip(&mut self.columns) {
            buffer.push(column, column.value(row));
        }
        self.rows += 1;
        self.peak = self.peak.max(self.rows);
        if self.rows == GROUP { self.flush() } else { Ok(()) }
    }

    /// Ends the file; returns the most rows that were held.
    pub(super) fn finish(mut self) -> io::Result<usize> {
        self.flush()?;
        self.file.finish().map_err(as_io)?;
        Ok(self.peak)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(as_io)?;
        for buffer in &mut self.columns {
            let column = group.next_column().map_err(as_io)?;
            let column = column.ok_or_else(|| io::Error::other("a column has no writer"))?;
            buffer.write(column).map_err(as_io)?;
        }
        group.close().map_err(as_io)?;
        self.rows = 0;
        Ok(())
    }
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            Kind::U8 | Kind::U16 | Kind::U32 => Values::Int32(Vec::new()),
            Kind::U64 | Kind::I64 => Values::Int64(Vec::new()),
            Kind::Text => Values::Text(Texts::default()),
        };
        Self { values, present: Vec::new() }
    }

    /// Unsigned values are written by their bits, as their logical type wants it.
    fn push(&mut self, column: &Column, value: Value) {
        if column.nullable {
            self.present.push(i16::from(value != Value::Null));
        }
        match (&mut self.values, value) {
            (_, Value::Null) => {}
            (Values::Int32(values), Value::Unsigned(value)) => {
                let narrow = u32::try_from(value).unwrap_or(u32::MAX);
                values.push(narrow.cast_signed());
            }
            (Values::Int64(values), Value::Unsigned(value)) => values.push(value.cast_signed()),
            (Values::Int64(values), Value::Signed(value)) => values.push(value),
            (Values::Text(texts), Value::Word(_) | Value::Hash(_)) => texts.push(value),
            (Values::Int32(_) | Values::Int64(_) | Values::Text(_), value) => {
                debug_assert!(false, "{}: {value:?} is of another kind", column.name);
            }
        }
    }

    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = (!self.present.is_empty()).then_some(self.present.as_slice());
        match &mut self.values {
            Values::Int32(values) => {
                column.typed::<Int32Type>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Int64(values) => {
                column.typed::<Int64Type>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Text(Texts { values, .. }) => {
                column.typed::<ByteArrayType>().write_batch(values, present, None)?;
                values.clear();
            }
        }
        self.present.clear();
        column.close()
    }
}

impl Texts {
    fn push(&mut self, value: Value) {
        let same = self.last.as_ref().filter(|(last, _)| *last == value);
        let bytes = same.map_or_else(|| bytes_of(value), |(_, bytes)| bytes.clone());
        self.values.push(bytes.clone());
        self.last = Some((value, bytes));
    }
}

fn bytes_of(value: Value) -> ByteArray {
    match value {
        Value::Word(word) => word.into(),
        Value::Hash(hash) => format!("{hash:08x}").into_bytes().into(),
        Value::Null | Value::Unsigned(_) | Value::Signed(_) => ByteArray::default(),
    }
}

/// The schema in the words of the format's own text form.
fn schema() -> String {
    let field = |column: &Column| {
        let repetition = if column.nullable { "OPTIONAL" } else { "REQUIRED" };
        let kind = match column.kind {
            Kind::U8 => ["INT32", "(INTEGER(8,false))"],
            Kind::U16 => ["INT32", "(INTEGER(16,false))"],
            Kind::U32 => ["INT32", "(INTEGER(32,false))"],
            Kind::U64 => ["INT64", "(INTEGER(64,false))"],
            Kind::I64 => ["INT64", "(INTEGER(64,true))"],
            Kind::Text => ["BYTE_ARRAY", "(STRING)"],
        };
        format!("{repetition} {} {} {};\n", kind[0], column.name, kind[1])
    };
    let fields: String = COLUMNS.iter().map(field).collect();
    format!("message packets {{\n{fields}}}")
}

/// Integers as differences to the one before, text by dictionary.
fn properties(survey: &Survey) -> io::Result<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(as_io)?;
    let header = serde_json::to_string(&survey.header)?;
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), Some(value));
    let told = vec![
        entry("punctual.log", header),
        entry("punctual.complete", survey.lack().is_none().to_string()),
    ];
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("punctual {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(level))
        .set_key_value_metadata(Some(told));
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        let text = column.kind == Kind::Text;
        properties = properties.set_column_dictionary_enabled(path.clone(), text);
        if !text {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// What the system said where it did: a full disk is to be told as one.
fn as_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// The default of zstd itself.
const ZSTD_LEVEL: i32 = 3;
