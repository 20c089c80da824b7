//! Token ids from JSON: a file, stdin, or arguments.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

/// Most bytes of text that a command reads: more than any context holds, and little beside a model.
const MOST_BYTES: u64 = 16 << 20;

/// Reads text from a file, or from stdin if the path is `-`.
pub(super) fn read_text(path: &Path) -> anyhow::Result<String> {
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?,
        )
    };
    let mut bytes = Vec::new();
    let read = source.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", shown(path)))?;
    if bytes.len() as u64 > MOST_BYTES {
        anyhow::bail!("{}: expected at most {MOST_BYTES} bytes, found more; cut it", shown(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{}: expected UTF-8 text, found another byte at {at}", shown(path))
    })
}

/// Reads a JSON list of ids from a file, or from stdin if the path is `-`.
pub(super) fn read_ids(path: &Path) -> anyhow::Result<Vec<u32>> {
    parse_ids(&read_text(path)?).with_context(|| {
        format!("{}: expected a JSON list of token ids, such as [9419, 11]", shown(path))
    })
}

/// A JSON list of ids, or ids with spaces or commas between.
pub(super) fn parse_ids(text: &str) -> anyhow::Result<Vec<u32>> {
    let text = text.trim();
    if text.starts_with('[') {
        return Ok(serde_json::from_str(text)?);
    }
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().with_context(|| format!("{word:?} is no token id"))).collect()
}

/// A path as messages name it.
pub(super) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::parse_ids;

    #[test]
    fn ids_come_as_json_or_plainly() {
        for text in ["[1, 20,300]", " 1 20 300\n", "1,20,\t300"] {
            assert_eq!(parse_ids(text).unwrap(), [1, 20, 300], "{text:?}");
        }
        assert_eq!(parse_ids("[]").unwrap(), [] as [u32; 0]);
        for text in ["[1, -2]", "[1.5]", "[4294967296]", "1 x", "[[1]]", "[1"] {
            assert!(parse_ids(text).is_err(), "{text:?}");
        }
    }
}
