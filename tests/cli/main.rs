//! The `pantheon` program as its users meet it: exit codes, what goes to stdout and what to stderr,
//! files.

#[cfg(target_os = "linux")]
mod interrupts;
mod mistakes;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A command with a clean environment.
fn pantheon(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantheon"));
    command.args(args).env_remove("QWEN35_MAX_SEQ").env_remove("PANTHEON_MODEL_TOML");
    command
}

fn run(args: &[&str]) -> Output {
    pantheon(args).stdin(Stdio::null()).output().unwrap()
}

fn run_with_input(args: &[&str], input: &str) -> Output {
    let mut child = pantheon(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Checks that a command failed with `code`, printed nothing, and said all of `words`.
#[track_caller]
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in: {stderr}");
    }
}

/// Checks that a command said something beside its result.
#[track_caller]
fn assert_says(output: &Output, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(words), "no {words:?} in: {stderr}");
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

/// The demo model, as a file that a user could have.
fn demo() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-q4_k_m.gguf")
}

fn in_dir(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn help_and_version_are_results() {
    assert!(stdout(&run(&["--version"])).starts_with("pantheon "));
    for command in ["generate", "chat", "tokenize", "logits", "perplexity", "bench", "synth"] {
        let help = stdout(&run(&[command, "--help"]));
        assert!(help.contains("Examples:"), "{command}: {help}");
    }
    assert!(stdout(&run(&["completions", "bash"])).contains("_pantheon"));
}

#[test]
fn wrong_use_is_2_and_failure_is_1() {
    assert_fails(&run(&[]), 2, &["Usage"]);
    assert_fails(&run(&["generate", "--nonsense"]), 2, &["--nonsense"]);
    assert_fails(&run(&["generate", "-m", demo()]), 2, &["no prompt", "-f FILE", "stdin"]);
    assert_fails(&run(&["generate", ""]), 2, &["empty"]);
    assert_fails(&run(&["generate", "--kv", "q3", "x"]), 2, &["q3", "f16"]);
    assert_fails(&run(&["generate", "--stop", "", "x"]), 2, &["--stop"]);
    assert_fails(&run(&["generate", "--raw", "--system", "s", "x"]), 2, &["--system"]);
    assert_fails(&run(&["generate", "-m", "/no/such.gguf", "x"]), 1, &["/no/such.gguf"]);
    assert_fails(&run(&["inspect", file!()]), 1, &["main.rs", "GGUF"]);
    let long = "word ".repeat(40);
    assert_fails(&run(&["generate", "--ctx", "32", &long]), 1, &["32", "--ctx"]);
}

#[test]
fn the_context_variable_is_a_default_that_is_checked() {
    let with = |value: &str, args: &[&str]| {
        let mut command = pantheon(args);
        command.env("QWEN35_MAX_SEQ", value).stdin(Stdio::null()).output().unwrap()
    };
    assert_fails(&with("4k", &["generate"]), 2, &["QWEN35_MAX_SEQ", "4k", "262144"]);
    stdout(&with("", &["generate", "-n", "1"]));
    let clamped = with("1000000000", &["generate", "-n", "1", "--ctx", "64"]);
    assert!(
        clamped.status.success() && !String::from_utf8_lossy(&clamped.stderr).contains("QWEN35")
    );
    let clamped = with("3", &["generate", "--raw", "-n", "1", "x"]);
    assert!(String::from_utf8_lossy(&clamped.stderr).contains("QWEN35_MAX_SEQ is 3"));
    stdout(&clamped);
}

#[test]
fn generate_without_a_prompt_tells_a_story_to_stdout_only() {
    let output = run(&["generate", "-n", "30", "--seed", "5"]);
    let story = stdout(&output);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(story.split_whitespace().count() > 10 && story.ends_with('\n'), "{story}");
    assert!(stderr.contains("seed 5") && stderr.contains("tokens/s"), "{stderr}");
    assert!(!stderr.contains(story.split_whitespace().nth(3).unwrap()), "{stderr}");
    assert_eq!(stdout(&run(&["generate", "-n", "30", "-s", "5", "-t", "1"])), story);
    let other = stdout(&run(&["generate", "-n", "30", "-s", "6"]));
    assert_ne!(other, story, "another seed tells another story");
}

#[test]
fn generate_json_is_one_object_that_adds_up() {
    let object = json(&run(&["generate", "--json", "-n", "12", "--temp", "0"]));
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["prompt_ids", "ids", "text", "reasoning", "finish_reason", "timings"]);
    assert_eq!(object["ids"].as_array().unwrap().len(), 12);
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["reasoning"], Value::Null);
    assert_eq!(object["timings"]["predicted_n"], 12);
    let prompt = object["prompt_ids"].as_array().unwrap();
    assert_eq!(object["timings"]["prompt_n"], prompt.len());
    let text = stdout(&run(&["detokenize", &object["ids"].to_string()]));
    assert_eq!(object["text"], text);
    // The same prompt as ids gives the same answer.
    let dir = tempfile::tempdir().unwrap();
    let tokens = in_dir(dir.path(), "ids.json");
    std::fs::write(&tokens, object["prompt_ids"].to_string()).unwrap();
    let again = ["generate", "--json", "-n", "12", "--temp", "0", "--tokens", &tokens];
    assert_eq!(json(&run(&again))["ids"], object["ids"]);
    // A stop text ends the answer before itself.
    let word = text.split_whitespace().nth(2).unwrap();
    let stopped = json(&run(&["generate", "--json", "--temp", "0", "--stop", word]));
    assert_eq!(stopped["finish_reason"], "stop");
    assert_eq!(stopped["text"].as_str().unwrap(), &text[..text.find(word).unwrap()]);
}

