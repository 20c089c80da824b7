//! The sampler: one per generated sequence.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use super::{LogitMask, SamplerParams, SamplingError};

/// A token that may be drawn.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    logit: f32,
}

/// How many candidates a top-p without top-k looks at first.
const FIRST_GUESS: usize = 256;

/// Draws tokens. Remembers what was generated, for the penalties, and the state of its random
/// numbers.
///
/// The same seed, parameters and logits give the same tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplerParams,
    mask: LogitMask,
    seed: u64,
    random: ChaCha12Rng,
    /// Generated tokens that the penalties count, oldest first; only kept when there is a window.
    recent: VecDeque<u32>,
    counts: HashMap<u32, u32>,
    /// Penalised logits, `[rows]`.
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
    weights: Vec<f64>,
}

impl Sampler {
    /// A sampler for logits of `mask.rows()` rows.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(params: SamplerParams, mask: LogitMask) -> Result<Sampler, SamplingError> {
        params.check()?;
        let seed = params.seed.unwrap_or_else(random_seed);
        let rows = mask.rows();
        Ok(Sampler {
            random: ChaCha12Rng::seed_from_u64(seed),
            seed,
            params,
            mask,
            recent: VecDeque::new(),
            counts: HashMap::new(),
            logits: Vec::with_capacity(rows),
            candidates: Vec::with_capacity(rows),
            weights: Vec::with_capacity(rows),
        })
    }

    /// The seed in use, given or random.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The parameters in use.
    pub fn params(&self) -> &SamplerParams {
        &self.params
    }

    /// The rows that are never drawn.
    pub fn mask(&self) -> &LogitMask {
        &self.mask
    }

    /// Counts a token as generated: the penalties of later draws know it.
    pub fn accept(&mut self, id: u32) {
        if !self.params.has_penalties() {
            return;
        }
        *self.counts.entry(id).or_insert(0) += 1;
        let Some(window) = self.params.repeat_window else { return };
        self.recent.push_back(id);
        while self.recent.len() > window {
            let Some(old) = self.recent.pop_front() else { break };
            if let Some(count) = self.counts.get_mut(&old) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&old);
                }
            }
        }
    }

    /// Draws the next token from the model's logits. Does not count it: see [`Sampler::accept`].
    ///
    /// # Errors
    /// If the number of logits is wrong, one of them is not a number or +infinite, or nothing can
    /// be drawn.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        if logits.len() != self.mask.rows() {
            return Err(SamplingError::Rows { expected: self.mask.rows(), found: logits.len() });
        }
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.penalise();
        for id in self.mask.masked() {
            self.logits[id as usize] = f32::NEG_INFINITY;
        }
        let best = best(&self.logits)?;
        if self.params.temperature == 0.0 {
            return Ok(best.id);
        }
        self.keep_top_k();
        self.keep_top_p(best.logit);
        self.keep_min_p(best.logit);
        Ok(self.draw(best))
    }

    /// Applies the penalties to the tokens that were generated.
    fn penalise(&mut self) {
        let SamplerParams { presence_penalty, frequency_penalty, repeat_penalty, .. } = self.params;
        for (&id, &count) in &self.counts {
            let Some(logit) = self.logits.get_mut(id as usize) else { continue };
            if *logit > 0.0 {
                *logit /= repeat_penalty;
            } else {
                *logit *= repeat_penalty;
            }
            *logit -= presence_penalty + frequency_penalty * count as f32;
        }
    }

    /// Fills `candidates` with the top-k tokens (all of them without a top-k), in no order.
    fn keep_top_k(&mut self) {
        self.candidates.clear();
        let k = usize::try_from(self.params.top_k).unwrap_or(0);
        if k == 0 || k >= self.logits.len() {
            let all = (0..).zip(&self.logits).map(|(id, logit)| Candidate { id, logit: *logit });
            self.candidates.extend(all.filter(|c| c.logit > f32::NEG_INFINITY));
            return;
        }
        // Candidates are collected above a bar, and cut back to k whenever there are twice as many:
        // the bar rises fast, so that nearly all tokens cost one comparison. A token that ties with
        // the bar has a higher id.
        let mut bar = f32::NEG_INFINITY;
        for (id, &logit) in (0..).zip(&self.logits) {
            if logit > bar {
                self.candidates.push(Candidate { id, logit });
                if self.candidates.len() >= 2 * k.max(32) {
                    select(&mut self.candidates, k);
                    bar = self.candidates[k - 1].logit;
                }
            }
        }
        if self.candidates.len() > k {
            select(&mut self.candidates, k);
        }
    }

    /// Keeps the most likely candidates whose probabilities reach top-p; the one that reaches it
    /// stays.
    fn keep_top_p(&mut self, max: f32) {
        let top_p = f64::from(self.params.top_p);
        if top_p >= 1.0 {
            return;
        }
        let weight = |c: &Candidate| weight(c.logit, max, self.params.temperature);
        let total: f64 = self.candidates.iter().map(weight).sum();
        let mut sorted = 0;
        let mut sum = 0.0;
        // Few candidates decide; only as many are sorted as are needed.
        let mut guess = FIRST_GUESS;
        while sorted < self.candidates.len() {
            let rest = &mut self.candidates[sorted..];
            if guess < rest.len() {
                rest.select_nth_unstable_by(guess - 1, rank);
            }
            let end = guess.min(rest.len());
            rest[..end].sort_unstable_by(rank);
            for at in sorted..sorted + end {
                sum += weight(&self.candidates[at]);
                if sum >= top_p * total {
                    self.candidates.truncate(at + 1);
                    return;
                }
            }
            sorted += end;
            guess *= 8;
        }
    }

    /// Keeps candidates that are likely enough relative to the most likely token.
    fn keep_min_p(&mut self, max: f32) {
        let min_p = f64::from(self.params.min_p);
        if min_p > 0.0 {
            let temperature = self.params.temperature;
            self.candidates.retain(|c| weight(c.logit, max, temperature) >= min_p);
        }
    }

    /// Draws one of the candidates, in order of id, so that the order in which they were found
    /// plays no part.
    fn draw(&mut self, best: Candidate) -> u32 {
        self.candidates.sort_unstable_by_key(|c| c.id);
        let temperature = self.params.temperature;
        let weights = self.candidates.iter().map(|c| weight(c.logit, best.logit, temperature));
        self.weights.clear();
        self.weights.extend(weights);
        let total: f64 = self.weights.iter().sum();
        let mut left = self.random.random::<f64>() * total;
        for (candidate, weight) in self.candidates.iter().zip(&self.weights) {
            left -= weight;
            if left < 0.0 {
                return candidate.id;
            }
        }
        // Rounding used up the sum: the most likely token stands in.
        best.id
    }
}

