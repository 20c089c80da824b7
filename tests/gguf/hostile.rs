//! Files that lie: each has one fault, each is refused with a text that names it, none costs memory
//! or time.

use std::time::{Duration, Instant};

use pantheon::gguf::{GgufError, Place};

use crate::raw::{
    Raw, array_key, base, info, info_with_rank, key, open, str_key, string, with_infos, with_keys,
};

/// Refused within a second, blaming tensor `t`.
#[track_caller]
fn blames_tensor(raw: &Raw, expected: &str) {
    let start = Instant::now();
    let error = raw.refusal();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(error.place, Place::Tensor("t".to_owned()), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[track_caller]
fn says(error: &GgufError, parts: &[&str]) {
    let text = error.to_string();
    parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text:?}"));
}

#[test]
fn ranks_and_zero_dimensions() {
    let five = with_infos(vec![info("t", &[2; 5], 0, 0)]);
    assert_eq!(five.bytes().len(), 288);
    blames_tensor(&five, "expected 1 to 4 dimensions, found 5");
    for rank in [0, 9, u32::MAX] {
        let raw = with_infos(vec![info_with_rank("t", rank, &[32], 0, 0)]);
        blames_tensor(&raw, &format!("found {rank}"));
    }
    for ne in [&[32, 0][..], &[0], &[0, 32], &[1, 1, 1, 0], &[0, 0, 0, 0]] {
        let raw = with_infos(vec![info("t", ne, 0, 0)]);
        blames_tensor(&raw, "expected dimensions of at least 1");
    }
    assert!(with_infos(vec![info("t", &[2, 2, 2, 4], 0, 0)]).open().is_ok(), "rank 4 is fine");
}

#[test]
fn sizes_that_wrap_round() {
    let wraps = [
        (&[1 << 62, 4][..], 0),
        (&[u64::MAX, 2], 0),
        (&[1 << 32, 1 << 32], 0),
        (&[1 << 16, 1 << 16, 1 << 16, 1 << 16], 0),
        (&[1 << 62], 0),
        (&[u64::MAX], 24),
        (&[1 << 63], 24),
        (&[1 << 60, 15], 8),
    ];
    for (ne, ty) in wraps {
        blames_tensor(&with_infos(vec![info("t", ne, ty, 0)]), "fits 63 bits");
    }
    let large = with_infos(vec![info("t", &[1 << 40, 1 << 20], 0, 0)]);
    blames_tensor(&large, &format!("offset 0 + size {}, beyond the file", 1u64 << 62));
}

#[test]
fn rows_that_are_no_whole_blocks() {
    for (n, ty, name) in [(33, 8, "q8_0"), (255, 12, "q4_K"), (1, 39, "mxfp4"), (96, 40, "nvfp4")] {
        let raw = with_infos(vec![info("t", &[n], ty, 0)]);
        blames_tensor(&raw, &format!("values for type {name}, found rows of {n}"));
    }
}

#[test]
fn types_nobody_can_read() {
    for removed in [4, 5, 31, 32, 33, 36, 37, 38] {
        blames_tensor(&with_infos(vec![info("t", &[32], removed, 0)]), "removed");
    }
    for fork in [97, 137, 230] {
        blames_tensor(&with_infos(vec![info("t", &[32], fork, 0)]), "fork");
    }
    for unknown in [43, 9999, u32::MAX] {
        let raw = with_infos(vec![info("t", &[32], unknown, 0)]);
        blames_tensor(&raw, &format!("type id {unknown}"));
    }
}

#[test]
fn data_outside_the_file() {
    for (offset, expected) in [
        (1 << 20, "offset 1048576 + size 128, beyond the file"),
        (u64::MAX - 31, "offset 18446744073709551584 + size 128, beyond the file"),
        (1, "a multiple of the alignment 32, found 1"),
        (32, "within the 128 bytes of data"),
        (1 << 63, "beyond the file"),
    ] {
        blames_tensor(&with_infos(vec![info("t", &[32], 0, offset)]), expected);
    }
    for length in [144, 129, 255, 160] {
        let error = open(base().bytes()[..length].to_vec()).unwrap_err();
        assert!(!error.to_string().is_empty());
        if length >= 128 {
            says(&error, &["tensor \"t\"", "offset 0 + size 128, beyond the file"]);
        }
    }
}

#[test]
fn tensors_on_top_of_each_other() {
    let overlap = |second: u64| {
        let mut raw = with_infos(vec![info("a", &[32], 0, 32), info("t", &[16], 0, second)]);
        raw.data = 256;
        raw
    };
    for second in [32, 64, 128, 0] {
        let mut raw = overlap(second);
        if second == 0 {
            raw.infos.swap(0, 1);
            let error = raw.refusal();
            says(&error, &["tensor \"a\"", "overlapping data at 32", "where \"t\" ends"]);
        } else {
            blames_tensor(&raw, "where \"a\" ends");
        }
    }
    assert!(overlap(160).open().is_ok(), "touching is fine");
}

#[test]
fn starts_that_are_no_gguf() {
    let with = |version: u32| Raw { version, ..base() }.refusal();
    says(&with(1), &["version 1", "obsolete"]);
    says(&with(99), &["version 99", "newer than this program"]);
    says(&with(0), &["version 0"]);
    says(&with(4), &["version 4"]);
    says(&with(3u32.swap_bytes()), &["big-endian", "convert it to little-endian"]);
    says(&with(2u32.swap_bytes()), &["big-endian"]);
    says(&Raw { magic: *b"FUGG", ..base() }.refusal(), &["big-endian"]);
    says(&Raw { magic: *b"ggjt", ..base() }.refusal(), &["older than GGUF"]);
    says(&Raw { magic: *b"vers", ..base() }.refusal(), &["git lfs pull"]);
    says(&Raw { magic: *b"PK\x03\x04", ..base() }.refusal(), &["zip"]);
    says(&Raw { magic: *b"\x1b[2J", ..base() }.refusal(), &[r"\x1b[2J"]);
    for length in 0..24 {
        let error = open(base().bytes()[..length].to_vec()).unwrap_err();
        assert_eq!(error.place, Place::Header, "{length} bytes");
    }
}

#[test]
fn files_that_cannot_be_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |name: &str| {
        let path = dir.path().join(name);
        let error = pantheon::gguf::Gguf::open(&path).unwrap_err();
        assert_eq!(error.file, path.display().to_string());
        assert_eq!(error.place, Place::File);
        error
    };
    std::fs::write(dir.path().join("empty.gguf"), []).unwrap();
    says(&refusal("empty.gguf"), &["an empty file"]);
    says(&refusal("absent.gguf"), &["expected a readable file", "check the path"]);
    std::fs::create_dir(dir.path().join("folder.gguf")).unwrap();
    says(&refusal("folder.gguf"), &["not a regular file"]);
}