#[test]
fn prompts_come_from_arguments_files_and_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_dir(dir.path(), "prompt.txt");
    std::fs::write(&file, "Once upon a time\n").unwrap();
    let common = ["generate", "--json", "--raw", "-n", "4", "--temp", "0", "--ctx", "64"];
    let ids = |output: Output| json(&output)["prompt_ids"].clone();
    let given = ids(run(&[&common[..], &["Once upon a time"]].concat()));
    assert_eq!(given.to_string() + "\n", stdout(&run(&["tokenize", "Once upon a time"])));
    assert_eq!(ids(run(&[&common[..], &["-f", &file]].concat())), given);
    assert_eq!(ids(run_with_input(&[&common[..], &["-"]].concat(), "Once upon a time\n")), given);
}

#[test]
fn the_answer_ends_when_the_context_is_full_unless_a_length_is_asked_for() {
    let common = ["generate", "--json", "--raw", "--ignore-eos", "--ctx", "16", "-s", "1", "a b c"];
    let object = json(&run(&common));
    let count = |object: &Value, key: &str| object[key].as_array().unwrap().len();
    assert_eq!(count(&object, "prompt_ids") + count(&object, "ids"), 16);
    assert_eq!(object["finish_reason"], "length");
    let object = json(&run(&[&common[..], &["-n", "40"]].concat()));
    assert_eq!(count(&object, "ids"), 40);
}

#[test]
fn tokenize_and_detokenize_undo_each_other() {
    let text = "Héllo  wörld\n<|im_end|>🦙 <think>";
    let plain = run_with_input(&["tokenize", "-"], text);
    let special = run(&["tokenize", "--special", text]);
    assert_ne!(stdout(&plain), stdout(&special), "control tokens are recognised only on request");
    assert_eq!(stdout(&run(&["detokenize", stdout(&plain).trim()])), text);
    assert_eq!(stdout(&run_with_input(&["detokenize", "-", "--special"], &stdout(&special))), text);
    assert_eq!(
        stdout(&run(&["detokenize", "39", "369"])),
        stdout(&run(&["detokenize", "[39,369]"]))
    );
    assert_fails(&run(&["detokenize", "[1.5]"]), 1, &["token ids"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let mut child = pantheon(&["generate", "-n", "-1", "--ignore-eos", "--ctx", "64"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 20]).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !stderr.contains("error"), "{stderr}");
}

#[test]
fn chat_answers_obeys_and_survives_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_dir(dir.path(), "talk.json");
    let lines = format!(
        "Tell me a story.\n/nonsense\n/load /no/such/file\n/save {file}\n/reset\n\
         /load {file}\nAnd \\\nmore.\n/stats\n"
    );
    let output = run_with_input(&["chat", "-n", "8", "--seed", "1"], &lines);
    assert_eq!(stdout(&output).trim_end().lines().filter(|l| !l.is_empty()).count(), 2);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for word in ["no command /nonsense", "/no/such/file", "saved 2", "loaded 2", "4 messages"] {
        assert!(stderr.contains(word), "no {word:?} in: {stderr}");
    }
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(saved["messages"][0]["content"], "Tell me a story.");
    assert_eq!(saved["messages"][1]["role"], "assistant");
}

