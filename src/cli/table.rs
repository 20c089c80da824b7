//! Plain text in columns.

use std::fmt;

/// Names and values, one pair a line, values aligned.
#[derive(Default)]
pub(super) struct Facts(Vec<(String, String)>);

impl Facts {
    /// Adds a line.
    pub(super) fn add(&mut self, name: impl fmt::Display, value: impl fmt::Display) {
        self.0.push((name.to_string(), value.to_string()));
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name:width$}  {value}"))
    }
}

/// Rows of cells under a heading. The first column is aligned left, the others right unless they
/// are texts.
pub(super) struct Table {
    align_right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings; one that starts with `>` is a column of numbers, aligned right.
    pub(super) fn new(headings: &[&str]) -> Self {
        Self {
            align_right: headings.iter().map(|h| h.starts_with('>')).collect(),
            rows: vec![headings.iter().map(|h| h.trim_start_matches('>').to_owned()).collect()],
        }
    }

    /// Adds a row, one cell per heading.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align_right.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.align_right) {
                line +=
                    &if right { format!("{cell:>width$}  ") } else { format!("{cell:width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["type", ">count"]);
        table.row(["q4_K".to_owned(), "7".to_owned()]);
        table.row(["f32".to_owned(), "1234567".to_owned()]);
        assert_eq!(table.to_string(), "type    count\nq4_K        7\nf32   1234567\n");
        let mut facts = Facts::default();
        facts.add("a", 1);
        facts.add("long", 2);
        assert_eq!(facts.to_string(), "a     1\nlong  2\n");
    }
}
