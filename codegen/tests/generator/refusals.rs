//! What is refused, and in which words.

use pantheon_codegen::{parse, to_toml_entry};

use super::{model, models, read};

#[test]
fn every_mistake_has_its_message() {
    insta::glob!("../../../tests/models/bad", "*.toml", |path| {
        let text = std::fs::read_to_string(path).expect("a readable file");
        let errors = parse(&text, "model.toml").expect_err("a list with a mistake");
        insta::assert_snapshot!(errors.to_string());
    });
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = read("model.toml")
        .replace("expert_used_count = 8", "expert_used_count = 300")
        .replace("ssm.group_count = 2 ", "ssm.group_count = 5 ")
        .replace("vocab_size = 320 ", "vocabulary = 320 ");
    let errors = parse(&text, "model.toml").expect_err("four mistakes");
    let places: Vec<&str> = errors.problems.iter().map(|p| p.place.as_str()).collect();
    let expected = [
        "nex-n2-mini: expert_used_count",
        "tiny: ssm.time_step_rank",
        "odd: vocab_size",
        "odd: vocabulary",
        "odd: ssm.time_step_rank",
    ];
    assert_eq!(places, expected, "{errors}");
    assert!(errors.problems.is_sorted_by_key(|problem| problem.line));
}

#[test]
fn a_written_entry_reads_back_as_the_same_model() {
    for spec in models() {
        assert_eq!(parse(&to_toml_entry(&spec), "entry"), Ok(vec![spec]));
    }
}

#[test]
fn type_combinations_survive_being_written() {
    let entry = to_toml_entry(&model("tiny"))
        + "mixes.attn_project = [\"q4_K+q8_0+q8_0\", \"q4_K+q4_K+q6_K\"]\n\
           mixes.gdn_output = [\"q4_K\"]\n";
    let specs = parse(&entry, "entry").expect("three combinations");
    assert_eq!(specs[0].mixes.len(), 3);
    assert_eq!(parse(&to_toml_entry(&specs[0]), "entry"), Ok(specs));
}

#[test]
fn arbitrary_text_is_never_a_panic() {
    let text = read("model.toml");
    for cut in (0..text.len()).step_by(37) {
        let _ = parse(&text[..cut], "cut");
        let _ = parse(&text[cut..], "cut");
    }
    for value in ["-1", "1.5", "\"8\"", "[]", "{}", "true", "99999999999999999999", "0x100", "inf"]
    {
        let _ = parse(&text.replace("256 ", &format!("{value} ")), "value");
    }
}
