//! One sound file, damaged in every way a single byte allows.

use std::time::{Duration, Instant};

use pantheon::gguf::{Gguf, Writer};
use pantheon::quant::GgmlType;

use crate::raw::open;

/// A file with most kinds of field, small enough to try every byte. Returns the length of its
/// header.
pub(crate) fn rich(version: u32) -> (Vec<u8>, usize) {
    let mut writer = Writer::new();
    writer.version(version).alignment(32);
    writer.key("general.architecture", "qwen35moe").key("n", 7u32).key("x", 0.5f32);
    writer.key("ids", vec![3i32, -1]).key("tokens", vec!["a", "bc", ""]);
    writer.key("flags", vec![true, false]).key("last", u64::MAX);
    writer.tensor("one", &[5], GgmlType::F32).unwrap();
    writer.tensor("two", &[32, 2], GgmlType::Q8_0).unwrap();
    writer.tensor("three", &[2, 2, 2, 4], GgmlType::F16).unwrap();
    let mut out = Vec::new();
    writer.write(&mut out, |t, to| to.write_all(&vec![0xA5; t.bytes as usize])).unwrap();
    let start = open(out.clone()).unwrap().tensors()[0].offset;
    (out, start as usize)
}

/// Looks at everything an accepted file offers; whatever it is, it must hold together.
pub(crate) fn walk(gguf: &Gguf) {
    for (key, value) in gguf.metadata() {
        assert!(gguf.get(key).is_some_and(|found| std::ptr::eq(found, value)));
        let text = value.to_string();
        assert!(!text.is_empty() && !value.type_name().is_empty());
        let _ = (gguf.u64_list(key), gguf.f32(key), gguf.bool_list(key), gguf.str_list(key));
    }
    for tensor in gguf.tensors() {
        let row = tensor.ty.row_bytes(tensor.ne[0] as usize).expect("rows of whole blocks");
        assert_eq!(tensor.data.len() as u64, row as u64 * tensor.rows(), "{}", tensor.describe());
        assert!(tensor.offset + tensor.data.len() as u64 <= gguf.file_bytes());
        assert!(gguf.tensor(&tensor.name).is_some());
    }
}

#[test]
fn cut_at_every_byte() {
    for version in [2, 3] {
        let (bytes, _) = rich(version);
        let last = open(bytes.clone()).unwrap().tensors()[2].clone();
        let needed = last.offset as usize + last.data.len();
        for length in 0..bytes.len() {
            let cut = open(bytes[..length].to_vec());
            assert_eq!(cut.is_ok(), length >= needed, "{length} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn every_header_byte_in_every_value() {
    let (bytes, header) = rich(3);
    let start = Instant::now();
    let mut accepted = 0;
    for at in 0..header {
        for value in 0..=u8::MAX {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            if let Ok(gguf) = open(damaged) {
                walk(&gguf);
                accepted += 1;
            }
        }
    }
    assert!(accepted >= header, "an unchanged byte is always accepted");
    assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
}

/// The length and count fields of four and eight bytes, all at once at their limits.
#[test]
fn every_header_word_at_its_limits() {
    let (bytes, header) = rich(3);
    for at in 0..header - 8 {
        for word in [0, 1, 1 << 31, 1 << 32, 1 << 61, 1 << 63, u64::MAX, u64::MAX - 31] {
            for width in [4, 8] {
                let mut damaged = bytes.clone();
                damaged[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
                if let Ok(gguf) = open(damaged) {
                    walk(&gguf);
                }
            }
        }
    }
}
