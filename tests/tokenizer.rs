//! The tokenizer against reference ids, against the splitting rules as regular expressions, and
//! against odd input.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pantheon::gguf::{Blob, Gguf, Writer};
use pantheon::tokenizer::{Parse, PreTokenizer, TokenKind, Tokenizer, TokenizerError, Vocabulary};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tokenizer").join(name)
}

fn tiny() -> Gguf {
    Gguf::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny-q4_k_m.gguf")).unwrap()
}

fn tiny_tokenizer() -> Tokenizer {
    Tokenizer::from_gguf(&tiny(), None).unwrap()
}

/// The 151,936-token vocabulary.
fn full() -> Gguf {
    let packed = std::fs::read(golden("ggml-vocab-qwen35.gguf.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    Gguf::from_blob("ggml-vocab-qwen35.gguf", &Blob::from(bytes)).unwrap()
}

/// A small reproducible random source.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn char(&mut self) -> char {
        const NEAR: [char; 40] = [
            ' ', ' ', ' ', '\n', '\n', '\r', '\t', '\'', 's', 'S', 't', 'r', 'R', 'e', 'v', 'l',
            'L', 'm', 'd', 'D', 'ſ', 'a', '1', '½', '.', '!', '<', '|', '>', '\u{301}', '\u{94d}',
            'न', '字', 'é', '\u{a0}', '\u{3000}', '\u{85}', '\u{200d}', '🦙', '\u{fe0f}',
        ];
        if self.below(8) > 0 {
            return *self.pick(&NEAR);
        }
        char::from_u32(self.below(0x11_0000) as u32).unwrap_or('\u{d7ff}')
    }

    fn text(&mut self, chars: usize) -> String {
        (0..self.below(chars + 1)).map(|_| self.char()).collect()
    }
}

#[test]
fn the_fifty_reference_texts_have_the_reference_ids() {
    let tokenizer = Tokenizer::from_gguf(&full(), None).unwrap();
    assert_eq!(tokenizer.warnings(), [""; 0]);
    let texts = std::fs::read_to_string(golden("ggml-vocab-qwen35.gguf.inp")).unwrap();
    let ids = std::fs::read_to_string(golden("ggml-vocab-qwen35.gguf.out")).unwrap();
    let mut texts: Vec<&str> = texts.split("__ggml_vocab_test__\n").collect();
    assert_eq!(texts.pop(), Some(""));
    assert_eq!((texts.len(), ids.lines().count()), (50, 50));
    for (text, ids) in texts.into_iter().zip(ids.lines()) {
        let text = text.strip_suffix('\n').unwrap();
        let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(text, Parse::UserDefined).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids, false), text);
    }
}

#[test]
fn the_tiny_models_texts_have_the_reference_ids() {
    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
    }
    let tokenizer = tiny_tokenizer();
    let cases = std::fs::read_to_string(golden("tokenizer_cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&cases).unwrap();
    assert_eq!(cases.len(), 200);
    for Case { text, ids } in cases {
        let parse = if text.contains("<|") { Parse::Special } else { Parse::UserDefined };
        assert_eq!(tokenizer.encode(&text, parse).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids, true), text);
    }
}

/// A splitting rule as the regular expression it is upstream; `mark` is what words hold besides
/// letters.
fn expression(mark: &str) -> Split {
    let pattern = format!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{}|\p{{N}}|{}|\s*[\r\n]+|\s+(?!\S)|\s+",
        format_args!(r"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}{mark}]+"),
        format_args!(r" ?[^\s\p{{L}}{mark}\p{{N}}]+[\r\n]*"),
    );
    Split::new(SplitPattern::Regex(pattern), SplitDelimiterBehavior::Isolated, false).unwrap()
}

fn assert_same_pieces(pre: PreTokenizer, expression: &Split, text: &str) {
    let mut reference = PreTokenizedString::from(text);
    expression.pre_tokenize(&mut reference).unwrap();
    let splits = reference.get_splits(OffsetReferential::Original, OffsetType::Byte);
    let reference: Vec<&str> =
        splits.iter().map(|(piece, _, _)| *piece).filter(|piece| !piece.is_empty()).collect();
    assert_eq!(pre.pieces(text).collect::<Vec<_>>(), reference, "{pre:?} {text:?}");
}

