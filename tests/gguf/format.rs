//! What a sound file may look like, and that writing and reading agree.

use pantheon::gguf::{Array, Blob, Gguf, Value, Writer};
use pantheon::quant::GgmlType;

use crate::raw::{base, info, key, open, with_infos, with_keys};

fn write(writer: &Writer) -> Vec<u8> {
    let mut out = Vec::new();
    let mut seed = 0u8;
    let written = writer
        .write(&mut out, |tensor, to| {
            seed += 1;
            to.write_all(&vec![seed; tensor.bytes as usize])
        })
        .expect("writing to memory");
    assert_eq!(written, out.len() as u64);
    out
}

fn every_kind_of_value() -> Vec<(&'static str, Value)> {
    vec![
        ("u8", 0xFEu8.into()),
        ("i8", (-3i8).into()),
        ("u16", 65533u16.into()),
        ("i16", (-1234i16).into()),
        ("u32", 4_000_000_000u32.into()),
        ("i32", (-7i32).into()),
        ("f32", 1.5f32.into()),
        ("bool", true.into()),
        ("str", "grüße \u{1F600}".into()),
        ("empty", "".into()),
        ("u64", u64::MAX.into()),
        ("i64", i64::MIN.into()),
        ("f64", (-0.1f64).into()),
        ("u8s", vec![1u8, 2, 255].into()),
        ("i8s", vec![1i8, -2].into()),
        ("u16s", vec![9u16].into()),
        ("i16s", vec![-9i16, 4, 5].into()),
        ("u32s", vec![1u32, 2, 3].into()),
        ("i32s", vec![-1i32, 2].into()),
        ("f32s", vec![0.25f32, -8.0].into()),
        ("bools", vec![true, false, true].into()),
        ("strs", vec!["a", "", "ccc", "a"].into()),
        ("none", Vec::<&str>::new().into()),
        ("u64s", vec![u64::MAX].into()),
        ("i64s", vec![i64::MIN, 0].into()),
        ("f64s", Vec::<f64>::new().into()),
    ]
}

#[test]
fn every_value_and_tensor_survives_both_versions() {
    for version in [2, 3] {
        let mut writer = Writer::new();
        writer.version(version);
        for (name, value) in every_kind_of_value() {
            writer.key(name, value);
        }
        writer.tensor("a", &[33], GgmlType::F32).unwrap();
        writer.tensor("b.weight", &[64, 3, 2], GgmlType::Q8_0).unwrap();
        writer.tensor("c", &[1, 1, 1, 5], GgmlType::Bf16).unwrap();
        let gguf = open(write(&writer)).unwrap();

        assert_eq!(gguf.version(), version);
        let expected = every_kind_of_value();
        assert!(gguf.metadata().eq(expected.iter().map(|(k, v)| (*k, v))), "order and values");
        assert_eq!(gguf.get("strs"), Some(&expected[21].1));
        assert_eq!(gguf.get("no such key"), None);
        let shapes: Vec<_> = gguf.tensors().iter().map(|t| (t.ne.clone(), t.rows())).collect();
        assert_eq!(shapes, [(vec![33], 1), (vec![64, 3, 2], 6), (vec![1, 1, 1, 5], 5)]);
        for (i, tensor) in gguf.tensors().iter().enumerate() {
            assert!(
                tensor.data.iter().all(|&b| usize::from(b) == i + 1),
                "data of {}",
                tensor.name
            );
            assert!(tensor.offset.is_multiple_of(32));
        }
        assert_eq!(gguf.tensor("b.weight").unwrap().data.len(), 6 * 2 * 34);
        assert_eq!(gguf.tensor("b.weight").unwrap().describe(), "q8_0 [64, 3, 2]");
        assert!(gguf.tensor("b").is_none());
    }
}

#[test]
fn alignments_from_one_to_pages() {
    for alignment in [1, 2, 8, 64, 4096] {
        let mut writer = Writer::new();
        writer.alignment(alignment);
        for i in 0..5 {
            writer.tensor(&format!("t{i}"), &[7 + i], GgmlType::I8).unwrap();
        }
        let gguf = open(write(&writer)).unwrap();
        for (i, tensor) in gguf.tensors().iter().enumerate() {
            assert_eq!(&*tensor.data, vec![i as u8 + 1; 7 + i]);
            assert!(tensor.offset.is_multiple_of(u64::from(alignment)));
        }
    }
}

#[test]
fn the_base_file_is_sound() {
    let bytes = base().bytes();
    assert_eq!(bytes.len(), 256);
    let gguf = open(bytes).unwrap();
    assert_eq!(gguf.file_bytes(), 256);
    assert_eq!(gguf.name(), "test.gguf");
    assert_eq!(gguf.tensor("t").unwrap().data[..3], [0, 1, 2]);
}

#[test]
fn order_and_holes_are_free() {
    let mut raw = with_infos(vec![
        info("late", &[8], 0, 160),
        info("early", &[8], 0, 0),
        info("middle", &[2], 0, 64),
    ]);
    raw.data = 192;
    let gguf = raw.open().unwrap();
    let starts: Vec<u8> = gguf.tensors().iter().map(|t| t.data[0]).collect();
    assert_eq!(starts, [160, 0, 64]);
}

