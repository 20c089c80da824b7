//! Sampling parameters and where their values come from.

use crate::gguf::Gguf;

use super::SamplingError;

/// What values a parameter can have: those that no model's logits overflow with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Name of the parameter.
    pub name: &'static str,
    /// Smallest value.
    pub least: f32,
    /// Largest value.
    pub most: f32,
}

impl Bounds {
    /// Of [`SamplerParams::temperature`].
    pub const TEMPERATURE: Bounds = Bounds { name: "temperature", least: 0.0, most: 1000.0 };
    /// Of [`SamplerParams::top_p`].
    pub const TOP_P: Bounds = Bounds { name: "top_p", least: 0.0, most: 1.0 };
    /// Of [`SamplerParams::min_p`].
    pub const MIN_P: Bounds = Bounds { name: "min_p", least: 0.0, most: 1.0 };
    /// Of [`SamplerParams::presence_penalty`].
    pub const PRESENCE_PENALTY: Bounds =
        Bounds { name: "presence_penalty", least: -2.0, most: 2.0 };
    /// Of [`SamplerParams::frequency_penalty`].
    pub const FREQUENCY_PENALTY: Bounds =
        Bounds { name: "frequency_penalty", least: -2.0, most: 2.0 };
    /// Of [`SamplerParams::repeat_penalty`].
    pub const REPEAT_PENALTY: Bounds = Bounds { name: "repeat_penalty", least: 0.01, most: 100.0 };

    /// Whether the value is a number within the bounds.
    pub fn contain(&self, value: f32) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// What is expected, in words.
    pub fn expected(&self) -> String {
        format!("a number from {} to {}", self.least, self.most)
    }

    fn check(&self, value: f32) -> Result<(), SamplingError> {
        match self.contain(value) {
            true => Ok(()),
            false => Err(SamplingError::Parameter {
                name: self.name,
                expected: self.expected(),
                found: value.to_string(),
            }),
        }
    }
}

/// How the next token is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerParams {
    /// Divides the logits; 0 takes the largest. 0 to 1000.
    pub temperature: f32,
    /// Tokens that stay, most likely first; 0 or less, or as many as there are, keeps all.
    pub top_k: i64,
    /// The most likely tokens stay whose probabilities reach this sum; at least one stays. 0 to 1;
    /// 1 keeps all.
    pub top_p: f32,
    /// Tokens stay that are at least this likely, relative to the most likely one. 0 to 1; 0 keeps
    /// all.
    pub min_p: f32,
    /// Subtracted from the logit of every token generated before. -2 to 2.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token for every time it was generated. -2 to 2.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens generated before. 0.01 to 100; 1
    /// is none.
    pub repeat_penalty: f32,
    /// How many of the last generated tokens the penalties count; `None` counts all, `Some(0)`
    /// none.
    pub repeat_window: Option<usize>,
    /// Seed of the random numbers; `None` takes a random one.
    pub seed: Option<u64>,
}

impl SamplerParams {
    /// Parameters that leave the model's distribution as it is.
    pub const NEUTRAL: SamplerParams = SamplerParams {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        repeat_penalty: 1.0,
        repeat_window: None,
        seed: None,
    };

    /// The model card's values for a mode.
    pub const fn card(mode: Mode) -> SamplerParams {
        let (temperature, top_p) = match mode {
            Mode::Thinking => (1.0, 0.95),
            Mode::NonThinking => (0.7, 0.8),
        };
        SamplerParams {
            temperature,
            top_p,
            top_k: 20,
            presence_penalty: 1.5,
            ..SamplerParams::NEUTRAL
        }
    }

