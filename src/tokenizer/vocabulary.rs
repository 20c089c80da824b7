//! A vocabulary as a GGUF states it, checked, and what its tokens are.

use std::collections::HashMap;

use crate::gguf::Gguf;

use super::TokenizerError;

/// The tokenizer part of a GGUF file, as plain data. [`super::Tokenizer::new`] checks it.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Token texts by id: ordinary ones in the GPT-2 byte alphabet, special ones verbatim.
    pub tokens: Vec<String>,
    /// Token types by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty =
    /// all normal.
    pub types: Vec<i32>,
    /// Merges in order of rank, `left right`.
    pub merges: Vec<String>,
    /// Name of the splitting rule, where the file gives one.
    pub pre: Option<String>,
    /// Special ids of the header, with their keys.
    pub special_ids: Vec<(&'static str, u64)>,
    /// Ids that must never be sampled.
    pub suppress: Vec<u64>,
    /// Whether the file asks for a begin-of-text token. It is not given one.
    pub add_bos: bool,
}

pub(crate) const KEY_BOS: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const KEY_EOS: &str = "tokenizer.ggml.eos_token_id";
pub(crate) const KEY_EOT: &str = "tokenizer.ggml.eot_token_id";
pub(crate) const KEY_EOM: &str = "tokenizer.ggml.eom_token_id";
pub(crate) const KEY_SUPPRESS: &str = "tokenizer.ggml.suppress_tokens";
const KEY_PAD: &str = "tokenizer.ggml.padding_token_id";

/// Header keys that hold a token id.
const SPECIAL_KEYS: [&str; 5] = [KEY_BOS, KEY_EOS, KEY_EOT, KEY_EOM, KEY_PAD];

/// Texts that end a generation wherever they are in the vocabulary.
const END_TEXTS: [&str; 5] =
    ["<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"];

impl Vocabulary {
    /// Reads the tokenizer keys of a file of any architecture.
    ///
    /// # Errors
    /// If the file has no byte-level BPE vocabulary or a key has the wrong type.
    pub fn from_gguf(gguf: &Gguf) -> Result<Vocabulary, TokenizerError> {
        let missing =
            |key, expected| TokenizerError::Missing { file: gguf.name().to_owned(), key, expected };
        let key = "tokenizer.ggml.model";
        let model = gguf.str(key)?.ok_or_else(|| missing(key, "`gpt2`"))?;
        if model != "gpt2" {
            let file = gguf.name().to_owned();
            return Err(TokenizerError::Model { file, found: model.to_owned() });
        }
        let strings = |key, expected| match gguf.str_list(key)? {
            Some(list) => Ok(list.iter().map(str::to_owned).collect()),
            None => Err(missing(key, expected)),
        };
        let mut special_ids = Vec::new();
        for key in SPECIAL_KEYS {
            special_ids.extend(gguf.u64(key)?.map(|id| (key, id)));
        }
        let tokens: Vec<String> = strings("tokenizer.ggml.tokens", "the token texts")?;
        let types = gguf.i32_list("tokenizer.ggml.token_type")?;
        if let Some(types) = types.as_ref().filter(|types| types.len() != tokens.len()) {
            return Err(TokenizerError::TypeCount { tokens: tokens.len(), types: types.len() });
        }
        Ok(Vocabulary {
            tokens,
            types: types.unwrap_or_default(),
            merges: strings("tokenizer.ggml.merges", "the merges of a byte-level BPE")?,
            pre: gguf.str("tokenizer.ggml.pre")?.map(str::to_owned),
            special_ids,
            suppress: gguf.u64_list(KEY_SUPPRESS)?.unwrap_or_default(),
            add_bos: gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(false),
        })
    }

