//! Text to token ids and back, from the vocabulary a GGUF carries.
//!
//! Byte-level BPE without normalisation and without a begin-of-text token: special tokens are cut
//! out of the text ([`Parse`] says which), the rest is split into pieces ([`PreTokenizer`]), and
//! byte pairs are merged inside each piece by the BPE model of the `tokenizers` crate, or by
//! `merge` in long ones. Work grows almost linearly with the text, whatever it holds, and memory
//! stays below 40 bytes per byte.

pub(crate) mod bytes;
mod error;
mod merge;
mod special;
mod split;
mod stream;
mod vocabulary;

use tokenizers::Model;
use tokenizers::models::bpe::BPE;

use crate::gguf::Gguf;

pub use error::TokenizerError;
pub use split::{Pieces, PreTokenizer};
pub use stream::{Decoder, Utf8Stream};
pub use vocabulary::{TokenKind, Vocabulary};

use merge::Merges;
use special::{Fragment, SpecialMatcher};

/// Which special tokens are recognised in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parse {
    /// None: the text is only text.
    Nothing,
    /// User-defined ones, the rule for ordinary text.
    #[default]
    UserDefined,
    /// Control, user-defined and unknown ones: for text that a template made.
    Special,
}

/// Pieces of more bytes are merged by [`merge`].
const LONG_PIECE: usize = 4096;

/// A vocabulary ready for use.
pub struct Tokenizer {
    pre: PreTokenizer,
    bpe: BPE,
    /// For pieces of more than [`LONG_PIECE`] bytes.
    merges: Merges,
    /// Bytes of the longest token.
    longest: usize,
    kinds: Vec<TokenKind>,
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<usize>,
    /// Special tokens in order of id.
    specials: Vec<(u32, String)>,
    user_defined: SpecialMatcher,
    all_special: SpecialMatcher,
    end_of_generation: Vec<u32>,
    eos: Option<u32>,
    bos: Option<u32>,
    suppressed: Vec<u32>,
    /// Bytes that have no token of their own, where there are any.
    unspellable: Option<Box<[bool; 256]>>,
    warnings: Vec<String>,
}

