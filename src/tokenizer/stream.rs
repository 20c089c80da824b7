//! Tokens to text, one at a time, without ever showing half a character.

use super::Tokenizer;

/// Turns a stream of bytes into text. A character's bytes are held back until it is complete; bytes
/// that can no longer become a character turn into U+FFFD, exactly as [`String::from_utf8_lossy`]
/// would on the whole.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// A prefix of a character: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Takes the next bytes and returns the text that is now certain.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, tail) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = tail;
            let Some(bad) = error.error_len() else { break };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[bad..];
        }
        self.pending = rest.to_vec();
        text
    }

    /// Ends the stream: an incomplete character becomes U+FFFD. The stream can be used again.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Streaming detokeniser. See [`Tokenizer::decoder`].
#[derive(Clone, Debug)]
pub struct Decoder<'t> {
    tokenizer: &'t Tokenizer,
    special: bool,
    stream: Utf8Stream,
}

impl<'t> Decoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, special: bool) -> Decoder<'t> {
        Decoder { tokenizer, special, stream: Utf8Stream::default() }
    }

    /// Takes the next token and returns the text that is now certain, possibly none.
    pub fn push(&mut self, id: u32) -> String {
        self.stream.push(self.tokenizer.visible_bytes(id, self.special))
    }

    /// Ends the text: what was held back comes out as U+FFFD.
    pub fn finish(&mut self) -> String {
        self.stream.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_comes_out_when_it_is_complete() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(&[b'a', 0xf0, 0x9f]), "a");
        assert_eq!(stream.push(&[0xa6]), "");
        assert_eq!(stream.push(&[0x99, b'b']), "🦙b");
        assert_eq!(stream.push(&[0xf0, 0x9f]), "");
        assert_eq!(stream.push(b"x"), "\u{fffd}x");
        assert_eq!(stream.push(&[0xe2, 0x82]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn any_cut_of_any_bytes_gives_the_text_of_the_whole() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        };
        let samples: [&[u8]; 7] = [
            "é".as_bytes(),
            "字".as_bytes(),
            "🦙".as_bytes(),
            b"a",
            &[0xff],
            &[0xed, 0xa0],
            &[0xc3],
        ];
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random() % 9)
                .flat_map(|_| samples[random() % samples.len()].to_vec())
                .collect();
            let mut stream = Utf8Stream::default();
            let mut text = String::new();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + random() % rest.len());
                text += &stream.push(now);
                rest = later;
            }
            text += &stream.finish();
            assert_eq!(text, String::from_utf8_lossy(&bytes), "{bytes:02x?}");
        }
    }
}
