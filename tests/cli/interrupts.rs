//! Ctrl-C: what it ends, what it leaves behind, and how the program says so.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::{in_dir, pantheon};

/// How long anything may take to happen: far longer than it does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something to become true.
#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(args: &[&str]) -> Child {
    let mut command = pantheon(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn press_ctrl_c(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// Whether the process has a handler for the signal of Ctrl-C.
fn listens(child: &Child) -> bool {
    const SIGINT: u32 = 2;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (SIGINT - 1) & 1 == 1
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that a command that was interrupted says so in one line, and nothing else.
#[track_caller]
fn assert_interrupted(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(stderr, "interrupted; there is no result\n");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn ctrl_c_ends_an_answer_with_what_there_is() {
    let mut child = start(&["generate", "-n", "-1", "--ignore-eos", "--ctx", "64"]);
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 20]).unwrap();
    press_ctrl_c(&child);
    std::io::copy(&mut pipe, &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.contains("interrupted"), "{stderr}");
}

#[test]
fn ctrl_c_leaves_no_half_written_file() {
    let dir = tempfile::tempdir().unwrap();
    let [model, tokens, logits] =
        ["model.gguf", "ids.json", "logits.npy"].map(|name| in_dir(dir.path(), name));
    let shapes = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/shapes.toml");
    std::fs::write(&tokens, format!("{:?}", [7; 5000])).unwrap();
    let synth = ["synth", "--shapes", shapes, "--model", "nex-n2-mini-8l", "--quant", "q4_k_m"];
    let write_logits = ["logits", "-t", "1", "--exact", "--chunk", "1", &tokens, &logits];
    for args in [&[&synth[..], &["--out", &model]].concat()[..], &write_logits] {
        let mut child = start(args);
        wait_for("a file", || files(dir.path()).len() == 2 || child.try_wait().unwrap().is_some());
        press_ctrl_c(&child);
        assert_interrupted(&child.wait_with_output().unwrap());
        assert_eq!(files(dir.path()), ["ids.json"], "{args:?}");
    }
}

#[test]
fn ctrl_c_ends_a_measurement_without_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let text = in_dir(dir.path(), "text.txt");
    std::fs::write(&text, "Once upon a time, there was a little girl. ".repeat(10_000)).unwrap();
    for args in [
        &["perplexity", "-f", &text, "-t", "1", "--exact"][..],
        &["bench", "-r", "1000", "-t", "1"],
    ] {
        let child = start(args);
        wait_for("a listener", || listens(&child));
        press_ctrl_c(&child);
        assert_interrupted(&child.wait_with_output().unwrap());
    }
}

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What has been shown and not been waited for.
    shown: String,
}

impl Terminal {
    fn start(args: &[&str]) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_pantheon"));
        let command = command.args(args).env("TERM", "xterm").env_remove("QWEN35_MAX_SEQ");
        let child = command.spawn(pts).unwrap();
        let keyboard = File::from(OwnedFd::from(pty));
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // On Linux a terminal whose program has ended fails to be read.
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` has been shown, and `more` bytes behind it; the next call looks behind it.
    #[track_caller]
    fn wait_for(&mut self, text: &str, more: usize) {
        let start = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text)
                && self.shown.len() >= at + text.len() + more
            {
                self.shown.drain(..at + text.len());
                return;
            }
            match self.screen.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(bytes) => self.shown += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("no {text:?} ({error}) in: {}", self.shown),
            }
        }
    }

    fn end(mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_for("the end of the program", || child.try_wait().unwrap().is_some());
        child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
    }
}

#[test]
fn ctrl_c_stops_an_answer_of_a_chat_and_not_the_chat() {
    // Slow on purpose, so that the answer is under way when the key comes.
    let slow = ["-t", "1", "--exact", "--isa", "scalar", "-n", "-1", "--seed", "1"];
    let mut terminal = Terminal::start(&[&["chat"][..], &slow].concat());
    terminal.wait_for("> ", 0);
    for question in ["Tell me a long story.", "And another one."] {
        terminal.press(&format!("{question}\r"));
        // What follows the line is the beginning of the answer.
        terminal.wait_for(question, 40);
        terminal.press("\x03");
        terminal.wait_for("(stopped)", 0);
        terminal.wait_for("> ", 0);
    }
    // At the prompt it ends nothing either.
    terminal.press("\x03");
    terminal.wait_for("/quit or Ctrl-D", 0);
    terminal.wait_for("> ", 0);
    terminal.press("/stats\r");
    terminal.wait_for("4 messages", 0);
    terminal.press("/quit\r");
    assert!(terminal.end().success());
}
