//! A conversation as a file.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::chat::Message;
use crate::cli::{partial, tokens_file};

/// A conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Transcript {
    #[serde(default)]
    pub(super) system: Option<String>,
    /// Messages of the user and answers, in turn.
    pub(super) messages: Vec<Message>,
}

impl Transcript {
    /// All messages, the system message first.
    pub(super) fn all(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Writes the conversation as JSON.
    pub(super) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        partial::write(path, text.as_bytes())
    }

    /// Reads a conversation that [`Transcript::save`] wrote. `roles` are those it may have.
    pub(super) fn load(path: &Path, roles: &[&str]) -> anyhow::Result<Self> {
        let text = tokens_file::read_text(path)?;
        let transcript: Self = serde_json::from_str(&text).with_context(|| {
            format!("{}: expected a conversation as /save writes it", path.display())
        })?;
        for (index, Message { role, .. }) in transcript.messages.iter().enumerate() {
            anyhow::ensure!(
                roles.contains(&role.as_str()),
                "{}: messages[{index}].role: expected one of {}, found {role:?}",
                path.display(),
                roles.join(", ")
            );
        }
        Ok(transcript)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.json");
        let reasoning_content = Some("hm".to_owned());
        let messages = vec![
            Message::new("user", "Hi \"there\"\n"),
            Message { reasoning_content, ..Message::new("assistant", "🦙") },
        ];
        let transcript = Transcript { system: Some("Be kind.".to_owned()), messages };
        transcript.save(&path).unwrap();
        let loaded = Transcript::load(&path, &["user", "assistant"]).unwrap();
        let json = |t: &Transcript| serde_json::to_value(t).unwrap();
        assert_eq!(json(&loaded), json(&transcript));
        assert_eq!(loaded.all().len(), 3);
        let error = Transcript::load(&path, &["user"]).unwrap_err().to_string();
        assert!(error.ends_with("messages[1].role: expected one of user, found \"assistant\""));
        std::fs::write(&path, "[]").unwrap();
        assert!(Transcript::load(&path, &[]).unwrap_err().to_string().contains("talk.json"));
    }
}