    /// The values to use: each flag that is given; else, if the file says anything about sampling,
    /// its value or the neutral one; else the card's for the mode.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn resolve(
        flags: &SamplerFlags,
        file: &FileSampling,
        mode: Mode,
    ) -> Result<SamplerParams, SamplingError> {
        let base = if file.is_empty() {
            SamplerParams::card(mode)
        } else {
            file.over(&SamplerParams::NEUTRAL)
        };
        let params = SamplerParams {
            temperature: flags.temperature.unwrap_or(base.temperature),
            top_k: flags.top_k.unwrap_or(base.top_k),
            top_p: flags.top_p.unwrap_or(base.top_p),
            min_p: flags.min_p.unwrap_or(base.min_p),
            presence_penalty: flags.presence_penalty.unwrap_or(base.presence_penalty),
            frequency_penalty: flags.frequency_penalty.unwrap_or(base.frequency_penalty),
            repeat_penalty: flags.repeat_penalty.unwrap_or(base.repeat_penalty),
            repeat_window: flags.repeat_window.or(base.repeat_window),
            seed: flags.seed,
        };
        params.check()?;
        Ok(params)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// If one is out of range, with its name.
    pub fn check(&self) -> Result<(), SamplingError> {
        Bounds::TEMPERATURE.check(self.temperature)?;
        Bounds::TOP_P.check(self.top_p)?;
        Bounds::MIN_P.check(self.min_p)?;
        Bounds::PRESENCE_PENALTY.check(self.presence_penalty)?;
        Bounds::FREQUENCY_PENALTY.check(self.frequency_penalty)?;
        Bounds::REPEAT_PENALTY.check(self.repeat_penalty)
    }

    /// Whether some penalty does something.
    pub(super) fn has_penalties(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.repeat_penalty != 1.0
    }
}

/// Whether the model thinks before it answers; the model card's values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It thinks.
    Thinking,
    /// It answers at once.
    NonThinking,
}

/// Values a user gives; `None` is not given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplerFlags {
    /// See [`SamplerParams::temperature`].
    pub temperature: Option<f32>,
    /// See [`SamplerParams::top_k`].
    pub top_k: Option<i64>,
    /// See [`SamplerParams::top_p`].
    pub top_p: Option<f32>,
    /// See [`SamplerParams::min_p`].
    pub min_p: Option<f32>,
    /// See [`SamplerParams::presence_penalty`].
    pub presence_penalty: Option<f32>,
    /// See [`SamplerParams::frequency_penalty`].
    pub frequency_penalty: Option<f32>,
    /// See [`SamplerParams::repeat_penalty`].
    pub repeat_penalty: Option<f32>,
    /// See [`SamplerParams::repeat_window`].
    pub repeat_window: Option<usize>,
    /// See [`SamplerParams::seed`].
    pub seed: Option<u64>,
}

/// What a file says about sampling (`general.sampling.*`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSampling {
    temperature: Option<f32>,
    top_k: Option<i64>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repeat_penalty: Option<f32>,
    /// -1 counts all.
    repeat_window: Option<i64>,
}

impl FileSampling {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// If a key has the wrong type or a value out of range.
    pub fn from_gguf(gguf: &Gguf) -> Result<FileSampling, SamplingError> {
        let integer = |key: &str| match gguf.i32_list(key)?.as_deref() {
            None => Ok(None),
            Some([value]) => Ok(Some(i64::from(*value))),
            Some(list) => {
                let found = format!("{} numbers", list.len());
                Err(gguf.key_error(key, "one integer", found, "give the value as a flag"))
            }
        };
        let number = |key: &str, bounds: Bounds| match gguf.f32(key)? {
            Some(value) if !bounds.contain(value) => {
                let remedy = "write the file again with a value in range or without the key";
                Err(gguf.key_error(key, bounds.expected(), value.to_string(), remedy))
            }
            value => Ok(value),
        };
        Ok(FileSampling {
            temperature: number("general.sampling.temp", Bounds::TEMPERATURE)?,
            top_k: integer("general.sampling.top_k")?,
            top_p: number("general.sampling.top_p", Bounds::TOP_P)?,
            min_p: number("general.sampling.min_p", Bounds::MIN_P)?,
            repeat_penalty: number("general.sampling.penalty_repeat", Bounds::REPEAT_PENALTY)?,
            repeat_window: integer("general.sampling.penalty_last_n")?,
        })
    }

    /// Whether the file says nothing.
    pub fn is_empty(&self) -> bool {
        *self == FileSampling::default()
    }

    /// The file's values over others.
    fn over(&self, base: &SamplerParams) -> SamplerParams {
        SamplerParams {
            temperature: self.temperature.unwrap_or(base.temperature),
            top_k: self.top_k.unwrap_or(base.top_k),
            top_p: self.top_p.unwrap_or(base.top_p),
            min_p: self.min_p.unwrap_or(base.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(base.repeat_penalty),
            repeat_window: match self.repeat_window {
                Some(window) => usize::try_from(window).ok(),
                None => base.repeat_window,
            },
            ..base.clone()
        }
    }
}