/// Most likely first; of equals the lowest id.
fn rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// Cuts back to the `k` first in rank, the last of them at the end.
fn select(candidates: &mut Vec<Candidate>, k: usize) {
    candidates.select_nth_unstable_by(k - 1, rank);
    candidates.truncate(k);
}

/// A token's weight at a temperature, relative to the largest logit: 0 to 1.
fn weight(logit: f32, max: f32, temperature: f32) -> f64 {
    ((f64::from(logit) - f64::from(max)) / f64::from(temperature)).exp()
}

/// The largest logit, of equals the lowest id. Checks that all are numbers.
fn best(logits: &[f32]) -> Result<Candidate, SamplingError> {
    let mut best = Candidate { id: 0, logit: f32::NEG_INFINITY };
    for (id, &logit) in logits.iter().enumerate() {
        if logit > best.logit {
            best = Candidate { id: id as u32, logit };
        } else if logit.is_nan() {
            return Err(SamplingError::NotFinite { id, value: logit });
        }
    }
    match best.logit {
        f32::NEG_INFINITY => Err(SamplingError::AllMasked),
        f32::INFINITY => {
            Err(SamplingError::NotFinite { id: best.id as usize, value: f32::INFINITY })
        }
        _ => Ok(best),
    }
}

/// A seed from the operating system's randomness, which the hasher of every process carries.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
