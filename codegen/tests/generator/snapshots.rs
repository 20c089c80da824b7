//! The plan and the Rust of every shape, as text.

use pantheon_codegen::generate;

use super::{LISTS, read};

/// Generates a list and snapshots the files of one of its models. The list's hash is left out, so
/// that a changed comment changes no snapshot.
fn snapshot(list: &str, folder: &str) {
    let files = generate(&read(list), "model.toml").expect("shipped lists are valid");
    let hash = hash_of(&files[0].text);
    let mut seen = 0;
    for file in files.iter().filter(|file| file.path.starts_with(&format!("{folder}/"))) {
        let name = file.path.replace('/', "__");
        insta::assert_snapshot!(name, file.text.replace(&hash, "[hash]"));
        seen += 1;
    }
    assert_eq!(seen, 6, "the plan and five Rust files of {folder}");
}

/// The eight digits of a generated header.
fn hash_of(text: &str) -> String {
    let (_, rest) = text.split_once("model.toml (").expect("a header");
    rest[..8].to_owned()
}

#[test]
fn nex_n2_mini() {
    snapshot(LISTS[0], "nex_n2_mini");
}

#[test]
fn tiny() {
    snapshot(LISTS[0], "tiny");
}

#[test]
fn odd() {
    snapshot(LISTS[0], "odd");
}

#[test]
fn qwen_122b() {
    snapshot(LISTS[2], "qwen3_5_122b_a10b");
}

#[test]
fn qwen_397b() {
    snapshot(LISTS[3], "qwen3_5_397b_a17b");
}

#[test]
fn the_file_that_declares_the_models() {
    let files = generate(&read(LISTS[0]), "model.toml").expect("shipped lists are valid");
    let file = files.iter().find(|file| file.path == "models.rs").expect("the registry");
    let hash = hash_of(&file.text);
    insta::assert_snapshot!("models", file.text.replace(&hash, "[hash]"));
}