#[test]
fn a_random_model_is_written_inspected_and_computed() {
    let dir = tempfile::tempdir().unwrap();
    let [model, twin, tokens, out] =
        ["odd.gguf", "twin.gguf", "ids.json", "out.npy"].map(|name| in_dir(dir.path(), name));
    let synth = |out: &str, more: &[&str]| {
        run(&[&["synth", "--model", "odd", "--quant", "q4_k_m", "--out", out], more].concat())
    };
    stdout(&synth(&model, &[]));
    assert_fails(&synth(&model, &[]), 2, &["odd.gguf", "--force"]);
    stdout(&synth(&twin, &["-t", "3"]));
    assert!(
        std::fs::read(&model).unwrap() == std::fs::read(&twin).unwrap(),
        "same seed, same file"
    );
    stdout(&synth(&twin, &["--seed", "1", "--force"]));
    assert!(std::fs::read(&model).unwrap() != std::fs::read(&twin).unwrap());
    let facts = json(&run(&["inspect", &model, "--json", "--tensors"]));
    assert_eq!(facts["model"], "odd");
    assert_eq!(facts["total"]["tensors"], facts["tensors"].as_array().unwrap().len());
    assert!(stdout(&run(&["inspect", &model])).contains("fits the compiled-in model odd"));
    std::fs::write(&tokens, "[1, 20, 255, 7, 7]").unwrap();
    let mut first = Vec::new();
    for chunk in ["1", "3", "5"] {
        stdout(&run(&["logits", "-m", &model, "--chunk", chunk, &tokens, &out]));
        let bytes = std::fs::read(&out).unwrap();
        if first.is_empty() {
            first = bytes;
            continue;
        }
        assert!(first == bytes, "chunk {chunk}");
    }
    let npy = npyz::NpyFile::new(&first[..]).unwrap();
    assert_eq!(npy.shape()[0], 5);
    assert!(npy.into_vec::<f32>().unwrap().iter().all(|x| x.is_finite() && x.abs() < 100.0));
    std::fs::write(&tokens, "[1, 99999]").unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_fails(&run(&["logits", "-m", &model, &tokens, &out]), 1, &["99999"]);
    assert!(!PathBuf::from(&out).exists(), "nothing half-written stays");
    assert_fails(&run(&["synth", "--model", "no", "--quant", "q8_0", "--out", &out]), 2, &["tiny"]);
}

#[test]
fn a_file_of_another_shape_is_refused_and_configure_writes_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let [list, shapes, model] =
        ["model.toml", "shapes.toml", "new.gguf"].map(|name| in_dir(dir.path(), name));
    let built = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/model.toml"));
    let built = built.unwrap();
    std::fs::write(&list, &built).unwrap();
    let tiny = built.split("[[model]]").find(|entry| entry.contains("\"tiny\"")).unwrap();
    let mut other = format!("[[model]]{tiny}").replace("\"tiny\"", "\"other\"");
    for (from, to) in [
        ("block_count = 6", "block_count = 4"),
        ("expert_count = 8", "expert_count = 12"),
        ("embedding_length = 256", "embedding_length = 320"),
    ] {
        assert!(other.contains(from), "{from}");
        other = other.replace(from, to);
    }
    std::fs::write(&shapes, other).unwrap();
    let synth = ["synth", "--shapes", &shapes, "--model", "other", "--quant", "q8_0"];
    stdout(&run(&[&synth[..], &["--out", &model]].concat()));

    let refused = run(&["generate", "-m", &model, "x"]);
    let fields =
        ["block_count: file 4, compiled 6", "embedding_length: file 320", "expert_count: file 12"];
    assert_fails(&refused, 1, &fields);
    assert_fails(&refused, 1, &["configure", "--write", "cargo build --release"]);

    let shown = |file: &str| {
        let mut command = pantheon(&["configure", file, "--name", "new"]);
        command.env("PANTHEON_MODEL_TOML", &list).output().unwrap()
    };
    let unknown = shown(&model);
    let entry = stdout(&unknown);
    assert!(entry.starts_with("[[model]]") && entry.contains("block_count = 4"), "{entry}");
    assert_says(&unknown, "--write adds it");
    assert_says(&shown(demo()), "compiled in already, as tiny");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), built, "nothing is written unasked");
    let write = ["configure", &model, "--write", "--into", &list];
    assert_fails(&run(&[&write[..], &["--name", "tiny"]].concat()), 2, &["tiny", "another"]);
    let done = stdout(&run(&[&write[..], &["--name", "new"]].concat()));
    assert!(done.contains("cargo build --release") && done.contains(&list), "{done}");
    let written = std::fs::read_to_string(&list).unwrap();
    assert!(written.starts_with(built.trim_end()) && written.contains("\"new\""), "{written}");
    assert_says(&shown(&model), "already, as new");
    // Once more there is nothing to do, whatever the name.
    let again = run(&write);
    assert_says(&again, "already, as new");
    assert!(again.status.success() && again.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(&list).unwrap(), written);
    // The environment names the list as it does for the build.
    let mut by_variable = pantheon(&["configure", demo(), "--write"]);
    let known = by_variable.env("PANTHEON_MODEL_TOML", &list).output().unwrap();
    assert_says(&known, "already, as tiny");
}

