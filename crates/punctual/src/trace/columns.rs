//! Columns of a CSV file, found by the names in its first line.

use punctual_measure::units::plural;

use super::error::{Problem, quoted};
use super::lines::{Line, Lines};

/// Where the wanted columns are.
pub(super) struct Columns<const N: usize> {
    at: [usize; N],
    names: [&'static str; N],
}

impl<const N: usize> Columns<N> {
    /// Reads the header; names are compared without regard to case.
    pub(super) fn find(lines: &mut Lines<'_>, names: [&'static str; N]) -> Result<Self, Problem> {
        let empty =
            || Problem::whole(format!("is empty, expected a header with {}", names.join(",")));
        let header = lines.full()?.ok_or_else(empty)?;
        let mut at = [0; N];
        for (at, name) in at.iter_mut().zip(names) {
            let found = header.commas().position(|field| field.eq_ignore_ascii_case(name));
            let missing =
                || header.wrong(format!("no column {name} in the header {}", quoted(header.text)));
            *at = found.ok_or_else(missing)?;
        }
        Ok(Self { at, names })
    }

    /// The wanted fields of a line, in the order in which they were asked for.
    pub(super) fn of<'a>(&self, line: &Line<'a>) -> Result<[&'a str; N], Problem> {
        let mut fields = [""; N];
        for ((field, &at), name) in fields.iter_mut().zip(&self.at).zip(self.names) {
            let short = || line.wrong(format!("ends before column {} ({name})", at + 1));
            *field = line.commas().nth(at).ok_or_else(short)?;
        }
        Ok(fields)
    }
}

/// Exactly `N` fields between commas.
pub(super) fn exactly<'a, const N: usize>(
    line: &Line<'a>,
    what: &str,
) -> Result<[&'a str; N], Problem> {
    fixed(line, line.commas(), what)
}

/// Exactly `N` words between blanks.
pub(super) fn words<'a, const N: usize>(
    line: &Line<'a>,
    what: &str,
) -> Result<[&'a str; N], Problem> {
    fixed(line, line.text.split_whitespace(), what)
}

fn fixed<'a, const N: usize>(
    line: &Line<'a>,
    mut fields: impl Iterator<Item = &'a str> + Clone,
    what: &str,
) -> Result<[&'a str; N], Problem> {
    let count = fields.clone().count();
    if count != N {
        return Err(line.wrong(format!("{}, expected {N}: {what}", plural(count as u64, "column"))));
    }
    Ok(std::array::from_fn(|_| fields.next().unwrap_or_default()))
}
