//! What a line that begins with a slash asks for.

use std::path::PathBuf;

/// The commands, for the user.
pub(super) const HELP: &str = "\
/help            this list
/reset           forget the conversation, keep the system message
/system [TEXT]   show the system message, or set it (- removes it)
/save FILE       write the conversation to a JSON file
/load FILE       go on with a conversation from a JSON file
/stats           tokens, rates, memory
/quit            end (as does Ctrl-D)
//...            a message that begins with a slash
Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.";

/// A command.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Help,
    Reset,
    System(Option<String>),
    Save(PathBuf),
    Load(PathBuf),
    Stats,
    Quit,
}

impl Command {
    /// The command a line is; `None` if it is a message, or what is wrong with the command.
    pub(super) fn parse(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        let rest = line.strip_prefix('/')?;
        if rest.starts_with('/') {
            return None;
        }
        let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let value = value.trim();
        let file = |make: fn(PathBuf) -> Self| match value {
            "" => Err(format!("/{name} needs the name of a file")),
            path => Ok(make(path.into())),
        };
        let alone = |command| match value {
            "" => Ok(command),
            extra => Err(format!("/{name} takes nothing more; found {extra:?}")),
        };
        Some(match name {
            "help" => alone(Self::Help),
            "reset" => alone(Self::Reset),
            "system" => Ok(Self::System((!value.is_empty()).then(|| value.to_owned()))),
            "save" => file(Self::Save),
            "load" => file(Self::Load),
            "stats" => alone(Self::Stats),
            "quit" | "exit" => alone(Self::Quit),
            _ => Err(format!("there is no command /{name}; /help lists them")),
        })
    }

    /// The message that a line stands for: a doubled slash at its start is one slash.
    pub(super) fn message(line: &str) -> &str {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") { &trimmed[1..] } else { line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_commands_or_problems() {
        assert_eq!(Command::parse("hello / there"), None);
        assert_eq!(Command::parse("//etc"), None);
        assert_eq!(Command::message(" //etc"), "/etc");
        assert_eq!(Command::message("a // b"), "a // b");
        assert_eq!(Command::parse(" /quit "), Some(Ok(Command::Quit)));
        assert_eq!(Command::parse("/system"), Some(Ok(Command::System(None))));
        let system = Command::System(Some("Be brief. Please.".to_owned()));
        assert_eq!(Command::parse("/system  Be brief. Please."), Some(Ok(system)));
        assert_eq!(Command::parse("/save my file"), Some(Ok(Command::Save("my file".into()))));
        for wrong in ["/", "/nonsense", "/save", "/load ", "/reset now"] {
            assert!(matches!(Command::parse(wrong), Some(Err(_))), "{wrong}");
        }
    }
}
