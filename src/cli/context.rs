//! How many tokens a sequence can look back on: flag, else environment, else default.

use std::ffi::OsStr;

use super::{output, usage};
use crate::engine::EngineOptions;
use crate::gguf::Gguf;

/// Environment variable with the default of `--ctx`.
pub(super) const VARIABLE: &str = "QWEN35_MAX_SEQ";
const DEFAULT: usize = 4096;
const SMALLEST: usize = *EngineOptions::CTX.start();
const LARGEST: usize = *EngineOptions::CTX.end();

/// The context to use for `gguf`. `flag` wins over the environment; 0 as a flag is the file's
/// trained context; an empty variable is none. What is out of range is clamped, with a remark.
///
/// # Errors
/// If the variable is used and not a number.
pub(super) fn resolve(flag: Option<usize>, gguf: &Gguf) -> anyhow::Result<usize> {
    let (asked, source) = match flag {
        Some(0) => (trained(gguf)?, "the file's context_length"),
        Some(asked) => (asked, "--ctx"),
        None => match std::env::var_os(VARIABLE) {
            Some(value) if !value.is_empty() => (parse(&value)?, VARIABLE),
            _ => (DEFAULT, "the default"),
        },
    };
    let used = asked.clamp(SMALLEST, LARGEST);
    if used != asked {
        output::note(format_args!(
            "{source} is {asked}, outside {SMALLEST} to {LARGEST}: using {used}"
        ));
    }
    Ok(used)
}

fn parse(value: &OsStr) -> anyhow::Result<usize> {
    let text = value.to_string_lossy();
    // A number too large for any integer is out of range, not unreadable.
    match text.trim().parse::<u128>() {
        Ok(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        Err(_) => usage(format!(
            "environment variable {VARIABLE}: expected a number of tokens from {SMALLEST} to \
             {LARGEST}, found {text:?}; correct or unset it, or give --ctx"
        )),
    }
}

fn trained(gguf: &Gguf) -> anyhow::Result<usize> {
    match gguf.u64("qwen35moe.context_length")? {
        Some(n) => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        None => usage(
            "--ctx 0 asks for the trained context, but the file has no `qwen35moe.context_length`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_a_number_or_an_error_that_names_it() {
        assert_eq!(parse(OsStr::new(" 300 ")).unwrap(), 300);
        assert_eq!(parse(OsStr::new("99999999999999999999999")).unwrap(), usize::MAX);
        for bad in ["", "4k", "-1", "1e3"] {
            let error = parse(OsStr::new(bad)).unwrap_err();
            assert!(error.to_string().contains(VARIABLE), "{error}");
            assert!(error.is::<super::super::Usage>());
        }
    }
}
