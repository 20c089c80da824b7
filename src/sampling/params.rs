//! Sampling parameters and where their values come from.

use crate::gguf::Gguf;

use super::SamplingError;

/// How the next token is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerParams {
    /// Divides the logits; 0 takes the largest. At least 0.
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
    /// Divides positive and multiplies negative logits of tokens generated before. More than 0; 1
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
        let check = |name, value: f32, good: bool, expected| match good {
            true => Ok(()),
            false => Err(SamplingError::Parameter { name, expected, found: value.to_string() }),
        };
        let unit = |value: f32| (0.0..=1.0).contains(&value);
        let penalty = |value: f32| (-2.0..=2.0).contains(&value);
        let (t, r) = (self.temperature, self.repeat_penalty);
        check("temperature", t, t.is_finite() && t >= 0.0, "a number of at least 0")?;
        check("top_p", self.top_p, unit(self.top_p), "a number from 0 to 1")?;
        check("min_p", self.min_p, unit(self.min_p), "a number from 0 to 1")?;
        let (presence, frequency) = (self.presence_penalty, self.frequency_penalty);
        check("presence_penalty", presence, penalty(presence), "a number from -2 to 2")?;
        check("frequency_penalty", frequency, penalty(frequency), "a number from -2 to 2")?;
        check("repeat_penalty", r, r.is_finite() && r > 0.0, "a number above 0")
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
        let number = |key: &str, good: fn(f32) -> bool, expected| match gguf.f32(key)? {
            Some(value) if !good(value) => {
                let remedy = "give the value as a flag and write the file again without the key";
                Err(gguf.key_error(key, expected, value.to_string(), remedy))
            }
            value => Ok(value),
        };
        let unit = |value: f32| (0.0..=1.0).contains(&value);
        Ok(FileSampling {
            temperature: number(
                "general.sampling.temp",
                |t| t.is_finite() && t >= 0.0,
                "a number of at least 0",
            )?,
            top_k: integer("general.sampling.top_k")?,
            top_p: number("general.sampling.top_p", unit, "a number from 0 to 1")?,
            min_p: number("general.sampling.min_p", unit, "a number from 0 to 1")?,
            repeat_penalty: number(
                "general.sampling.penalty_repeat",
                |r| r.is_finite() && r > 0.0,
                "a number above 0",
            )?,
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