impl Tokenizer {
    /// The tokenizer of a file. `pre` overrides the file's splitting rule by name.
    ///
    /// # Errors
    /// If the file has no byte-level BPE vocabulary, or a faulty one, or a rule that is not known.
    pub fn from_gguf(gguf: &Gguf, pre: Option<&str>) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::new(&Vocabulary::from_gguf(gguf)?, pre)
    }

    /// A tokenizer from plain data. `pre` overrides the vocabulary's splitting rule by name.
    ///
    /// # Errors
    /// If lists differ in length, an id is out of range, a merge names an unknown token or the rule
    /// is not known.
    pub fn new(vocabulary: &Vocabulary, pre: Option<&str>) -> Result<Tokenizer, TokenizerError> {
        let mut warnings = Vec::new();
        let pre = choose_rule(pre, vocabulary.pre.as_deref(), &mut warnings)?;
        if vocabulary.add_bos {
            warnings.push(
                "`tokenizer.ggml.add_bos_token` is set; this family has no begin-of-text token, so \
                 none is added"
                    .to_owned(),
            );
        }
        let kinds = vocabulary.kinds()?;
        let ids = vocabulary.ids();
        let find = |key| {
            let entry = vocabulary.special_ids.iter().find(|(k, _)| *k == key);
            entry.map(|&(_, id)| vocabulary.checked_id(key, id)).transpose()
        };
        let suppressed: Result<Vec<u32>, _> = vocabulary
            .suppress
            .iter()
            .map(|&id| vocabulary.checked_id(vocabulary::KEY_SUPPRESS, id))
            .collect();
        let specials: Vec<(u32, String)> = (0..)
            .zip(vocabulary.tokens.iter().zip(&kinds))
            .filter(|(_, (_, kind))| kind.is_verbatim())
            .map(|(id, (text, _))| (id, text.clone()))
            .collect();
        let matcher = |wanted: fn(TokenKind) -> bool| {
            let chosen = specials.iter().filter(|(id, _)| wanted(kinds[*id as usize]));
            SpecialMatcher::new(chosen.map(|(id, text)| (*id, text.as_str())))
        };
        let (bytes, ends) = token_bytes(&vocabulary.tokens, &kinds);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let longest = ends.iter().zip(starts).map(|(end, start)| end - start).max().unwrap_or(0);
        Ok(Tokenizer {
            pre,
            longest,
            user_defined: matcher(|kind| kind == TokenKind::UserDefined)?,
            all_special: matcher(TokenKind::is_verbatim)?,
            end_of_generation: vocabulary.ends(&ids)?,
            eos: find(vocabulary::KEY_EOS)?,
            bos: find(vocabulary::KEY_BOS)?,
            suppressed: suppressed?,
            unspellable: unspellable(&ids),
            merges: Merges::new(vocabulary, &ids)?,
            bpe: byte_pairs(vocabulary, &ids)?,
            kinds,
            bytes,
            ends,
            specials,
            warnings,
        })
    }

    /// The ids of `text`, in which the special tokens of `parse` are recognised.
    ///
    /// # Errors
    /// If the text has a byte without a token, which a complete byte-level vocabulary cannot lack.
    pub fn encode(&self, text: &str, parse: Parse) -> Result<Vec<u32>, TokenizerError> {
        let matcher = match parse {
            Parse::Nothing => None,
            Parse::UserDefined => Some(&self.user_defined),
            Parse::Special => Some(&self.all_special),
        };
        let mut ids = Vec::new();
        let Some(matcher) = matcher else {
            self.encode_text(text, &mut ids)?;
            return Ok(ids);
        };
        for fragment in matcher.cut(text, |_, _| false) {
            match fragment {
                Fragment::Special(id) => ids.push(id),
                Fragment::Text(text) => self.encode_text(text, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// A number of tokens that a text of `bytes` bytes has at least, known without tokenising it.
    pub fn fewest(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.longest.max(1))
    }

    /// The ids of a text in which `mark` keeps special tokens from being recognised: it is left out
    /// of the text after all special tokens have been cut out, so a special text with a mark inside
    /// is only text. A special text of one character is only text when a mark stands before it.
    pub(crate) fn encode_marked(&self, text: &str, mark: char) -> Result<Vec<u32>, TokenizerError> {
        let is_marked = |start: usize, end: usize| {
            text[start..end].chars().nth(1).is_none() && text[..start].ends_with(mark)
        };
        let mut ids = Vec::new();
        for fragment in self.all_special.cut(text, is_marked) {
            match fragment {
                Fragment::Special(id) => ids.push(id),
                Fragment::Text(text) => self.encode_text(&text.replace(mark, ""), &mut ids)?,
            }
        }
        Ok(ids)
    }

    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if let Some(unspellable) = &self.unspellable
            && let Some((offset, byte)) =
                text.bytes().enumerate().find(|&(_, b)| unspellable[b as usize])
        {
            return Err(TokenizerError::Byte { byte, offset });
        }
        if text.len() > Merges::LONGEST {
            return Err(TokenizerError::TooLong { bytes: text.len(), most: Merges::LONGEST });
        }
        let mut spelled = String::new();
        for piece in self.pre.pieces(text) {
            if piece.len() > LONG_PIECE {
                self.merges.encode(piece.as_bytes(), ids);
                continue;
            }
            spelled.clear();
            bytes::spell(piece, &mut spelled);
            let tokens =
                self.bpe.tokenize(&spelled).map_err(|e| TokenizerError::Bpe(e.to_string()))?;
            ids.extend(tokens.iter().map(|t| t.id));
        }
        Ok(())
    }

    /// The text of `ids`: control and unknown tokens only when `special`, padding rows and ids
    /// beyond the vocabulary never. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let bytes: Vec<u8> =
            ids.iter().flat_map(|&id| self.visible_bytes(id, special)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A streaming detokeniser: the same text as [`Tokenizer::decode`], token by token.
    pub fn decoder(&self, special: bool) -> Decoder<'_> {
        Decoder::new(self, special)
    }

    /// The bytes a token stands for, special or not; none for padding rows and ids beyond the
    /// vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }

    /// The bytes a token adds to a text.
    pub(crate) fn visible_bytes(&self, id: u32, special: bool) -> &[u8] {
        match self.kind(id) {
            Some(kind) if kind.is_hidden() && !special => &[],
            _ => self.bytes(id),
        }
    }

    /// What a token is; `None` beyond the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Entries of the vocabulary, padding rows among them included. A model may have more rows.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether the vocabulary is empty; it never is.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether `id` is a token, and not a padding row or beyond the vocabulary.
    pub fn is_named(&self, id: u32) -> bool {
        self.kind(id).is_some_and(|kind| kind != TokenKind::Unused)
    }

    /// Checks ids that are to be used as a prompt.
    ///
    /// # Errors
    /// If one of them is no token.
    pub fn check_prompt(&self, ids: &[u32]) -> Result<(), TokenizerError> {
        match ids.iter().enumerate().find(|&(_, &id)| !self.is_named(id)) {
            Some((position, &id)) => {
                Err(TokenizerError::PromptId { id, position, tokens: self.len() })
            }
            None => Ok(()),
        }
    }

    /// Whether the token ends a generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.end_of_generation.binary_search(&id).is_ok()
    }

    /// The tokens that end a generation, in order of id.
    pub fn end_tokens(&self) -> &[u32] {
        &self.end_of_generation
    }

    /// The header's end-of-text token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The header's begin-of-text token. Nothing adds it; templates may ask for its text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Tokens the file wants never sampled.
    pub fn suppressed(&self) -> &[u32] {
        &self.suppressed
    }

    /// Id and text of every special token (control, user-defined, unknown), in order of id.
    pub fn specials(&self) -> impl Iterator<Item = (u32, &str)> {
        self.specials.iter().map(|(id, text)| (*id, text.as_str()))
    }

    /// The splitting rule in use.
    pub fn pre_tokenizer(&self) -> PreTokenizer {
        self.pre
    }

    /// What was odd about the vocabulary, for the user to know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("pre", &self.pre)
            .field("tokens", &self.kinds.len())
            .field("end_of_generation", &self.end_of_generation)
            .finish_non_exhaustive()
    }
}