#[test]
fn a_file_without_tensors_needs_no_padding() {
    let mut raw = with_infos(vec![]);
    (raw.data, raw.alignment) = (0, 1);
    assert!(!raw.bytes().len().is_multiple_of(32));
    assert!(raw.open().unwrap().tensors().is_empty());
    (raw.keys, raw.version) = (vec![], 2);
    assert_eq!(raw.open().unwrap().metadata().count(), 0);
}

#[test]
fn getters_are_lenient_about_width_and_say_what_is_wrong() {
    let keys = [
        (0, vec![8]),
        (1, vec![8]),
        (2, vec![8, 0]),
        (3, vec![8, 0]),
        (4, vec![8, 0, 0, 0]),
        (5, vec![8, 0, 0, 0]),
        (10, vec![8, 0, 0, 0, 0, 0, 0, 0]),
        (11, vec![8, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (ty, bytes) in keys {
        let gguf = with_keys(vec![key("k", ty, &bytes)]).open().unwrap();
        assert_eq!(gguf.u64("k").unwrap(), Some(8), "type {ty}");
        assert_eq!(gguf.u32("k").unwrap(), Some(8));
        assert_eq!(gguf.f32("k").unwrap(), Some(8.0));
        assert_eq!(gguf.bool("k").unwrap(), Some(true));
        assert_eq!(gguf.u64_list("k").unwrap(), Some(vec![8]), "a scalar is a list of one");
        assert_eq!(gguf.i32_list("k").unwrap(), Some(vec![8]));
        assert!(gguf.str("k").is_err() && gguf.str_list("k").is_err());
        assert_eq!(gguf.u64("absent").unwrap(), None);
    }
    let gguf = with_keys(vec![
        key("negative", 5, &(-1i32).to_le_bytes()),
        key("double", 12, &0.5f64.to_le_bytes()),
        key("large", 10, &(1u64 << 32).to_le_bytes()),
    ]);
    let gguf = gguf.open().unwrap();
    assert_eq!(gguf.f32("double").unwrap(), Some(0.5));
    assert_eq!(gguf.i32_list("negative").unwrap(), Some(vec![-1]));
    assert!(gguf.i32_list("large").is_err() && gguf.u32("large").is_err());
    let error = gguf.u64("negative").unwrap_err().to_string();
    assert!(error.contains("key \"negative\": expected a non-negative integer"), "{error}");
    assert!(error.contains("found -1 (i32)"), "{error}");
    assert!(gguf.u64("double").is_err(), "a float is not an integer");
}

#[test]
fn equal_strings_in_a_list_are_kept() {
    let mut writer = Writer::new();
    writer.key("tokens", vec!["x", "y", "x"]).key("flags", vec![1u8, 0]);
    let gguf = open(write(&writer)).unwrap();
    let tokens = gguf.str_list("tokens").unwrap().unwrap();
    assert_eq!(tokens.iter().collect::<Vec<_>>(), ["x", "y", "x"]);
    assert_eq!((tokens.get(2), tokens.get(3)), (Some("x"), None));
    assert_eq!(gguf.bool_list("flags").unwrap(), Some(vec![true, false]));
    assert_eq!(gguf.f32_list("flags").unwrap(), Some(vec![1.0, 0.0]));
    let shown = gguf.get("tokens").unwrap().to_string();
    assert_eq!(shown, r#"["x", "y", "x"]"#);
    let long = Value::Array(Array::U8(vec![7; 100])).to_string();
    assert_eq!(long, "[7, 7, 7, 7, 7, 7, 7, 7, ... 100 in all]");
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = Writer::new();
    for (name, ne, ty) in [
        ("", &[1][..], GgmlType::F32),
        ("t", &[], GgmlType::F32),
        ("t", &[1, 1, 1, 1, 1], GgmlType::F32),
        ("t", &[4, 0], GgmlType::F32),
        ("t", &[33], GgmlType::Q8_0),
        ("t", &[1 << 62, 4], GgmlType::F32),
        (&"n".repeat(64), &[1], GgmlType::F32),
    ] {
        assert!(writer.tensor(name, ne, ty).is_err(), "{name:?} {ne:?} {ty}");
    }
    writer.tensor("t", &[4], GgmlType::F32).unwrap();
    let short = writer.write(&mut Vec::new(), |_, to| to.write_all(&[0; 15]));
    let text = short.unwrap_err().to_string();
    assert_eq!(text, "tensor t: expected 16 bytes, the callback wrote 15");
}

#[test]
fn a_blob_only_gives_what_it_has() {
    let blob = Blob::from(vec![0, 1, 2, 3, 4]);
    let inner = blob.slice(1..4).unwrap();
    assert_eq!(&*inner, [1, 2, 3]);
    assert_eq!(&*inner.slice(2..3).unwrap(), [3]);
    assert!(inner.slice(2..4).is_none(), "no way back to the rest");
    assert!(inner.slice(4..4).is_none() && inner.slice(3..3).is_some());
    #[allow(clippy::reversed_empty_ranges, reason = "what a caller's bad arithmetic makes")]
    let reversed = inner.slice(2..1);
    assert!(reversed.is_none());
    assert!(inner.slice(1..usize::MAX).is_none());
    let gguf = Gguf::from_static("inside", b"GGUF").unwrap_err();
    assert!(gguf.to_string().starts_with("inside: "));
}