#[test]
fn both_splitting_rules_equal_their_regular_expressions() {
    for (pre, mark) in [(PreTokenizer::Qwen35, r"\p{M}"), (PreTokenizer::Qwen2, "")] {
        let expression = expression(mark);
        let mut random = Random(7);
        for _ in 0..20_000 {
            assert_same_pieces(pre, &expression, &random.text(24));
        }
    }
}

#[test]
fn every_character_splits_as_the_expressions_say() {
    // Planes 4 to 13 are unassigned and the last two are private: a few of their characters stand
    // for all.
    let chars: Vec<char> = ('\0'..'\u{32000}')
        .chain('\u{3fff0}'..'\u{40010}')
        .chain('\u{e0000}'..'\u{e0200}')
        .chain('\u{10fff0}'..=char::MAX)
        .collect();
    for (pre, mark) in [(PreTokenizer::Qwen35, r"\p{M}"), (PreTokenizer::Qwen2, "")] {
        let expression = expression(mark);
        for block in chars.chunks(512) {
            // Before a digit, a letter and a blank, so that its class shows.
            let text: String = block.iter().map(|c| format!("1{c}1{c}a {c}")).collect();
            assert_same_pieces(pre, &expression, &text);
        }
    }
}

#[test]
fn any_text_comes_back() {
    for tokenizer in [Tokenizer::from_gguf(&full(), None).unwrap(), tiny_tokenizer()] {
        let mut random = Random(11);
        for _ in 0..2000 {
            let text = random.text(60);
            for parse in [Parse::Nothing, Parse::UserDefined, Parse::Special] {
                let ids = tokenizer.encode(&text, parse).unwrap();
                assert_eq!(tokenizer.decode(&ids, true), text);
                let mut decoder = tokenizer.decoder(true);
                let mut streamed: String = ids.iter().map(|&id| decoder.push(id)).collect();
                streamed += &decoder.finish();
                assert_eq!(streamed, text);
                tokenizer.check_prompt(&ids).unwrap();
            }
        }
    }
}

#[test]
fn long_runs_take_near_linear_time_and_little_stack() {
    const LONG: usize = 131_072;
    let tokenizer = tiny_tokenizer();
    let check = move || {
        for unit in [
            "a",
            " ",
            "\n",
            "1",
            "!",
            "\u{301}",
            "字",
            " \n",
            "a ",
            "\r\n ",
            "' ",
            "<|im_start|>",
            "<",
        ] {
            let text: String = unit.chars().cycle().take(LONG).collect();
            for parse in [Parse::Nothing, Parse::Special] {
                let started = Instant::now();
                let ids = tokenizer.encode(&text, parse).unwrap();
                let seconds = started.elapsed().as_secs_f64();
                assert_eq!(tokenizer.decode(&ids, true), text);
                // Quadratic work would take minutes; the bound leaves room for a busy machine.
                assert!(seconds < 5.0, "{unit:?}: {seconds} s");
            }
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(check).unwrap().join().unwrap();
}

#[test]
fn a_long_run_scales_near_linearly() {
    let tokenizer = tiny_tokenizer();
    let time = |n: usize| {
        let text = "ab".repeat(n / 2);
        let best = (0..3).map(|_| {
            let started = Instant::now();
            tokenizer.encode(&text, Parse::Nothing).unwrap();
            started.elapsed().as_secs_f64()
        });
        best.fold(f64::INFINITY, f64::min)
    };
    let (small, large) = (time(16_384), time(131_072));
    assert!(large < 8.0 * 4.0 * small, "16,384 characters: {small} s, 131,072: {large} s");
}

#[test]
fn long_pieces_have_the_ids_that_the_crate_gives() {
    let gguf = full();
    let vocabulary = Vocabulary::from_gguf(&gguf).unwrap();
    let vocab = (0..).zip(&vocabulary.tokens).map(|(id, text)| (text.clone(), id)).collect();
    let merges = vocabulary.merges.iter().map(|merge| {
        let (left, right) = merge.split_once(' ').unwrap();
        (left.to_owned(), right.to_owned())
    });
    let bpe = tokenizers::models::bpe::BPE::builder()
        .vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocab, merges.collect())
        .build()
        .unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf, None).unwrap();
    let mut random = Random(5);
    let words = ["the", "ing", "tion", "a", "e", "qu", "zz", "ally", "Hello", "World", "xyz", "b"];
    for round in 0..12 {
        let few = 1 + round % words.len();
        let mut text = String::new();
        // Letters are their own spelling.
        while text.len() < 5000 + 3000 * round {
            text.push_str(words[random.below(few)]);
        }
        let expected: Vec<u32> =
            tokenizers::Model::tokenize(&bpe, &text).unwrap().iter().map(|t| t.id).collect();
        assert_eq!(tokenizer.encode(&text, Parse::Nothing).unwrap(), expected, "round {round}");
        assert!(expected.len() >= tokenizer.fewest(text.len()));
    }
}