#[test]
fn names_used_twice_or_not_at_all() {
    let twice = with_infos(vec![info("t", &[8], 0, 0), info("t", &[8], 0, 32)]);
    blames_tensor(&twice, "each tensor once");
    let keys = with_keys(vec![str_key("k", "a"), str_key("k", "b")]).refusal();
    says(&keys, &["key \"k\"", "each key once"]);
    says(&with_keys(vec![str_key("", "a")]).refusal(), &["key 1 of 1", "found 0 bytes"]);
    let nameless = with_infos(vec![info("", &[32], 0, 0)]).refusal();
    says(&nameless, &["tensor 1 of 1", "found 0 bytes"]);
    let long = with_infos(vec![info(&"n".repeat(64), &[32], 0, 0)]).refusal();
    says(&long, &["1 to 63 bytes", "found 64 bytes"]);
    let long = with_keys(vec![str_key(&"k".repeat(65536), "a")]).refusal();
    says(&long, &["1 to 65535 bytes"]);
}

#[test]
fn values_that_are_none() {
    let one = |k: Vec<u8>| with_keys(vec![k]).refusal();
    says(&one(key("k", 13, &[0; 8])), &["key \"k\"", "a value type from 0 to 12, found 13"]);
    says(&one(key("k", u32::MAX, &[])), &["found 4294967295"]);
    says(&one(key("k", 7, &[2])), &["a bool of 0 or 1, found 2"]);
    says(&one(array_key("k", 7, 2, &[1, 9])), &["a bool of 0 or 1, found 9"]);
    says(&one(array_key("k", 13, 0, &[])), &["an element type from 0 to 12"]);
    let latin1 = [&4u64.to_le_bytes()[..], b"caf\xe9"].concat();
    says(&one(key("k", 8, &latin1)), &["key \"k\"", "string value in UTF-8"]);
    says(&one(array_key("k", 8, 1, &latin1)), &["array element in UTF-8"]);
    let mut name = key("????", 0, &[1]);
    name[8..12].copy_from_slice(b"\xff\xfe\xfd\xfc");
    says(&one(name), &["header", "name of key 1 of 1 in UTF-8"]);
}

