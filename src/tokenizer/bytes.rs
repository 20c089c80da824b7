//! The byte alphabet of GPT-2: every byte has a printable character, and vocabularies are spelled
//! in those.
//!
//! Bytes that are printable in Latin-1 stand for themselves, the other 68 become U+0100 upwards in
//! order.

/// Number of bytes without a printable Latin-1 character of their own.
const SHIFTED: usize = 68;
/// First character given to those bytes.
const SHIFT_BASE: u32 = 0x100;

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

const fn alphabet() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut next = SHIFT_BASE;
    let mut byte = 0;
    while byte < 256 {
        table[byte] = if is_printable(byte as u8) {
            byte as u8 as char
        } else {
            next += 1;
            match char::from_u32(next - 1) {
                Some(c) => c,
                None => panic!("the shifted characters lie below the surrogates"),
            }
        };
        byte += 1;
    }
    table
}

const fn shifted_bytes() -> [u8; SHIFTED] {
    let mut table = [0; SHIFTED];
    let (mut byte, mut n) = (0, 0);
    while byte < 256 {
        if !is_printable(byte as u8) {
            table[n] = byte as u8;
            n += 1;
        }
        byte += 1;
    }
    table
}

/// The character of each byte.
pub(crate) static ALPHABET: [char; 256] = alphabet();
static SHIFTED_BYTES: [u8; SHIFTED] = shifted_bytes();

/// The byte a character of the alphabet stands for, `None` for a character outside it.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    match u8::try_from(c) {
        Ok(byte) => is_printable(byte).then_some(byte),
        Err(_) => SHIFTED_BYTES.get((c as u32 - SHIFT_BASE) as usize).copied(),
    }
}

/// Appends the alphabet's spelling of `text` to `out`.
pub(crate) fn spell(text: &str, out: &mut String) {
    out.extend(text.bytes().map(|b| ALPHABET[b as usize]));
}

/// Appends the bytes a spelled token stands for. A character outside the alphabet stands for
/// itself.
pub(crate) fn unspell(token: &str, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for c in token.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(ALPHABET[byte as usize]), Some(byte));
        }
        assert_eq!(ALPHABET[b' ' as usize], 'Ġ');
        assert_eq!(ALPHABET[b'\n' as usize], 'Ċ');
        assert_eq!(ALPHABET[0xad], '\u{143}');
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('\u{144}'), None);
        assert_eq!(byte_of('字'), None);
    }

    #[test]
    fn spelling_round_trips_and_foreign_characters_survive() {
        let text = "a é\n字";
        let mut spelled = String::new();
        spell(text, &mut spelled);
        let mut back = Vec::new();
        unspell(&spelled, &mut back);
        assert_eq!(back, text.as_bytes());

        back.clear();
        unspell("字Ġ", &mut back);
        assert_eq!(back, "字 ".as_bytes());
    }
}