#[test]
fn special_tokens_are_recognised_by_type() {
    let tokenizer = tiny_tokenizer();
    let text = "<|im_start|><think>x";
    let all = tokenizer.encode(text, Parse::Special).unwrap();
    assert_eq!(all[..2], [2040, 2042]);
    let some = tokenizer.encode(text, Parse::UserDefined).unwrap();
    assert!(!some.contains(&2040) && some.contains(&2042));
    let none = tokenizer.encode(text, Parse::Nothing).unwrap();
    assert!(none.iter().all(|id| *id < 2039));
    assert_eq!(tokenizer.decode(&none, false), text);

    // Control tokens are hidden from text, user-defined ones are shown.
    assert_eq!(tokenizer.decode(&all, false), "<think>x");
    assert_eq!(tokenizer.decode(&all, true), text);
    assert_eq!(tokenizer.bytes(2040), b"<|im_start|>");
    assert_eq!(tokenizer.end_tokens(), [2039, 2041]);
    assert_eq!((tokenizer.eos(), tokenizer.bos()), (Some(2041), None));
    assert_eq!(tokenizer.kind(2042), Some(TokenKind::UserDefined));
    assert_eq!(tokenizer.kind(2048), None);
}

/// A vocabulary of the 256 bytes (token id = byte) and nothing else.
fn byte_vocabulary() -> Vocabulary {
    let mut tokens = vec![String::new(); 256];
    let mut shifted = 0;
    for byte in 0..=255u8 {
        let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let c = if printable { byte as char } else { char::from_u32(0x100 + shifted).unwrap() };
        shifted += u32::from(!printable);
        tokens[byte as usize] = c.to_string();
    }
    Vocabulary {
        types: vec![1; 256],
        tokens,
        pre: Some("qwen35".to_owned()),
        ..Vocabulary::default()
    }
}

/// `byte_vocabulary` with special tokens: text and type.
fn with_specials(specials: &[(&str, i32)]) -> Vocabulary {
    let mut vocabulary = byte_vocabulary();
    for (text, kind) in specials {
        vocabulary.tokens.push((*text).to_owned());
        vocabulary.types.push(*kind);
    }
    vocabulary
}

fn error(vocabulary: &Vocabulary) -> String {
    Tokenizer::new(vocabulary, None).unwrap_err().to_string()
}

#[test]
fn padding_rows_have_no_text_and_no_place_in_a_prompt() {
    let vocabulary = with_specials(&[("<|im_end|>", 3), ("[PAD0]", 5), ("[PAD1]", 5)]);
    let tokenizer = Tokenizer::new(&vocabulary, None).unwrap();
    assert_eq!(tokenizer.decode(&[104, 257, 105, 258, 259, u32::MAX], true), "hi");
    let mut decoder = tokenizer.decoder(true);
    assert_eq!([257, 400, 104].map(|id| decoder.push(id)).concat() + &decoder.finish(), "h");
    for parse in [Parse::Nothing, Parse::UserDefined, Parse::Special] {
        assert_eq!(tokenizer.encode("[PAD0]", parse).unwrap(), b"[PAD0]".map(u32::from));
    }
    tokenizer.check_prompt(&[104, 256]).unwrap();
    for bad in [257, 259, u32::MAX] {
        let error = tokenizer.check_prompt(&[104, bad]).unwrap_err().to_string();
        assert!(error.contains(&format!("id {bad} at position 1")), "{error}");
    }
    assert!(tokenizer.is_named(256) && !tokenizer.is_named(257) && !tokenizer.is_named(259));
    assert!(tokenizer.bytes(257).is_empty() && tokenizer.bytes(9999).is_empty());
}

#[test]
fn half_a_character_is_held_back() {
    let tokenizer = Tokenizer::new(&byte_vocabulary(), None).unwrap();
    let mut decoder = tokenizer.decoder(false);
    let pieces: Vec<String> = "a🦙é".bytes().map(|b| decoder.push(u32::from(b))).collect();
    assert_eq!(pieces, ["a", "", "", "", "🦙", "", "é"]);
    assert_eq!(decoder.push(0xf0), "");
    assert_eq!(decoder.push(0x9f), "");
    assert_eq!(decoder.push(u32::from(b'x')), "\u{fffd}x");
    assert_eq!(tokenizer.bytes(0x9f), [0x9f]);
}

