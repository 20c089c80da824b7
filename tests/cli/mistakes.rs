//! Wrong use: refused with exit code 2 before any work, with the flag, what it was given, and what it
//! takes.

use pantheon::gguf::{Value, Writer};

use super::{assert_fails, assert_says, demo, in_dir, json, run, run_with_input, stdout};

/// Every flag that takes a number, with a value that it refuses and a word of the reason.
#[test]
fn numbers_out_of_range_are_refused_by_their_flag() {
    let text = ["-f", file!()];
    for (command, more, flags) in [
        ("generate", &["x"][..], &["--ctx", "-n", "-t"][..]),
        ("chat", &[], &["--ctx", "-n", "-t"]),
        ("perplexity", &text, &["--ctx", "--chunks", "-t"]),
        ("logits", &["ids.json", "out.npy"], &["--chunk", "-t"]),
        ("bench", &[], &["-p", "-n", "-d", "-r", "-t", "--batch"]),
        ("plan", &[], &["--bandwidth"]),
        ("synth", &["--model", "odd", "--quant", "q8_0", "-o", "x"], &["--seed", "-t"]),
    ] {
        for flag in flags {
            for bad in ["-5", "-inf", "nan", "x", "1.5.", "--", ""] {
                if (*flag, bad) != ("--batch", "") {
                    let output = run(&[&[command, flag, bad], more].concat());
                    assert_fails(&output, 2, &[&format!("'{bad}'"), flag, "expected "]);
                }
            }
        }
    }
    for flag in ["--temp", "--top-p", "--min-p", "--presence-penalty", "--repeat-penalty"] {
        for bad in ["-5", "inf", "-inf", "NaN", "1e4", "x", ""] {
            let output = run(&["generate", flag, bad, "x"]);
            assert_fails(&output, 2, &[&format!("'{bad}'"), flag, "a number from "]);
        }
    }
    for bad in ["0", "1e-38", "0.009"] {
        let output = run(&["chat", "--repeat-penalty", bad]);
        assert_fails(&output, 2, &["--repeat-penalty", bad, "from 0.01 to 100"]);
    }
    let output = run(&["generate", "--ctx", "-5", "x"]);
    assert_fails(&output, 2, &["--ctx", "a whole number of at least 0"]);
    assert_fails(&run(&["generate", "--top-k", "many", "x"]), 2, &["--top-k", "a whole number"]);
    assert_fails(&run(&["generate", "--seed", "-2", "x"]), 2, &["--seed", "-1 for a new seed"]);
    assert_fails(&run(&["generate", "-t", "100000", "x"]), 2, &["-t", "100000", "for each core"]);
    assert_fails(&run(&["logits", "--chunk", "513", "a", "b"]), 2, &["--chunk", "1 to 512"]);
    assert_fails(&run(&["plan", "--bandwidth", "0"]), 2, &["--bandwidth", "positive"]);
    for bad in ["0", "-2"] {
        let output = run(&[&["perplexity", "--chunks", bad][..], &text].concat());
        assert_fails(&output, 2, &["--chunks", "at least 1, or -1 for all"]);
    }
}

#[test]
fn bench_names_its_own_flags() {
    assert_fails(&run(&["bench", "--batch", "1,600"]), 2, &["--batch 600", "1 to 512"]);
    assert_fails(&run(&["bench", "-r", "1000000000"]), 2, &["--runs", "from 1 to 1000"]);
    for (flag, tokens) in [("-p", "300000"), ("-n", "18446744073709551615"), ("-d", "262000")] {
        assert_fails(&run(&["bench", flag, tokens]), 2, &["-d, -p and -n", "at most 262144"]);
    }
}

#[test]
fn names_that_cannot_be_are_refused_by_their_flag() {
    for bad in ["No good", "", "-x", "match", "model", "9b", "snow☃", &"x".repeat(65)] {
        let output = run(&["configure", demo(), "--name", bad]);
        assert_fails(&output, 2, &[&format!("'{bad}'"), "--name", "a letter first"]);
    }
    for command in ["tokenize", "generate"] {
        let output = run(&[command, "--pre", "nope", "x"]);
        assert_fails(&output, 2, &["'nope'", "--pre", "qwen35", "qwen2"]);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("tokenizer.ggml"), "{output:?}");
    }
}

