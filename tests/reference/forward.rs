//! The whole model, one token at a time.

use super::{Layer, Shape, Weights, add, attention, gdn, head, moe};

/// Watches values go by: layer, name of the value, the value. Layer `n_layer` is the head.
pub type Probe<'a> = &'a mut dyn FnMut(usize, &'static str, &[f64]);

/// The state of one layer's mixer.
pub enum State {
    /// Gated DeltaNet.
    Gdn(gdn::State),
    /// Gated attention.
    Attention(attention::State),
}

/// A model and one sequence.
pub struct Reference<'w> {
    shape: &'w Shape,
    weights: &'w Weights,
    /// One per layer.
    pub states: Vec<State>,
    position: usize,
}

impl<'w> Reference<'w> {
    /// A sequence before its first token.
    pub fn new(shape: &'w Shape, weights: &'w Weights) -> Self {
        let state = |layer: usize| {
            if (layer + 1).is_multiple_of(shape.full_attention_interval) {
                State::Attention(attention::State::default())
            } else {
                State::Gdn(gdn::State::new(shape))
            }
        };
        Self { shape, weights, states: (0..shape.n_layer).map(state).collect(), position: 0 }
    }

    /// The logits `[n_vocab]` after the next token.
    pub fn token(&mut self, token: u32) -> Vec<f64> {
        self.watched(token, &mut |_, _, _| {})
    }

    /// The logits after each of `tokens`.
    pub fn tokens(&mut self, tokens: &[u32]) -> Vec<Vec<f64>> {
        tokens.iter().map(|&t| self.token(t)).collect()
    }

    /// As [`Self::token`], showing every value to `probe`.
    pub fn watched(&mut self, token: u32, probe: Probe<'_>) -> Vec<f64> {
        let s = self.shape;
        let mut x = head::embed(s, self.weights, token);
        for (layer, state) in self.states.iter_mut().enumerate() {
            let w = self.weights.layer(layer);
            probe(layer, "input", &x);
            let mixed = match state {
                State::Gdn(state) => gdn_mixer(s, w, &x, state, probe),
                State::Attention(state) => attention_mixer(s, w, &x, self.position, state, probe),
            };
            add(&mut x, &mixed);
            probe(layer, "mixer_residual", &x);
            let experts = mixture(s, w, &x, probe);
            add(&mut x, &experts);
            probe(layer, "output", &x);
        }
        self.position += 1;
        let (h, logits) = head::head(s, self.weights, &x);
        probe(s.n_layer, "final_norm", &h);
        logits
    }
}

fn gdn_mixer(s: &Shape, w: Layer<'_>, x: &[f64], st: &mut gdn::State, see: Probe<'_>) -> Vec<f64> {
    let p = gdn::project(s, w, x);
    let r = gdn::recur(s, w, &p, st);
    let y = gdn::output(w, &r.gated);
    let values: [(&'static str, &[f64]); 14] = [
        ("attn_norm", &p.h),
        ("qkv", &p.qkv),
        ("z", &p.z),
        ("alpha", &p.alpha),
        ("beta_input", &p.beta),
        ("conv", &r.conv),
        ("q", &r.q),
        ("k", &r.k),
        ("decay", &r.decay),
        ("beta", &r.beta),
        ("delta", &r.delta),
        ("gated", &r.gated),
        ("mixer", &y),
        ("state", &st.delta),
    ];
    values.iter().for_each(|(name, value)| see(w.index, name, value));
    y
}

fn attention_mixer(
    s: &Shape,
    w: Layer<'_>,
    x: &[f64],
    position: usize,
    state: &mut attention::State,
    see: Probe<'_>,
) -> Vec<f64> {
    let p = attention::project(s, w, x, position);
    state.k.push(p.k.clone());
    state.v.push(p.v.clone());
    let m = attention::mix(s, &p, state);
    let y = attention::output(w, &m.gated);
    let values: [(&'static str, &[f64]); 11] = [
        ("attn_norm", &p.h),
        ("q_raw", &p.q_raw),
        ("gate", &p.gate),
        ("q_norm", &p.q_norm),
        ("k_norm", &p.k_norm),
        ("q", &p.q),
        ("k", &p.k),
        ("v", &p.v),
        ("context", &m.context),
        ("gated", &m.gated),
        ("mixer", &y),
    ];
    values.iter().for_each(|(name, value)| see(w.index, name, value));
    m.weights.iter().for_each(|head| see(w.index, "attention", head));
    y
}

fn mixture(s: &Shape, w: Layer<'_>, x: &[f64], see: Probe<'_>) -> Vec<f64> {
    let r = moe::route(s, w, x);
    let ff = moe::up(s, w, &r);
    let y = moe::down(s, w, &r, &ff);
    let experts: Vec<f64> = r.experts.iter().map(|&e| e as f64).collect();
    see(w.index, "post_norm", &r.h);
    see(w.index, "router", &r.logits);
    see(w.index, "experts", &experts);
    see(w.index, "expert_weights", &r.weights);
    see(w.index, "shared_gate", &[r.shared]);
    see(w.index, "ff", &ff.concat());
    see(w.index, "moe", &y);
    y
}