#[test]
fn inconsistent_vocabularies_are_refused_by_name() {
    let mut vocabulary = byte_vocabulary();
    vocabulary.special_ids = vec![("tokenizer.ggml.eos_token_id", 0xffff_ffff)];
    let message = error(&vocabulary);
    assert!(message.contains("`tokenizer.ggml.eos_token_id`"), "{message}");
    assert!(message.contains("below 256, found 4294967295"), "{message}");

    let mut vocabulary = byte_vocabulary();
    vocabulary.types.pop();
    let message = error(&vocabulary);
    assert!(message.contains("expected 256 entries, one per token, found 255"), "{message}");

    let mut vocabulary = byte_vocabulary();
    vocabulary.types[3] = 9;
    assert!(error(&vocabulary).contains("token 3: expected 1 normal"), "{}", error(&vocabulary));

    let mut vocabulary = byte_vocabulary();
    for (merge, text) in [
        ("a zz", r#"entry 0 ("a zz"): "zz" is not in the vocabulary"#),
        ("a b", r#"entry 0 ("a b"): "ab" is not in the vocabulary"#),
        ("ab", r#"expected two tokens with a space between, found "ab""#),
        ("", r#"expected two tokens with a space between, found """#),
        ("a ", r#"expected two tokens with a space between, found "a ""#),
        ("  a", r#"" " is not in the vocabulary"#),
    ] {
        vocabulary.merges = vec![merge.to_owned()];
        let message = error(&vocabulary);
        assert!(message.contains(text), "{merge:?}: {message}");
    }

    let mut vocabulary = byte_vocabulary();
    vocabulary.suppress = vec![7, 256];
    assert!(
        error(&vocabulary)
            .contains("`tokenizer.ggml.suppress_tokens`: expected a token id below 256")
    );

    assert!(
        error(&Vocabulary { pre: Some("qwen35".into()), ..Vocabulary::default() })
            .contains("at least one token")
    );
}

#[test]
fn equal_texts_load_encode_to_one_id_and_decode_both() {
    let mut vocabulary = with_specials(&[("he", 1), ("he", 1), ("<x>", 4), ("<x>", 4)]);
    vocabulary.merges = vec!["h e".to_owned()];
    let tokenizer = Tokenizer::new(&vocabulary, None).unwrap();
    assert_eq!(tokenizer.encode("he<x>", Parse::UserDefined).unwrap(), [256, 258]);
    assert_eq!(tokenizer.decode(&[256, 257, 258, 259], false), "hehe<x><x>");
}

#[test]
fn splitting_rules_by_name() {
    let encode = |pre: Option<&str>, asked: Option<&str>| {
        let mut vocabulary = with_specials(&[("\u{102}x", 1)]);
        vocabulary.pre = pre.map(str::to_owned);
        Tokenizer::new(&vocabulary, asked)
    };
    assert_eq!(encode(Some("qwen2"), None).unwrap().pre_tokenizer(), PreTokenizer::Qwen2);
    assert_eq!(
        encode(Some("llama-bpe"), Some("qwen2")).unwrap().pre_tokenizer(),
        PreTokenizer::Qwen2
    );
    let absent = encode(None, None).unwrap();
    assert_eq!(absent.pre_tokenizer(), PreTokenizer::Qwen35);
    assert!(absent.warnings()[0].contains("tokenizer.ggml.pre"), "{:?}", absent.warnings());
    for (pre, asked) in [(Some("llama-bpe"), None), (Some("qwen2"), Some("nope"))] {
        let error = encode(pre, asked).unwrap_err();
        assert!(matches!(&error, TokenizerError::Pre { found } if found == asked.or(pre).unwrap()));
        let message = error.to_string();
        assert!(
            message.contains("`qwen35`, `qwen2`") && message.contains("--pre NAME"),
            "{message}"
        );
    }
}

#[test]
fn marks_change_the_tokens_of_one_rule_only() {
    // The merge joins a letter with the first byte of a mark, which only one rule lets happen.
    let mut vocabulary = with_specials(&[("eÌ", 1)]);
    vocabulary.merges = vec!["e Ì".to_owned()];
    let ids = |pre| {
        Tokenizer::new(&vocabulary, Some(pre)).unwrap().encode("e\u{301}", Parse::Nothing).unwrap()
    };
    assert_eq!(ids("qwen35"), [256, 0x81]);
    assert_eq!(ids("qwen2"), [0x65, 0xcc, 0x81]);
}

#[test]
fn texts_that_end_a_generation_are_found_wherever_they_are() {
    let mut vocabulary =
        with_specials(&[("<|endoftext|>", 1), ("<|im_end|>", 3), ("<|file_sep|>", 4), ("<s>", 3)]);
    vocabulary.special_ids = vec![
        ("tokenizer.ggml.eos_token_id", 259),
        ("tokenizer.ggml.eot_token_id", 3),
        ("tokenizer.ggml.padding_token_id", 5),
    ];
    let tokenizer = Tokenizer::new(&vocabulary, None).unwrap();
    assert_eq!(tokenizer.end_tokens(), [3, 256, 257, 258, 259]);
    assert!(tokenizer.is_end(256) && !tokenizer.is_end(5));
    assert_eq!(tokenizer.kind(256), Some(TokenKind::Control));
}

#[test]
fn a_byte_without_a_token_is_an_error_that_names_it() {
    let mut vocabulary = byte_vocabulary();
    vocabulary.tokens[b'x' as usize] = "unused".to_owned();
    let tokenizer = Tokenizer::new(&vocabulary, None).unwrap();
    assert_eq!(tokenizer.encode("ab", Parse::Nothing).unwrap(), [97, 98]);
    let message = tokenizer.encode("abx", Parse::Nothing).unwrap_err().to_string();
    assert!(message.contains("byte 0x78 at offset 2"), "{message}");
}

/// The tokenizer of a file with these keys besides a one-token vocabulary.
fn from_file(keys: impl FnOnce(&mut Writer)) -> Result<Tokenizer, TokenizerError> {
    let mut writer = Writer::new();
    writer.key("general.architecture", "anything");
    keys(&mut writer);
    let mut bytes = Vec::new();
    writer.write(&mut bytes, |_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&Gguf::from_blob("v.gguf", &Blob::from(bytes)).unwrap(), None)
}

#[test]
fn a_file_is_read_leniently_and_refused_by_key() {
    let tokens = vec!["a", "b", "ab", "<|im_end|>"];
    let good = from_file(|w| {
        w.key("tokenizer.ggml.model", "gpt2");
        w.key("tokenizer.ggml.pre", "qwen2");
        w.key("tokenizer.ggml.tokens", tokens.clone());
        w.key("tokenizer.ggml.token_type", vec![1i8, 1, 1, 3]);
        w.key("tokenizer.ggml.merges", vec!["a b"]);
        w.key("tokenizer.ggml.eos_token_id", 3u64);
        w.key("tokenizer.ggml.suppress_tokens", vec![1i32]);
        w.key("tokenizer.ggml.add_bos_token", true);
    })
    .unwrap();
    assert_eq!(good.encode("abba<|im_end|>", Parse::Special).unwrap(), [2, 1, 0, 3]);
    assert_eq!(good.suppressed(), [1]);
    assert!(good.warnings()[0].contains("add_bos_token"), "{:?}", good.warnings());

    let message = from_file(|_| ()).unwrap_err().to_string();
    assert!(message.starts_with("v.gguf: no `tokenizer.ggml.model`"), "{message}");
    let message =
        from_file(|w| _ = w.key("tokenizer.ggml.model", "llama")).unwrap_err().to_string();
    assert!(message.contains("expected `gpt2` (byte-level BPE), found `llama`"), "{message}");
    let message = from_file(|w| _ = w.key("tokenizer.ggml.model", 3u32)).unwrap_err().to_string();
    assert!(message.contains("tokenizer.ggml.model") && message.contains("a string"), "{message}");
    let message = from_file(|w| {
        w.key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.tokens", vec!["a"]);
    });
    assert!(message.unwrap_err().to_string().contains("no `tokenizer.ggml.merges`"));
    let one = from_file(|w| {
        w.key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.tokens", vec!["a"]);
        w.key("tokenizer.ggml.merges", Vec::<&str>::new());
        w.key("tokenizer.ggml.eos_token_id", 0xffff_ffffu32);
    });
    assert!(one.unwrap_err().to_string().contains("expected a token id below 1, found 4294967295"));
}
