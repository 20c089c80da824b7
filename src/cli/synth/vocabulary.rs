//! A minimal vocabulary: one token per byte, the family's special tokens, padding.

use crate::gguf::Writer;
use crate::tokenizer::bytes::ALPHABET;

/// Special tokens and their types: 3 control, 4 user-defined.
const SPECIALS: [(&str, i32); 9] = [
    (END, 3),
    ("<|im_start|>", 3),
    (TURN_END, 3),
    ("<think>", 4),
    ("</think>", 4),
    ("<tool_call>", 4),
    ("</tool_call>", 4),
    ("<tool_response>", 4),
    ("</tool_response>", 4),
];
const END: &str = "<|endoftext|>";
const TURN_END: &str = "<|im_end|>";
const NORMAL: i32 = 1;
const UNUSED: i32 = 5;

/// The fewest rows a vocabulary can have.
pub(super) const SMALLEST: usize = ALPHABET.len() + SPECIALS.len();

/// Adds the tokenizer keys for a vocabulary of `rows` tokens, at least [`SMALLEST`].
pub(super) fn write_keys(writer: &mut Writer, rows: usize) {
    let mut tokens: Vec<String> = ALPHABET.iter().map(char::to_string).collect();
    let mut types = vec![NORMAL; tokens.len()];
    for (text, kind) in SPECIALS {
        tokens.push(text.to_owned());
        types.push(kind);
    }
    for id in tokens.len()..rows {
        tokens.push(format!("[PAD{id}]"));
        types.push(UNUSED);
    }
    let id = |text: &str| tokens.iter().position(|t| t == text).unwrap_or_default() as u32;
    let (end, turn_end) = (id(END), id(TURN_END));
    writer
        .key("tokenizer.ggml.model", "gpt2")
        .key("tokenizer.ggml.pre", "qwen35")
        .key("tokenizer.ggml.tokens", tokens.iter().map(String::as_str).collect::<Vec<&str>>())
        .key("tokenizer.ggml.token_type", types)
        .key("tokenizer.ggml.merges", Vec::<&str>::new())
        .key("tokenizer.ggml.eos_token_id", turn_end)
        .key("tokenizer.ggml.padding_token_id", end)
        .key("tokenizer.ggml.add_bos_token", false);
}