#[test]
fn a_prompt_may_begin_with_a_dash_unless_it_looks_like_an_option() {
    let common = ["generate", "--json", "--raw", "-n", "1", "--ctx", "64"];
    let ids = |words: &[&str]| json(&run(&[&common[..], words].concat()))["prompt_ids"].to_string();
    for text in ["-5", "-5 is", "- one\n- two", "-.5x"] {
        let expected = stdout(&run(&["tokenize", text]));
        for words in [&[text][..], &[text, "-t", "1"], &["--", text], &["-t", "1", "--", text]] {
            assert_eq!(ids(words) + "\n", expected, "{words:?}");
        }
    }
    assert_eq!(ids(&["--", "--json"]) + "\n", stdout(&run(&["tokenize", "--", "--json"])));
    assert_fails(&run(&["generate", "--nonsense"]), 2, &["--nonsense"]);
    assert_fails(&run(&["generate", "-5 is", "--nonsense"]), 2, &["--nonsense"]);
    for words in [&["--jsn", "x"][..], &["-n", "-1", "--jsn"], &["--jsn", "-5 is"]] {
        let output = run(&[&["generate"], words].concat());
        assert_fails(&output, 2, &["--jsn", "similar argument", "--json"]);
    }
    assert!(stdout(&run(&["generate", "--help"])).contains("`--`"));
    assert_fails(&run(&["detokenize", "-5"]), 1, &["token ids"]);
}

#[test]
fn errors_say_that_standard_input_was_read() {
    let name = ["standard input"];
    assert_fails(&run_with_input(&["perplexity", "-f", "-"], "Too short."), 1, &name);
    assert_fails(&run_with_input(&["logits", "-", "out.npy"], "[]"), 2, &name);
    assert_fails(&run_with_input(&["logits", "-", "out.npy"], "one"), 1, &name);
    assert_fails(&run_with_input(&["generate", "--tokens", "-"], "{}"), 1, &name);
}

/// Writes the demo model's header with one key changed, left out where `value` is none.
fn demo_with(path: &str, key: &str, value: Option<Value>) {
    let demo = pantheon::gguf::Gguf::open(demo().as_ref()).unwrap();
    let mut writer = Writer::new();
    for (name, kept) in demo.metadata().filter(|(name, _)| *name != key) {
        writer.key(name, kept.clone());
    }
    if let Some(value) = value {
        writer.key(key, value);
    }
    for tensor in demo.tensors() {
        writer.tensor(&tensor.name, &tensor.ne, tensor.ty).unwrap();
    }
    let mut tensors = demo.tensors().iter();
    let mut file = std::fs::File::create(path).unwrap();
    let data = |_: &_, out: &mut dyn std::io::Write| out.write_all(&tensors.next().unwrap().data);
    writer.write(&mut file, data).unwrap();
}

#[test]
fn a_file_with_useless_sampling_values_is_refused_by_key() {
    let dir = tempfile::tempdir().unwrap();
    let model = in_dir(dir.path(), "m.gguf");
    for (key, bad, range) in [
        ("penalty_repeat", 1e-38, "from 0.01 to 100"),
        ("penalty_repeat", f32::NAN, "from 0.01 to 100"),
        ("temp", f32::INFINITY, "from 0 to 1000"),
        ("top_p", -0.5, "from 0 to 1"),
        ("min_p", 2.0, "from 0 to 1"),
    ] {
        let key = format!("general.sampling.{key}");
        demo_with(&model, &key, Some(bad.into()));
        assert_fails(&run(&["generate", "-m", &model, "x"]), 1, &["m.gguf", &key, range]);
    }
}

#[test]
fn token_types_must_be_as_many_as_tokens_and_their_absence_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let model = in_dir(dir.path(), "m.gguf");
    let key = "tokenizer.ggml.token_type";
    for types in [vec![], vec![1i32], vec![1; 100_000]] {
        let found = format!("found {}", types.len());
        demo_with(&model, key, Some(types.into()));
        assert_fails(&run(&["tokenize", "-m", &model, "x"]), 1, &[key, "one per token", &found]);
    }
    demo_with(&model, key, None);
    let output = run(&["tokenize", "-m", &model, "x"]);
    assert_says(&output, &format!("warning: no `{key}`"));
    stdout(&output);
}

#[test]
fn a_conversation_with_an_unknown_role_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_dir(dir.path(), "talk.json");
    for (role, loads) in [("user", true), ("tool", true), ("robot", false), ("", false)] {
        let messages = [("user", "Hi"), (role, "Hello")]
            .map(|(role, content)| serde_json::json!({ "role": role, "content": content }));
        std::fs::write(&file, serde_json::json!({ "messages": messages }).to_string()).unwrap();
        let output = run_with_input(&["chat"], &format!("/load {file}\n/stats\n"));
        if loads {
            assert_says(&output, "2 messages");
            continue;
        }
        assert_says(&output, "messages[1].role: expected one of system, user");
        assert_says(&output, &format!("found {role:?}"));
        assert_says(&output, "0 messages");
    }
}