    /// What each token is.
    ///
    /// Tokens whose text ends a generation are control tokens even where the file forgot to say so.
    pub(crate) fn kinds(&self) -> Result<Vec<TokenKind>, TokenizerError> {
        if self.tokens.is_empty() {
            return Err(TokenizerError::Empty);
        }
        let (tokens, types) = (self.tokens.len(), self.types.len());
        if types == 0 {
            let kind = |text: &String| match END_TEXTS.contains(&text.as_str()) {
                true => TokenKind::Control,
                false => TokenKind::Normal,
            };
            return Ok(self.tokens.iter().map(kind).collect());
        }
        if types != tokens {
            return Err(TokenizerError::TypeCount { tokens, types });
        }
        let mut kinds = Vec::with_capacity(tokens);
        for (id, (&found, text)) in self.types.iter().zip(&self.tokens).enumerate() {
            let kind = TokenKind::from_type(found).ok_or(TokenizerError::Type { id, found })?;
            let forgotten = kind == TokenKind::Normal && END_TEXTS.contains(&text.as_str());
            kinds.push(if forgotten { TokenKind::Control } else { kind });
        }
        Ok(kinds)
    }

    /// The id of each token text; of equal texts the lowest.
    pub(crate) fn ids(&self) -> HashMap<&str, u32> {
        self.tokens.iter().enumerate().rev().map(|(id, text)| (text.as_str(), id as u32)).collect()
    }

    /// Checks an id the header gives.
    pub(crate) fn checked_id(&self, key: &'static str, id: u64) -> Result<u32, TokenizerError> {
        let tokens = self.tokens.len();
        match u32::try_from(id) {
            Ok(small) if (small as usize) < tokens => Ok(small),
            _ => Err(TokenizerError::SpecialId { key, id, tokens }),
        }
    }

    /// The tokens that end a generation, in order: the header's end of text, turn and message, and
    /// the known texts.
    pub(crate) fn ends(&self, ids: &HashMap<&str, u32>) -> Result<Vec<u32>, TokenizerError> {
        let mut ends = Vec::new();
        for &(key, id) in &self.special_ids {
            let id = self.checked_id(key, id)?;
            if matches!(key, KEY_EOS | KEY_EOT | KEY_EOM) {
                ends.push(id);
            }
        }
        ends.extend(END_TEXTS.iter().filter_map(|text| ids.get(text)));
        ends.sort_unstable();
        ends.dedup();
        Ok(ends)
    }

    /// The merges as pairs of tokens, each checked against the vocabulary.
    pub(crate) fn merge_pairs(
        &self,
        ids: &HashMap<&str, u32>,
    ) -> Result<Vec<(String, String)>, TokenizerError> {
        let mut joined = String::new();
        let mut pairs = Vec::with_capacity(self.merges.len());
        for (index, merge) in self.merges.iter().enumerate() {
            // A token is never empty, so the separator is not the first character.
            let first = merge.chars().next().map_or(0, char::len_utf8);
            let (left, right) = match merge[first..].find(' ') {
                Some(at) if first + at + 1 < merge.len() => {
                    (&merge[..first + at], &merge[first + at + 1..])
                }
                _ => return Err(TokenizerError::MergeForm { index, found: merge.clone() }),
            };
            joined.clear();
            joined.extend([left, right]);
            for token in [left, right, &joined] {
                if !ids.contains_key(token) {
                    let (merge, token) = (merge.clone(), token.to_owned());
                    return Err(TokenizerError::MergeToken { index, merge, token });
                }
            }
            pairs.push((left.to_owned(), right.to_owned()));
        }
        Ok(pairs)
    }
}

/// What a token is (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Bytes, spelled in the GPT-2 alphabet.
    Normal,
    /// Stands for what has no token; hidden like a control token.
    Unknown,
    /// Structure: made by templates and by the model, hidden in text.
    Control,
    /// Found in any text and shown in any text.
    UserDefined,
    /// A padding row: no text, never in a prompt, never sampled.
    Unused,
    /// A byte, spelled like an ordinary token.
    Byte,
}

impl TokenKind {
    fn from_type(value: i32) -> Option<TokenKind> {
        // 0 is "undefined" in old files.
        Some(match value {
            0 | 1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return None,
        })
    }

    /// Whether the token's text is written as it is, not in the byte alphabet.
    pub(crate) fn is_verbatim(self) -> bool {
        matches!(self, TokenKind::Unknown | TokenKind::Control | TokenKind::UserDefined)
    }

    /// Whether the token is left out of ordinary text.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, TokenKind::Unknown | TokenKind::Control)
    }
}
