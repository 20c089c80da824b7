//! The embedded model's file, mapped and embedded.

use std::path::Path;

use pantheon::gguf::{Gguf, Writer};

use crate::fields::walk;

static EMBEDDED: &[u8] = include_bytes!("../../assets/tiny-q4_k_m.gguf");

#[test]
fn mapped_and_embedded_are_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny-q4_k_m.gguf");
    let mapped = Gguf::open(&path).unwrap();
    let embedded = Gguf::from_static("embedded", EMBEDDED).unwrap();
    walk(&mapped);
    assert!(mapped.metadata().eq(embedded.metadata()));
    assert_eq!(mapped.file_bytes(), EMBEDDED.len() as u64);
    for (a, b) in mapped.tensors().iter().zip(embedded.tensors()) {
        assert_eq!((&a.name, &a.ne, a.ty, a.offset), (&b.name, &b.ne, b.ty, b.offset));
        assert!(*a.data == *b.data, "{}", a.name);
        let start = b.offset as usize;
        let in_place = EMBEDDED[start..start + b.data.len()].as_ptr_range();
        assert_eq!(b.data.as_ptr_range(), in_place, "nothing is copied");
    }
}

#[test]
fn cut_anywhere_it_is_refused() {
    let gguf = Gguf::from_static("embedded", EMBEDDED).unwrap();
    let last = gguf.tensors().iter().map(|t| t.offset as usize + t.data.len()).max().unwrap();
    let step = last / 997;
    for length in (0..last).step_by(step).chain([last - 1]) {
        assert!(Gguf::from_static("cut", &EMBEDDED[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn its_vocabulary_is_whole() {
    let gguf = Gguf::from_static("embedded", EMBEDDED).unwrap();
    let tokens = gguf.str_list("tokenizer.ggml.tokens").unwrap().unwrap();
    let rows = gguf.tensor("token_embd.weight").unwrap().ne[1];
    assert_eq!(tokens.len() as u64, rows);
    assert_eq!(tokens.get(0), Some("!"));
    assert!(tokens.iter().any(|t| t == "<|im_start|>"));
    assert_eq!(gguf.str("general.architecture").unwrap(), Some("qwen35moe"));
}

/// Another program wrote it; written again from what was read, every byte is the same.
#[test]
fn written_again_it_is_the_same_file() {
    let gguf = Gguf::from_static("embedded", EMBEDDED).unwrap();
    let mut writer = Writer::new();
    writer.version(gguf.version());
    for (key, value) in gguf.metadata() {
        writer.key(key, value.clone());
    }
    for t in gguf.tensors() {
        writer.tensor(&t.name, &t.ne, t.ty).unwrap();
    }
    let mut again = Vec::new();
    let fill = |t: &pantheon::gguf::TensorInfo, to: &mut dyn std::io::Write| {
        to.write_all(&gguf.tensor(&t.name).expect("it was read").data)
    };
    writer.write(&mut again, fill).unwrap();
    assert!(again == EMBEDDED);
}
