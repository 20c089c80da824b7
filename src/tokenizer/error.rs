//! What can be wrong with a vocabulary, a text or a list of ids.

use crate::gguf::GgufError;

use super::PreTokenizer;

/// A vocabulary that cannot be used, or ids and text that it cannot take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A metadata key has the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A key the tokenizer cannot do without is not there.
    #[error("{file}: no `{key}`: expected {expected}; the file carries no usable tokenizer")]
    Missing {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// A tokenizer of another kind.
    #[error(
        "{file}: `tokenizer.ggml.model`: expected `gpt2` (byte-level BPE), found `{found}`: \
         only byte-level BPE vocabularies can be used"
    )]
    Model {
        /// The file.
        file: String,
        /// Its tokenizer model.
        found: String,
    },
    /// A pre-tokenizer with an unknown rule.
    #[error(
        "`tokenizer.ggml.pre`: expected one of {}, found `{found}`: splitting by another rule \
         would give wrong tokens; choose a rule with --pre NAME if you know that it fits",
        known_rules()
    )]
    Pre {
        /// The name in the file, or the one asked for.
        found: String,
    },
    /// The vocabulary is empty.
    #[error("`tokenizer.ggml.tokens`: expected at least one token, found none")]
    Empty,
    /// Token texts and token types differ in number.
    #[error("`tokenizer.ggml.token_type`: expected {tokens} entries, one per token, found {types}")]
    TypeCount {
        /// Number of tokens.
        tokens: usize,
        /// Number of types.
        types: usize,
    },
    /// A token type that does not exist.
    #[error(
        "`tokenizer.ggml.token_type`: token {id}: expected 1 normal, 2 unknown, 3 control, \
         4 user-defined, 5 unused or 6 byte, found {found}"
    )]
    Type {
        /// The token.
        id: usize,
        /// Its type.
        found: i32,
    },
    /// A special token's id is not an id.
    #[error("`{key}`: expected a token id below {tokens}, found {id}")]
    SpecialId {
        /// The key.
        key: &'static str,
        /// The id it gives.
        id: u64,
        /// Number of tokens.
        tokens: usize,
    },
    /// A merge that is not two tokens.
    #[error(
        "`tokenizer.ggml.merges`: entry {index}: expected two tokens with a space between, \
         found {found:?}"
    )]
    MergeForm {
        /// Position in the list.
        index: usize,
        /// The entry.
        found: String,
    },
    /// A merge of tokens that do not exist.
    #[error(
        "`tokenizer.ggml.merges`: entry {index} ({merge:?}): {token:?} is not in the vocabulary"
    )]
    MergeToken {
        /// Position in the list.
        index: usize,
        /// The entry.
        merge: String,
        /// The token that is missing.
        token: String,
    },
    /// The special tokens cannot be searched for.
    #[error("the special tokens cannot be searched for: {0}")]
    Specials(String),
    /// The byte-pair model refused.
    #[error("byte-pair encoding failed: {0}")]
    Bpe(String),
    /// A byte of the text has no token.
    #[error("byte 0x{byte:02x} at offset {offset} of the text has no token in this vocabulary")]
    Byte {
        /// The byte.
        byte: u8,
        /// Its place in the text.
        offset: usize,
    },
    /// A text that is too long.
    #[error("a text of {bytes} bytes cannot be tokenised: expected at most {most}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is possible.
        most: usize,
    },
    /// An id in a prompt that names no token.
    #[error(
        "id {id} at position {position} of the prompt: expected the id of a named token (the \
         vocabulary has {tokens} entries; padding rows cannot be used in a prompt)"
    )]
    PromptId {
        /// The id.
        id: u32,
        /// Its place in the prompt.
        position: usize,
        /// Entries of the vocabulary.
        tokens: usize,
    },
}

fn known_rules() -> String {
    PreTokenizer::ALL.map(|(name, _)| format!("`{name}`")).join(", ")
}
