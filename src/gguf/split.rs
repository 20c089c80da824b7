//! Models in several files: which parts there are, what they are called, whether they fit together.
//!
//! Parts are named `PREFIX-00001-of-00003.gguf`, numbered from 1 in the name and from 0 in the
//! keys.

use std::path::{Path, PathBuf};

use super::error::{Fault, GgufError, Place, quoted};
use super::part::Part;

pub(super) const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
const TENSORS: &str = "split.tensors.count";

/// Number of parts a first file announces; `None` for a model in one file.
///
/// # Errors
/// If the file is a part but not the first one; the text says which to open.
pub(super) fn count(file: &str, part: &Part) -> Result<Option<u64>, GgufError> {
    let count = integer(file, part, COUNT)?.unwrap_or(0);
    if count <= 1 {
        return Ok(None);
    }
    match integer(file, part, NUMBER)?.unwrap_or(0) {
        0 => Ok(Some(count)),
        number => {
            let path = Path::new(file);
            let remedy = match parse_name(path) {
                Some((prefix, _)) => {
                    format!("open {}", part_path(path, prefix, 1, count).display())
                }
                None => "open the part whose name ends in -00001-of-...".to_owned(),
            };
            let found = format!("part {} of {count}", number.saturating_add(1));
            Err(Fault::new("the first part", found, remedy).at(file, Place::Key(NUMBER.to_owned())))
        }
    }
}

/// Paths of the parts after the first.
///
/// # Errors
/// If the first part's name is not `PREFIX-00001-of-COUNT.gguf`, so that the others cannot be
/// found.
pub(super) fn further_parts(
    first: &Path,
    count: u64,
) -> Result<impl Iterator<Item = PathBuf>, GgufError> {
    let Some((prefix, _)) = parse_name(first).filter(|(_, tail)| *tail == tail_of(1, count)) else {
        let found = first.file_name().unwrap_or_default().to_string_lossy();
        let fault = Fault::new(
            format!("a name ending in {}", tail_of(1, count)),
            quoted(&found),
            "give the parts the names they had when they were made",
        );
        return Err(fault.at(&first.display().to_string(), Place::File));
    };
    Ok((2..=count).map(move |number| part_path(first, prefix, number, count)))
}

/// Adds to a failed open of a further part that it is one.
pub(super) fn explain_missing(mut error: GgufError, path: &Path, count: u64) -> GgufError {
    if error.place == Place::File {
        error.fault.expected = format!("all {count} parts of the model beside each other");
        error.fault.remedy = format!("add {}", path.display());
    }
    error
}

/// Whether a further part says that it is the one it was opened as.
pub(super) fn check_part(
    file: &str,
    part: &Part,
    index: usize,
    count: u64,
) -> Result<(), GgufError> {
    for (key, expected) in [(NUMBER, index as u64), (COUNT, count)] {
        let found = integer(file, part, key)?;
        if found != Some(expected) {
            let found = found.map_or("no such key".to_owned(), |n| n.to_string());
            let fault =
                Fault::new(expected.to_string(), found, "parts of different models are mixed up");
            return Err(fault.at(file, Place::Key(key.to_owned())));
        }
    }
    Ok(())
}

/// Whether all parts together hold as many tensors as the first one announces.
pub(super) fn check_total(file: &str, parts: &[(String, Part)]) -> Result<(), GgufError> {
    let total: usize = parts.iter().map(|(_, part)| part.tensors.len()).sum();
    match integer(file, &parts[0].1, TENSORS)? {
        Some(announced) if announced != total as u64 => {
            let fault = Fault::new(
                format!("{announced} tensors in all parts"),
                total.to_string(),
                "a part is damaged or from another model; download the parts again",
            );
            Err(fault.at(file, Place::Key(TENSORS.to_owned())))
        }
        _ => Ok(()),
    }
}

fn integer(file: &str, part: &Part, key: &str) -> Result<Option<u64>, GgufError> {
    let Some((_, value)) = part.keys.iter().find(|(name, _)| name == key) else { return Ok(None) };
    value.as_u64().map(Some).ok_or_else(|| {
        let found = format!("{value} ({})", value.type_name());
        Fault::damaged("a non-negative integer", found).at(file, Place::Key(key.to_owned()))
    })
}

fn tail_of(number: u64, count: u64) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

fn part_path(sibling: &Path, prefix: &str, number: u64, count: u64) -> PathBuf {
    sibling.with_file_name(format!("{prefix}{}", tail_of(number, count)))
}

/// A part's file name, cut before its `-NNNNN-of-NNNNN.gguf`.
fn parse_name(path: &Path) -> Option<(&str, &str)> {
    const TAIL: usize = "-00001-of-00001.gguf".len();
    let name = path.file_name()?.to_str()?;
    let (prefix, tail) = name.split_at_checked(name.len().checked_sub(TAIL)?)?;
    (tail.starts_with('-')
        && tail.ends_with(".gguf")
        && tail.get(6..).is_some_and(|t| t.starts_with("-of-")))
    .then_some((prefix, tail))
}
