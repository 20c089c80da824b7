//! Results to stdout, remarks to stderr.
//!
//! A reader of stdout that goes away is an [`std::io::ErrorKind::BrokenPipe`] error, on which
//! `main` ends quietly.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;

/// A line to stderr; if nobody can read it, so be it.
pub(super) fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Text to stderr, at once.
pub(super) fn aside(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Text to stdout, at once.
pub(super) fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// Bytes to stdout, at once.
pub(super) fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// A value as one line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    Ok(print(&line)?)
}

/// Whether stdout is a terminal.
pub(super) fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A bar of `total` tokens, chunks, ... on stderr; invisible unless stderr is a terminal. It
/// vanishes when done.
pub(super) fn bar(what: &'static str, total: usize) -> ProgressBar {
    start(total as u64, &format!("{what} [{{bar:30}}] {{pos}}/{{len}} {{rate}} {{msg}}"))
}

/// A bar of `total` bytes on stderr, as [`bar`].
pub(super) fn byte_bar(what: &'static str, total: u64) -> ProgressBar {
    let counts = "{bytes}/{total_bytes} {bytes_per_sec} {eta}";
    start(total, &format!("{what} [{{bar:30}}] {counts}"))
}

/// A spinner on stderr while something of unknown length happens, as [`bar`].
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let spinner = start(0, &format!("{{spinner}} {what}"));
    spinner.enable_steady_tick(std::time::Duration::from_millis(100));
    spinner
}

fn start(total: u64, template: &str) -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(total), target)
        .with_finish(indicatif::ProgressFinish::AndClear);
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar whose rate cannot be written lacks it.
        let _ = write!(out, "{:.1}/s", state.per_sec());
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("rate", rate)),
        Err(_) => bar,
    }
}

/// A count per second, as `12.3 tokens/s`; nothing can be said of no time.
pub(super) fn rate(tokens: usize, seconds: f64) -> String {
    if tokens == 0 || seconds <= 0.0 {
        return "- tokens/s".to_owned();
    }
    let rate = tokens as f64 / seconds;
    let decimals = if rate < 100.0 { 2 } else { 1 };
    format!("{rate:.decimals$} tokens/s")
}