#[test]
fn plan_prints_the_decisions_for_a_model_or_a_file() {
    let plan = stdout(&run(&["plan", "--model", "tiny"]));
    for word in ["tiny", "layers", "segments", "stages", "buffers", "bytes per token", "floor"] {
        assert!(plan.contains(word), "no {word:?} in: {plan}");
    }
    let slow = stdout(&run(&["plan", "--model", "tiny", "--bandwidth", "20"]));
    assert!(slow.contains("20 GB/s") && slow != plan, "{slow}");
    let of_file = stdout(&run(&["plan", "-m", demo()]));
    assert!(of_file.contains("tiny-q4_k_m.gguf"), "{of_file}");
    assert!(of_file.contains("memory on this machine") && of_file.contains("states"), "{of_file}");
    assert_fails(&run(&["plan", "--model", "none"]), 2, &["none", "tiny", "odd"]);
    assert_fails(&run(&["plan", "--bandwidth", "0"]), 2, &["--bandwidth"]);
}

#[test]
fn perplexity_counts_the_second_half_of_each_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let text = in_dir(dir.path(), "text.txt");
    let sentence = "Once upon a time, there was a little girl who lived in the woods. ";
    std::fs::write(&text, sentence.repeat(12)).unwrap();
    let args = ["perplexity", "-f", &text, "--ctx", "33", "--json"];
    let all = json(&run(&args));
    let chunks = all["chunks"].as_u64().unwrap();
    assert!(chunks > 2);
    assert_eq!(all["scored"], chunks * (33 - 16 - 1));
    assert!((1.0..50.0).contains(&all["ppl"].as_f64().unwrap()), "{all}");
    let two = json(&run(&[&args[..], &["--chunks", "2"]].concat()));
    assert_eq!(two["chunks"], 2);
    assert!(stdout(&run(&args[..5])).starts_with("PPL = "));
    let short = ["perplexity", "-f", &text, "--ctx", "4096"];
    assert_fails(&run(&short), 1, &["4096", "--ctx"]);
}

#[test]
fn bench_reports_medians_under_fixed_names() {
    let args = ["bench", "-p", "16", "-n", "4", "-d", "8", "--batch", "1,3", "-r", "1", "--json"];
    let report = json(&run(&args));
    for rate in [&report["pp_tok_s"], &report["tg_tok_s"], &report["batch_tok_s"]["3"]] {
        assert!(rate.as_f64().unwrap() > 0.0, "{report}");
    }
    let report = json(&run(&["bench", "-p", "0", "-n", "2", "-r", "1", "--json"]));
    assert_eq!(report["pp_tok_s"], Value::Null);
    assert_fails(&run(&["bench", "--batch", "0"]), 2, &["--batch"]);
}

#[test]
fn doctor_says_what_will_be_used() {
    let text = stdout(&run(&["doctor"]));
    for word in ["instruction sets", "cores", "memory", "CUDA", "tiny"] {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    for reason in ["(checked)", "physical", "logical", "one for each", "-t"] {
        assert!(text.contains(reason), "no {reason:?} in: {text}");
    }
    let report = json(&run(&["doctor", "--json"]));
    let threads = report["threads_used"].as_u64().unwrap();
    assert!((1..=report["cores_logical"].as_u64().unwrap()).contains(&threads), "{report}");
    assert_eq!(report["instruction_sets_wrong"], serde_json::json!([]));
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_allocated() {
    use pantheon::memory::HostMemory;
    let forced = stdout(&run(&["generate", "-n", "2", "--ctx", "64", "--force"]));
    assert!(!forced.is_empty());
    // 512 sequences of a context that the demo model was never trained for.
    let greedy = ["bench", "--batch", "512", "-d", "262000", "-p", "0", "--kv", "f32"];
    if HostMemory::read().free().is_some_and(|free| free < 100 << 30) {
        let words = ["too much", "KV", "-d, -p and -n", "--batch", "--kv f16", "--force"];
        assert_fails(&run(&greedy), 1, &words[..4]);
        assert_fails(&run(&greedy), 1, &words[5..]);
    }
}

#[test]
fn a_prompt_that_cannot_fit_is_refused_before_it_is_tokenised() {
    let dir = tempfile::tempdir().unwrap();
    let path = in_dir(dir.path(), "long.txt");
    std::fs::write(&path, "x".repeat(16 << 20)).unwrap();
    for raw in [&["--raw"][..], &[]] {
        let args = [&["generate", "--ctx", "4096", "-f", &path][..], raw].concat();
        assert_fails(&run(&args), 1, &["at least", "4096", "--ctx"]);
    }
    let ids = json(&run(&["tokenize", "-f", &path]));
    assert!(ids.as_array().unwrap().len() > 1 << 20);
}
