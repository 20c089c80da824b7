//! What is wrong with a list of models.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the text, from 1.
    pub line: usize,
    /// Whose problem it is, a model and a key: `tiny: ssm.group_count`.
    pub place: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, place, expected, found } = self;
        write!(f, "line {line}: {place}: expected {expected}, found {found}")
    }
}

/// Everything that is wrong with a list of models, by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors {
    /// Name of the text.
    pub file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{}: {count} problem{plural}", self.file)?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for SpecErrors {}
