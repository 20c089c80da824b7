//! All that is wrong with a file's tensors, listed together.

use std::fmt;

use crate::gguf::{Fault, Place};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which tensor.
    pub place: Place,
    /// What was expected, what was found, what to do.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { expected, found, remedy } = &self.fault;
        write!(f, "{}: expected {expected}, found {found}; {remedy}", self.place)
    }
}

/// Why a file's tensors cannot be bound: every problem found, in the order of the binding table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindError {
    /// Path or name of the file.
    pub file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl BindError {
    /// An error of one problem with a tensor.
    pub(super) fn tensor(file: &str, name: &str, fault: Fault) -> Self {
        let problems = vec![Problem { place: Place::Tensor(name.to_owned()), fault }];
        Self { file: file.to_owned(), problems }
    }
}

/// One problem on one line; several as a list, which after twenty only counts.
impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LISTED: usize = 20;
        if let [problem] = self.problems.as_slice() {
            return write!(f, "{}: {problem}", self.file);
        }
        write!(f, "{}: {} problems with its tensors:", self.file, self.problems.len())?;
        self.problems.iter().take(LISTED).try_for_each(|p| write!(f, "\n  {p}"))?;
        match self.problems.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for BindError {}

/// All results, or all their problems together.
pub(super) fn all<T, const N: usize>(
    results: [Result<T, BindError>; N],
) -> Result<[T; N], BindError> {
    let mut failed: Option<BindError> = None;
    let values = results.map(|result| match result {
        Ok(value) => Some(value),
        Err(e) => {
            match &mut failed {
                Some(before) => before.problems.extend(e.problems),
                None => failed = Some(e),
            }
            None
        }
    });
    match failed {
        Some(e) => Err(e),
        None => Ok(values.map(|v| v.expect("no result failed, so each has a value"))),
    }
}
