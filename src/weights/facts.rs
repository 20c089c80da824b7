//! What a file says beside its shape: facts that are read when it is loaded, not compiled in.

use super::trunk::{ARCHITECTURE, DAMAGED_HEADER, Trunk};
use crate::gguf::{Gguf, GgufError};

/// Facts of a file that specialise nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct FileFacts {
    /// `general.name`.
    pub name: Option<String>,
    /// Tokens the model was trained to look back on.
    pub context_length: usize,
    /// How rotary positions are stretched.
    pub rope_scaling: RopeScaling,
    /// What the routed experts' weights are multiplied by after normalisation; 1 unless the file
    /// says so.
    pub expert_weights_scale: f32,
    /// Draft (multi-token prediction) blocks the file holds; they are neither bound nor counted.
    pub draft_blocks: usize,
}

/// Stretching of rotary positions for contexts longer than trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Positions as they are.
    None,
    /// Positions divided by `factor`.
    Linear {
        /// At least 1 in practice.
        factor: f32,
    },
    /// YaRN: low frequencies stretched, high ones kept, with a ramp between.
    Yarn {
        /// Context extension.
        factor: f32,
        /// Context before the extension.
        original_context: usize,
        /// Multiplies the magnitude that YaRN itself asks for.
        attn_factor: f32,
        /// Weight of the ramp, 1 for plain YaRN.
        ext_factor: f32,
        /// Rotations per context above which a dimension is kept.
        beta_fast: f32,
        /// Rotations per context below which a dimension is stretched.
        beta_slow: f32,
        /// Overrides YaRN's 0.1 in the magnitude; 0 where the file does not say.
        log_multiplier: f32,
    },
}

impl FileFacts {
    /// Reads the facts of a file of the right architecture.
    ///
    /// # Errors
    /// If a key is missing, of the wrong type, or asks for something this program does not do.
    pub(super) fn read(gguf: &Gguf, trunk: &Trunk) -> Result<Self, GgufError> {
        refuse_variants(gguf)?;
        let key = format!("{ARCHITECTURE}.context_length");
        let context_length = match gguf.u32(&key)? {
            Some(n) if n > 0 => n as usize,
            found => {
                let found = found.map_or("no such key".to_owned(), |n| n.to_string());
                return Err(gguf.key_error(&key, "a number of tokens", found, DAMAGED_HEADER));
            }
        };
        Ok(Self {
            name: gguf.str("general.name")?.map(str::to_owned),
            context_length,
            rope_scaling: rope_scaling(gguf, context_length)?,
            expert_weights_scale: match finite(gguf, "expert_weights_scale", 0.0)? {
                0.0 => 1.0,
                scale => scale,
            },
            draft_blocks: trunk.draft_blocks,
        })
    }
}

/// Variants the format can express and no known model of this family uses.
fn refuse_variants(gguf: &Gguf) -> Result<(), GgufError> {
    let remedy = "this program does not implement it; it would run the model wrongly";
    let key = format!("{ARCHITECTURE}.attention.causal");
    if gguf.bool(&key)? == Some(false) {
        return Err(gguf.key_error(&key, "causal attention", "false", remedy));
    }
    let key = format!("{ARCHITECTURE}.expert_group_count");
    match gguf.u64(&key)? {
        Some(groups) if groups > 1 => {
            Err(gguf.key_error(&key, "experts in one group", groups.to_string(), remedy))
        }
        _ => Ok(()),
    }
}

fn rope_scaling(gguf: &Gguf, context_length: usize) -> Result<RopeScaling, GgufError> {
    let factor = finite(gguf, "rope.scaling.factor", 0.0)?;
    let key = format!("{ARCHITECTURE}.rope.scaling.type");
    let kind = gguf.str(&key)?.unwrap_or("linear");
    if factor < 0.0 {
        let key = format!("{ARCHITECTURE}.rope.scaling.factor");
        return Err(gguf.key_error(&key, "a positive factor", factor.to_string(), DAMAGED_HEADER));
    }
    // A factor of 0 means that none is set.
    let stretched = factor != 0.0 && factor != 1.0;
    match kind {
        "none" => Ok(RopeScaling::None),
        "linear" | "yarn" if !stretched => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor }),
        "yarn" => yarn(gguf, factor, context_length),
        other => {
            let remedy = "this program does not implement it; it would run the model wrongly";
            Err(gguf.key_error(&key, "none, linear or yarn", format!("{other:.64?}"), remedy))
        }
    }
}

fn yarn(gguf: &Gguf, factor: f32, context_length: usize) -> Result<RopeScaling, GgufError> {
    let original = gguf.u32(&format!("{ARCHITECTURE}.rope.scaling.original_context_length"))?;
    let number = |key: &str, default: f32| finite(gguf, &format!("rope.scaling.{key}"), default);
    Ok(RopeScaling::Yarn {
        factor,
        original_context: original.filter(|n| *n > 0).map_or(context_length, |n| n as usize),
        attn_factor: number("attn_factor", 1.0)?,
        ext_factor: number("yarn_ext_factor", 1.0)?,
        beta_fast: number("yarn_beta_fast", 32.0)?,
        beta_slow: number("yarn_beta_slow", 1.0)?,
        log_multiplier: number("yarn_log_multiplier", 0.0)?,
    })
}

/// A finite number under the architecture's prefix.
pub(super) fn finite(gguf: &Gguf, key: &str, default: f32) -> Result<f32, GgufError> {
    let key = format!("{ARCHITECTURE}.{key}");
    let value = gguf.f32(&key)?.unwrap_or(default);
    match value.is_finite() {
        true => Ok(value),
        false => Err(gguf.key_error(&key, "a finite number", value.to_string(), DAMAGED_HEADER)),
    }
}