#[test]
fn arrays_of_arrays_however_deep() {
    let mut nested = Vec::new();
    for _ in 0..200_000 {
        nested.extend(9u32.to_le_bytes());
        nested.extend(1u64.to_le_bytes());
    }
    let raw = with_keys(vec![key("k", 9, &nested)]);
    says(&raw.refusal(), &["key \"k\"", "nested arrays"]);
}

#[test]
fn alignments_that_are_none() {
    let with = |ty: u32, bytes: &[u8]| with_keys(vec![key("general.alignment", ty, bytes)]);
    for bad in [0u32, 3, 33, u32::MAX] {
        let error = with(4, &bad.to_le_bytes()).refusal();
        says(&error, &["key \"general.alignment\"", "a power of two", &format!("found {bad}")]);
    }
    with(10, &(1u64 << 63).to_le_bytes()).refusal();
    with(5, &(-32i32).to_le_bytes()).refusal();
    with(8, &string("32")).refusal();
    with(6, &32f32.to_le_bytes()).refusal();
    let page = with(4, &(1u32 << 31).to_le_bytes()).refusal();
    says(&page, &["tensor \"t\"", "within the 0 bytes of data"]);
}

/// Every count and length in the format, set to values that would overflow, or exhaust memory.
#[test]
fn counts_and_lengths_beyond_the_file() {
    let before = virtual_peak();
    for huge in [1 << 63, u64::MAX, 1 << 62, 1 << 61, 1 << 40, 1 << 33, 1 << 31, 300] {
        let count = &format!("found {huge}");
        let n_keys = Raw { n_keys: Some(huge), ..base() }.refusal();
        says(&n_keys, &["header", "keys in the 232 bytes left", count]);
        let n_tensors = Raw { n_tensors: Some(huge), ..base() }.refusal();
        says(&n_tensors, &["header", "tensors", count]);

        let length = huge.to_le_bytes();
        let value = with_keys(vec![key("k", 8, &length)]).refusal();
        says(&value, &["key \"k\"", &format!("string value of {huge} bytes")]);
        let element = with_keys(vec![array_key("k", 8, 1, &length)]).refusal();
        says(&element, &["key \"k\"", &format!("array element of {huge} bytes")]);
        for item in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12] {
            let array = with_keys(vec![array_key("k", item, huge, &[])]).refusal();
            says(&array, &["key \"k\"", "bytes left", count]);
        }
        let name = with_keys(vec![length.to_vec()]).refusal();
        says(&name, &["header", &format!("name of key 1 of 1 of {huge} bytes")]);
        let name = with_infos(vec![[&length[..], &[0; 32]].concat()]).refusal();
        says(&name, &["header", &format!("name of tensor 1 of 1 of {huge} bytes")]);
    }
    if let (Some(before), Some(after)) = (before, virtual_peak()) {
        // The smallest of the large counts above would reserve at least 8 GiB.
        assert!(after - before < 4 << 30, "reserved {} bytes", after - before);
    }
}

/// Largest size of this process's address space so far, where the system tells.
fn virtual_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmPeak:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn names_cannot_garble_a_terminal() {
    let error = with_infos(vec![info("\x1b[31m\n\u{202e}", &[0], 0, 0)]).refusal().to_string();
    assert!(!error.chars().any(|c| c.is_control() || c == '\u{202e}'), "{error:?}");
    let long = with_keys(vec![key(&"ü".repeat(5000), 99, &[])]).refusal().to_string();
    assert!(long.len() < 1000, "{} bytes", long.len());
}
