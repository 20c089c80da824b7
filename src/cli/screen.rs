//! An answer on the screen as it grows.

use std::io::{self, IsTerminal};

use super::output;
use crate::chat::Delta;

/// Shows an answer as it grows: its text on stdout, its reasoning on stderr, dimmed where that is a
/// terminal.
pub(super) struct Screen {
    shown: bool,
    colour: bool,
    /// Whether reasoning is what was shown last.
    reasoning: bool,
    /// Whether the last character on stdout was a line end, or nothing was shown there.
    at_line_start: bool,
}

impl Screen {
    const DIM: &str = "\x1b[2m";
    const NORMAL: &str = "\x1b[0m";

    /// A screen, or one that shows nothing.
    pub(super) fn new(shown: bool) -> Self {
        let colour = io::stderr().is_terminal();
        Self { shown, colour, reasoning: false, at_line_start: true }
    }

    /// Shows the next piece.
    pub(super) fn show(&mut self, delta: &Delta) -> io::Result<()> {
        if !self.shown {
            return Ok(());
        }
        if !delta.reasoning.is_empty() {
            if !self.reasoning && self.colour {
                output::aside(Self::DIM);
            }
            self.reasoning = true;
            output::aside(&delta.reasoning);
        }
        if !delta.answer.is_empty() {
            self.end_reasoning();
            self.at_line_start = delta.answer.ends_with('\n');
            output::print(&delta.answer)?;
        }
        Ok(())
    }

    /// Ends the answer's last line.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.end_reasoning();
        if !self.at_line_start {
            self.at_line_start = true;
            output::print("\n")?;
        }
        Ok(())
    }

    fn end_reasoning(&mut self) {
        if std::mem::take(&mut self.reasoning) {
            output::aside(if self.colour { Self::NORMAL } else { "" });
            output::aside("\n\n");
        }
    }
}