/// The splitting rule: the one asked for, else the file's, else that of the family.
fn choose_rule(
    asked: Option<&str>,
    stated: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<PreTokenizer, TokenizerError> {
    let Some(name) = asked.or(stated) else {
        warnings.push("no `tokenizer.ggml.pre`: text is split by the `qwen35` rule".to_owned());
        return Ok(PreTokenizer::Qwen35);
    };
    PreTokenizer::from_name(name).ok_or_else(|| TokenizerError::Pre { found: name.to_owned() })
}

/// The BPE model. Its cache holds short pieces only.
fn byte_pairs(
    vocabulary: &Vocabulary,
    ids: &std::collections::HashMap<&str, u32>,
) -> Result<BPE, TokenizerError> {
    let merges = vocabulary.merge_pairs(ids)?;
    let vocab = ids
        .iter()
        .map(|(text, id)| ((*text).to_owned(), *id))
        .collect::<tokenizers::models::bpe::Vocab>();
    BPE::builder()
        .vocab_and_merges(vocab, merges)
        .build()
        .map_err(|e| TokenizerError::Bpe(e.to_string()))
}

/// The bytes of all tokens and where each ends.
fn token_bytes(tokens: &[String], kinds: &[TokenKind]) -> (Vec<u8>, Vec<usize>) {
    let mut all = Vec::new();
    let mut ends = Vec::with_capacity(tokens.len());
    for (text, kind) in tokens.iter().zip(kinds) {
        match kind {
            TokenKind::Unused => {}
            kind if kind.is_verbatim() => all.extend_from_slice(text.as_bytes()),
            _ => bytes::unspell(text, &mut all),
        }
        ends.push(all.len());
    }
    (all, ends)
}

/// The bytes that have no token, `None` if all have.
fn unspellable(ids: &std::collections::HashMap<&str, u32>) -> Option<Box<[bool; 256]>> {
    let mut utf8 = [0; 4];
    let missing = bytes::ALPHABET.map(|c| !ids.contains_key(&*c.encode_utf8(&mut utf8)));
    missing.contains(&true).then(|| Box::new(missing))
}
