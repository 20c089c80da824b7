//! Models in several files.

use std::path::{Path, PathBuf};

use pantheon::gguf::{Blob, Gguf, GgufError, Writer};
use pantheon::quant::GgmlType;
use tempfile::TempDir;

const NAMES: [&str; 3] =
    ["model-00001-of-00003.gguf", "model-00002-of-00003.gguf", "model-00003-of-00003.gguf"];

/// Three parts with 0, 2 and 1 tensors; each can be changed before it is written.
struct Parts {
    dir: TempDir,
    writers: [Writer; 3],
}

/// A part's keys as converters write them: u16, u16, i32.
fn part(number: u16, tensors: &[&str]) -> Writer {
    let mut writer = Writer::new();
    writer.key("split.no", number).key("split.count", 3u16).key("split.tensors.count", 3i32);
    for name in tensors {
        writer.tensor(name, &[6], GgmlType::F32).unwrap();
    }
    writer
}

impl Parts {
    fn new() -> Self {
        let mut first = part(0, &[]);
        first.key("general.architecture", "qwen35moe");
        let writers = [first, part(1, &["a", "b"]), part(2, &["c"])];
        Self { dir: tempfile::tempdir().unwrap(), writers }
    }

    fn path(&self, index: usize) -> PathBuf {
        self.dir.path().join(NAMES[index])
    }

    fn write(&self) {
        for (i, writer) in self.writers.iter().enumerate() {
            write(writer, &self.path(i), i as u8 + 1);
        }
    }

    /// The error of opening the first part, after writing all.
    #[track_caller]
    fn refusal(&self) -> GgufError {
        self.write();
        Gguf::open(&self.path(0)).expect_err("the parts must be refused")
    }
}

fn write(writer: &Writer, path: &Path, fill: u8) {
    let mut file = std::fs::File::create(path).unwrap();
    writer.write(&mut file, |t, to| to.write_all(&vec![fill; t.bytes as usize])).unwrap();
}

#[track_caller]
fn says(error: &GgufError, expected: &[&str]) {
    let text = error.to_string();
    expected.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text:?}"));
}

#[test]
fn all_parts_are_one_model() {
    let parts = Parts::new();
    parts.write();
    let gguf = Gguf::open(&parts.path(0)).unwrap();
    let seen: Vec<_> =
        gguf.tensors().iter().map(|t| (t.name.as_str(), t.part, t.data[0])).collect();
    assert_eq!(seen, [("a", 1, 2), ("b", 1, 2), ("c", 2, 3)]);
    assert_eq!(gguf.parts().len(), 3);
    let sizes = (0..3).map(|i| parts.path(i).metadata().unwrap().len());
    assert_eq!(gguf.file_bytes(), sizes.sum::<u64>());
    assert_eq!(gguf.str("general.architecture").unwrap(), Some("qwen35moe"));
}

#[test]
fn a_later_part_says_which_to_open() {
    let parts = Parts::new();
    parts.write();
    for index in [1, 2] {
        let error = Gguf::open(&parts.path(index)).unwrap_err();
        let first = parts.path(0).display().to_string();
        says(&error, &[&format!("part {} of 3", index + 1), &format!("open {first}")]);
    }
    let odd = parts.dir.path().join("-日本語-of-00003.gguf");
    std::fs::rename(parts.path(1), &odd).unwrap();
    says(&Gguf::open(&odd).unwrap_err(), &["part 2 of 3", "ends in -00001-of-"]);
}

#[test]
fn a_missing_part_is_named() {
    for index in [1, 2] {
        let parts = Parts::new();
        parts.write();
        std::fs::remove_file(parts.path(index)).unwrap();
        let error = Gguf::open(&parts.path(0)).unwrap_err();
        says(
            &error,
            &["all 3 parts", NAMES[index], &format!("add {}", parts.path(index).display())],
        );
    }
}

#[test]
fn renamed_parts_cannot_find_each_other() {
    let parts = Parts::new();
    parts.write();
    for name in ["mine.gguf", "model-00001-of-00004.gguf", "model-1-of-3.gguf", "x.gguf", "日本"]
    {
        let path = parts.dir.path().join(name);
        std::fs::copy(parts.path(0), &path).unwrap();
        says(&Gguf::open(&path).unwrap_err(), &["-00001-of-00003.gguf", name]);
    }
}

#[test]
fn parts_of_different_models_do_not_mix() {
    let mut parts = Parts::new();
    parts.writers[1] = part(2, &["a", "b"]);
    says(&parts.refusal(), &[NAMES[1], "split.no", "expected 1, found 2"]);

    let mut parts = Parts::new();
    parts.writers[2] = Writer::new();
    says(&parts.refusal(), &[NAMES[2], "split.no", "no such key"]);

    let mut parts = Parts::new();
    parts.writers[2] = part(2, &["b"]);
    says(&parts.refusal(), &[NAMES[2], "tensor \"b\"", NAMES[1]]);

    let mut parts = Parts::new();
    parts.writers[2] = part(2, &["c", "d"]);
    says(&parts.refusal(), &["split.tensors.count", "3 tensors in all parts, found 4"]);
}

#[test]
fn a_damaged_part_is_blamed_itself() {
    let parts = Parts::new();
    parts.write();
    std::fs::write(parts.path(1), b"GGUF").unwrap();
    let error = Gguf::open(&parts.path(0)).unwrap_err();
    assert_eq!(error.file, parts.path(1).display().to_string());
    std::fs::write(parts.path(1), b"").unwrap();
    says(&Gguf::open(&parts.path(0)).unwrap_err(), &[NAMES[1], "an empty file"]);
}

#[test]
fn counts_that_mean_one_file_and_counts_that_mean_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any-name.gguf");
    for count in [0u16, 1] {
        let mut writer = Writer::new();
        writer.key("split.no", 0u16).key("split.count", count);
        write(&writer, &path, 0);
        assert!(Gguf::open(&path).is_ok(), "split.count {count}");
    }
    for count in [2u64, 1 << 32, u64::MAX] {
        for number in [0u64, 1, u64::MAX] {
            let mut writer = Writer::new();
            writer.key("split.no", number).key("split.count", count);
            write(&writer, &path, 0);
            assert!(Gguf::open(&path).is_err(), "part {number} of {count}");
        }
    }
    let mut writer = Writer::new();
    writer.key("split.count", "three");
    write(&writer, &path, 0);
    says(&Gguf::open(&path).unwrap_err(), &["split.count", "three"]);
}

#[test]
fn one_part_in_memory_is_not_a_model() {
    let mut bytes = Vec::new();
    part(0, &[]).write(&mut bytes, |_, _| Ok(())).unwrap();
    let error = Gguf::from_blob("embedded", &Blob::from(bytes)).unwrap_err();
    says(&error, &["embedded", "split.count", "first of 3 parts", "by its path"]);
}
