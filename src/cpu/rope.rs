//! Rotary angles: computed in f64 once per column and shared by all attention layers.

use crate::model::Shape;
use crate::weights::RopeScaling;

/// Frequencies of the rotary pairs of one model.
pub(crate) struct RopeTable {
    /// Radians per position, one per pair.
    frequencies: Vec<f64>,
    /// Factor on cosines and sines: YaRN's attention temperature, else 1.
    magnitude: f64,
}

impl RopeTable {
    /// Pair `i` turns by `base^(-2 i / rope_dim)` per position, rescaled where the file says so.
    ///
    /// YaRN keeps the pairs that turn more than `beta_fast` times over the original context, stretches
    /// those that turn less than `beta_slow` times, and blends between (Peng et al. 2023, as ggml does).
    ///
    /// Multi-section RoPE gives each pair the time, height or width position; for text these are the
    /// same number, so the sections collapse.
    pub(crate) fn new(shape: &Shape, scaling: &RopeScaling) -> Self {
        let pairs = shape.rope_dim / 2;
        let base = f64::from(shape.rope_base);
        let turn = |i: usize| base.powf(-2.0 * i as f64 / shape.rope_dim as f64);
        let plain = (0..pairs).map(turn);
        match *scaling {
            RopeScaling::None => Self { frequencies: plain.collect(), magnitude: 1.0 },
            RopeScaling::Linear { factor } => {
                Self { frequencies: plain.map(|f| f / f64::from(factor)).collect(), magnitude: 1.0 }
            }
            RopeScaling::Yarn {
                factor,
                original_context,
                attn_factor,
                ext_factor,
                beta_fast,
                beta_slow,
                log_multiplier,
            } => {
                let correction = |beta: f32| {
                    let turns = original_context as f64 / (f64::from(beta) * std::f64::consts::TAU);
                    shape.rope_dim as f64 * turns.ln() / (2.0 * base.ln())
                };
                let low = correction(beta_fast).floor().max(0.0);
                let high = correction(beta_slow).ceil().min(shape.rope_dim as f64 - 1.0);
                let blend = |(pair, kept): (usize, f64)| {
                    let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                    let keep = (1.0 - ramp) * f64::from(ext_factor);
                    kept / f64::from(factor) * (1.0 - keep) + kept * keep
                };
                let slope = if log_multiplier == 0.0 { 0.1 } else { f64::from(log_multiplier) };
                let magnitude = f64::from(attn_factor) * (1.0 + slope * f64::from(factor).ln());
                Self { frequencies: plain.enumerate().map(blend).collect(), magnitude }
            }
        }
    }

    /// Cosines of all pairs at `position`, then the sines.
    pub(crate) fn fill(&self, position: usize, out: &mut [f32]) {
        let (cos, sin) = out.split_at_mut(self.frequencies.len());
        for (i, frequency) in self.frequencies.iter().enumerate() {
            let (s, c) = (position as f64 * frequency).sin_cos();
            cos[i] = (c * self.magnitude) as f32;
            sin[i] = (s * self.magnitude) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        crate::generated::REGISTRY[0].shape
    }

    #[test]
    fn position_one_turns_pair_i_by_its_frequency() {
        let shape = Shape { rope_dim: 64, rope_base: 1e7, ..shape() };
        let mut out = [0.0; 64];
        RopeTable::new(&shape, &RopeScaling::None).fill(1, &mut out);
        assert!((out[0] - 0.540_302).abs() < 1e-6 && (out[32] - 0.841_471).abs() < 1e-6);
        // Pair 1 turns by 1e7^(-2/64) = 0.604296 rad.
        assert!((out[1] - 0.604_296f32.cos()).abs() < 1e-6);
    }

    #[test]
    fn yarn_with_factor_one_changes_nothing() {
        let yarn = RopeScaling::Yarn {
            factor: 1.0,
            original_context: 4096,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attn_factor: 1.0,
            ext_factor: 1.0,
            log_multiplier: 0.0,
        };
        let (mut a, mut b) = ([0.0; 16], [0.0; 16]);
        let shape = Shape { rope_dim: 16, rope_base: 1e7, ..shape() };
        RopeTable::new(&shape, &yarn).fill(777, &mut a);
        RopeTable::new(&shape, &RopeScaling::None).fill(777, &mut b);
        assert_eq!(a, b);
    }
}
