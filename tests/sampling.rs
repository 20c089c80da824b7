//! Sampling: what every parameter does, and what must never be drawn.

use std::time::Instant;

use pantheon::gguf::{Blob, Gguf, Value, Writer};
use pantheon::sampling::{
    FileSampling, LogitMask, Logprobs, Mode, Sampler, SamplerFlags, SamplerParams, SamplingError,
    logprobs,
};
use pantheon::tokenizer::{Tokenizer, Vocabulary};

fn seeded(seed: u64) -> SamplerParams {
    SamplerParams { seed: Some(seed), ..SamplerParams::NEUTRAL }
}

fn sampler(params: SamplerParams, rows: usize) -> Sampler {
    Sampler::new(params, LogitMask::from_ids(rows, &[], &[])).unwrap()
}

/// Draws `n` tokens of the same logits, without counting them.
fn draws(params: SamplerParams, logits: &[f32], n: usize) -> Vec<u32> {
    let mut sampler = sampler(params, logits.len());
    (0..n).map(|_| sampler.sample(logits).unwrap()).collect()
}

/// Shares of each id in many draws.
fn shares(params: SamplerParams, logits: &[f32]) -> Vec<f64> {
    const N: usize = 20_000;
    let mut shares = vec![0.0; logits.len()];
    for id in draws(params, logits, N) {
        shares[id as usize] += 1.0 / N as f64;
    }
    shares
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|l| f64::from(*l).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

fn assert_near(found: &[f64], expected: &[f64]) {
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() < 0.015, "{found:?} {expected:?}");
    }
}

/// A small reproducible random source.
fn random_logits(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| (next() + next() + next() + next() - 2.0) * 6.0).collect()
}

#[test]
fn draws_follow_the_distribution() {
    let logits = [0.0, 2.0, 1.0, -1.0];
    assert_near(&shares(seeded(1), &logits), &softmax(&logits));
    let hot = SamplerParams { temperature: 2.0, ..seeded(2) };
    assert_near(&shares(hot, &logits), &softmax(&logits.map(|l| l / 2.0)));
    assert_ne!(draws(seeded(3), &logits, 50), draws(seeded(4), &logits, 50));
    assert_eq!(draws(seeded(3), &logits, 50), draws(seeded(3), &logits, 50));
}

#[test]
fn a_top_k_of_nothing_or_everything_changes_nothing() {
    let logits = [0.0, 3.0, 1.0, 2.0];
    let with = |top_k| draws(SamplerParams { top_k, ..seeded(5) }, &logits, 200);
    let all = with(4);
    assert!((0..4).all(|id| all.contains(&id)), "{all:?}");
    for top_k in [0, -1, i64::MIN, 1_000_000_000] {
        assert_eq!(with(top_k), all);
    }
    assert_eq!(with(1), [1; 200]);
    assert!(with(2).iter().all(|id| [1, 3].contains(id)));
    let two = SamplerParams { top_k: 2, ..seeded(6) };
    let kept = softmax(&[3.0, 2.0]);
    assert_near(&shares(two, &logits), &[0.0, kept[0], 0.0, kept[1]]);
}

#[test]
fn top_p_keeps_the_fewest_that_reach_it_and_at_least_one() {
    let logits = [0.5f32.ln(), 0.3f32.ln(), 0.15f32.ln(), 0.05f32.ln()];
    let kept = |top_p| {
        let mut ids = draws(SamplerParams { top_p, ..seeded(7) }, &logits, 2000);
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    for top_p in [0.0, 1e-9, 0.3, 0.49] {
        assert_eq!(kept(top_p), [0]);
    }
    assert_eq!(kept(0.6), [0, 1]);
    assert_eq!(kept(0.9), [0, 1, 2]);
    assert_eq!(kept(1.0), [0, 1, 2, 3]);
    // The cut is made after the temperature: flatter probabilities need more tokens.
    let flat = SamplerParams { top_p: 0.6, temperature: 100.0, ..seeded(7) };
    assert!(draws(flat, &logits, 500).contains(&2));
}

#[test]
fn top_p_without_top_k_looks_as_far_as_it_must() {
    // Uniform: 0.9 of 5,000 tokens needs 4,500 of them, the lowest ids.
    let uniform = vec![0.0f32; 5000];
    let ids = draws(SamplerParams { top_p: 0.9, ..seeded(8) }, &uniform, 1000);
    assert!(ids.iter().all(|id| *id < 4501) && ids.iter().any(|id| *id > 4400));
}

#[test]
fn min_p_is_relative_to_the_most_likely() {
    let logits = [0.5f32.ln(), 0.3f32.ln(), 0.15f32.ln(), 0.05f32.ln()];
    let kept = |min_p| {
        let mut ids = draws(SamplerParams { min_p, ..seeded(9) }, &logits, 2000);
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    assert_eq!(kept(1.0), [0]);
    assert_eq!(kept(0.55), [0, 1]);
    assert_eq!(kept(0.2), [0, 1, 2]);
    assert_eq!(kept(0.05), [0, 1, 2, 3]);
}

#[test]
fn temperature_zero_takes_the_best_and_tiny_ones_stay_finite() {
    let logits = [0.0, 3.0, 1.0, 2.0];
    for params in [
        SamplerParams { temperature: 0.0, ..seeded(1) },
        SamplerParams { temperature: 0.0, top_k: 3, top_p: 0.0, min_p: 1.0, ..seeded(1) },
        SamplerParams { temperature: 1e-9, ..seeded(1) },
        SamplerParams { temperature: f32::MIN_POSITIVE, top_p: 0.5, ..seeded(1) },
    ] {
        assert_eq!(draws(params, &logits, 20), [1; 20]);
    }
    let greedy = SamplerParams { temperature: 0.0, ..seeded(1) };
    assert_eq!(draws(greedy.clone(), &[1.0, 5.0, 5.0, 5.0], 3), [1; 3], "ties go to the lowest id");
    assert_eq!(draws(greedy, &[-4.0, -3.0], 1), [1]);
    let huge = [3e38, -3e38, 3e38];
    assert!(draws(seeded(2), &huge, 50).iter().all(|id| *id != 1));
}

#[test]
fn parameters_out_of_range_are_named() {
    let neutral = SamplerParams::NEUTRAL;
    let bad = [
        ("temperature", SamplerParams { temperature: -0.1, ..neutral.clone() }),
        ("temperature", SamplerParams { temperature: f32::NAN, ..neutral.clone() }),
        ("temperature", SamplerParams { temperature: f32::INFINITY, ..neutral.clone() }),
        ("top_p", SamplerParams { top_p: 1.1, ..neutral.clone() }),
        ("top_p", SamplerParams { top_p: -0.1, ..neutral.clone() }),
        ("min_p", SamplerParams { min_p: f32::NAN, ..neutral.clone() }),
        ("presence_penalty", SamplerParams { presence_penalty: 2.5, ..neutral.clone() }),
        ("frequency_penalty", SamplerParams { frequency_penalty: -3.0, ..neutral.clone() }),
        ("repeat_penalty", SamplerParams { repeat_penalty: 0.0, ..neutral.clone() }),
        ("repeat_penalty", SamplerParams { repeat_penalty: 1e-38, ..neutral.clone() }),
        ("repeat_penalty", SamplerParams { repeat_penalty: f32::INFINITY, ..neutral.clone() }),
    ];
    for (name, params) in bad {
        let error = Sampler::new(params, LogitMask::from_ids(4, &[], &[])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: expected a number ")), "{error}");
    }
}

#[test]
fn penalties_count_generated_tokens() {
    let greedy = |params: SamplerParams| {
        let mut sampler = sampler(SamplerParams { temperature: 0.0, ..params }, 4);
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(sampler.sample(&[3.0, 2.5, 2.0, -1.0]).unwrap());
            sampler.accept(ids[ids.len() - 1]);
        }
        ids
    };
    let neutral = SamplerParams::NEUTRAL;
    assert_eq!(greedy(neutral.clone()), [0; 6]);
    // Once each: 3 - 1.5, 2.5 - 1.5, 2 - 1.5; then the first again.
    let presence = SamplerParams { presence_penalty: 1.5, ..neutral.clone() };
    assert_eq!(greedy(presence), [0, 1, 2, 0, 0, 0]);
    // 3, 2.5, 2.4, 2, 1.9, 1.8: each time costs 0.6.
    let frequency = SamplerParams { frequency_penalty: 0.6, ..neutral.clone() };
    assert_eq!(greedy(frequency), [0, 1, 0, 2, 1, 0]);
    let repeat = SamplerParams { repeat_penalty: 2.0, ..neutral.clone() };
    assert_eq!(greedy(repeat.clone()), [0, 1, 2, 0, 0, 0]);
    // A window forgets: after two others, the first is as good as new.
    let window = SamplerParams { repeat_window: Some(2), ..repeat.clone() };
    assert_eq!(greedy(window), [0, 1, 2, 0, 1, 2]);
    let none = SamplerParams { repeat_window: Some(0), ..repeat };
    assert_eq!(greedy(none), [0; 6]);

    // A negative logit is made smaller, not larger.
    let mut sampler =
        sampler(SamplerParams { temperature: 0.0, repeat_penalty: 2.0, ..neutral }, 2);
    sampler.accept(0);
    sampler.accept(7);
    assert_eq!(sampler.sample(&[-1.0, -1.5]).unwrap(), 1);
}

/// Two tokens, one of them named as never to be drawn, an unused row; the head has two more rows.
fn padded() -> (Tokenizer, LogitMask) {
    let vocabulary = Vocabulary {
        tokens: ["a", "b", "c", "d", "[PAD]"].map(str::to_owned).to_vec(),
        types: vec![1, 1, 1, 1, 5],
        suppress: vec![2],
        ..Vocabulary::default()
    };
    let tokenizer = Tokenizer::new(&vocabulary, Some("qwen35")).unwrap();
    let mask = LogitMask::new(&tokenizer, 7);
    (tokenizer, mask)
}

#[test]
fn padding_rows_and_suppressed_tokens_are_never_drawn() {
    let (tokenizer, mask) = padded();
    assert_eq!((mask.rows(), mask.padding()), (7, &[4, 5, 6][..]));
    let peak = [0.0, 1.0, 50.0, 0.5, 90.0, f32::NAN, f32::INFINITY];
    let mut greedy =
        Sampler::new(SamplerParams { temperature: 0.0, ..seeded(1) }, mask.clone()).unwrap();
    assert_eq!(greedy.sample(&peak).unwrap(), 1);
    for params in [seeded(2), SamplerParams { top_k: 6, top_p: 0.99, ..seeded(3) }] {
        let mut sampler = Sampler::new(params, mask.clone()).unwrap();
        for _ in 0..10_000 {
            let id = sampler.sample(&[0.0; 7]).unwrap();
            assert!(id != 2 && tokenizer.is_named(id), "{id}");
        }
    }
    let Logprobs { top, .. } = logprobs(&peak, 1, 7, &mask).unwrap();
    let mut listed: Vec<u32> = top.iter().map(|t| t.id).collect();
    listed.sort_unstable();
    assert_eq!(listed, [0, 1, 2, 3], "suppressed tokens are tokens still");
    assert!(matches!(logprobs(&peak, 4, 1, &mask), Err(SamplingError::Token { id: 4, rows: 7 })));
}

#[test]
fn logits_that_are_no_numbers_are_errors() {
    let mut sampler = sampler(seeded(1), 3);
    assert!(matches!(
        sampler.sample(&[0.0; 2]),
        Err(SamplingError::Rows { expected: 3, found: 2 })
    ));
    assert!(matches!(
        sampler.sample(&[0.0, f32::NAN, 0.0]),
        Err(SamplingError::NotFinite { id: 1, .. })
    ));
    let infinite = [0.0, 0.0, f32::INFINITY];
    assert!(matches!(sampler.sample(&infinite), Err(SamplingError::NotFinite { id: 2, .. })));
    assert!(matches!(sampler.sample(&[f32::NEG_INFINITY; 3]), Err(SamplingError::AllMasked)));
    let one = [f32::NEG_INFINITY, -7.0, f32::NEG_INFINITY];
    assert_eq!(sampler.sample(&one).unwrap(), 1);
    let mask = LogitMask::from_ids(3, &[], &[]);
    assert!(matches!(
        logprobs(&infinite, 0, 1, &mask),
        Err(SamplingError::NotFinite { id: 2, .. })
    ));
    assert!(matches!(logprobs(&[0.0; 2], 0, 1, &mask), Err(SamplingError::Rows { .. })));
}

#[test]
fn logprobs_are_the_models_own() {
    let logits = [1.0f32, 0.0, -1.0, -2.0];
    let mask = LogitMask::from_ids(4, &[], &[]);
    for temperature in [1.0, 0.5, 0.0] {
        for top_k in [0, 1] {
            let params = SamplerParams { temperature, top_k, ..seeded(1) };
            let mut sampler = sampler(params, 4);
            let id = sampler.sample(&logits).unwrap();
            let found = logprobs(&logits, id, 4, sampler.mask()).unwrap();
            for (token, (id, expected)) in
                found.top.iter().zip([-0.4402, -1.4402, -2.4402, -3.4402].iter().enumerate())
            {
                assert_eq!(token.id, id as u32);
                assert!((token.logprob - expected).abs() < 1e-4 && token.logprob <= 0.0);
            }
            assert_eq!(found.chosen, found.top[id as usize]);
        }
    }
    let outside = logprobs(&logits, 3, 1, &mask).unwrap();
    assert_eq!((outside.top.len(), outside.top[0].id, outside.chosen.id), (1, 0, 3));
    assert!(logprobs(&logits, 0, 0, &mask).unwrap().top.is_empty());
    assert_eq!(logprobs(&logits, 0, 20, &mask).unwrap().top.len(), 4);
    let error = logprobs(&logits, 0, 21, &mask).unwrap_err().to_string();
    assert_eq!(error, "top_logprobs: expected at most 20, found 21");

    let impossible = [0.0, f32::NEG_INFINITY, 0.0, 0.0];
    let found = logprobs(&impossible, 1, 4, &mask).unwrap();
    assert_eq!(found.chosen.logprob, -9999.0);
    assert_eq!(found.top.iter().map(|t| t.id).collect::<Vec<_>>(), [0, 2, 3]);
    // A certain token has probability 1, not a little more.
    assert_eq!(
        logprobs(&[100.0, -100.0, -100.0, -100.0], 0, 0, &mask).unwrap().chosen.logprob,
        0.0
    );
}

#[test]
fn the_bytes_of_half_a_character_are_its_own() {
    // ð and Ł spell F0 9F in the byte alphabet.
    let vocabulary = Vocabulary { tokens: vec!["ð\u{141}".to_owned()], ..Vocabulary::default() };
    let tokenizer = Tokenizer::new(&vocabulary, None).unwrap();
    assert_eq!(tokenizer.bytes(0), [240, 159]);
    assert_eq!(tokenizer.decode(&[0], false), "\u{fffd}");
}

fn file(keys: &[(&str, Value)]) -> FileSampling {
    try_file(keys).unwrap()
}

fn try_file(keys: &[(&str, Value)]) -> Result<FileSampling, SamplingError> {
    let mut writer = Writer::new();
    writer.key("general.architecture", "any");
    for (key, value) in keys {
        writer.key(key, value.clone());
    }
    let mut bytes = Vec::new();
    writer.write(&mut bytes, |_, _| Ok(())).unwrap();
    FileSampling::from_gguf(&Gguf::from_blob("s.gguf", &Blob::from(bytes)).unwrap())
}

#[test]
fn values_come_from_flags_then_the_file_then_the_card() {
    let resolve =
        |flags: &SamplerFlags, file: &FileSampling, mode| SamplerParams::resolve(flags, file, mode);
    let none = SamplerFlags::default();
    let card = resolve(&none, &file(&[]), Mode::Thinking).unwrap();
    let expected = SamplerParams {
        temperature: 1.0,
        top_p: 0.95,
        top_k: 20,
        presence_penalty: 1.5,
        ..SamplerParams::NEUTRAL
    };
    assert_eq!(card, expected);
    let card = resolve(&none, &file(&[]), Mode::NonThinking).unwrap();
    assert_eq!(card, SamplerParams { temperature: 0.7, top_p: 0.8, ..expected });

    // What a file does not say is neutral as soon as it says anything.
    let some =
        file(&[("general.sampling.top_k", 40i32.into()), ("general.sampling.temp", 0.6f32.into())]);
    let resolved = resolve(&none, &some, Mode::Thinking).unwrap();
    assert_eq!(resolved, SamplerParams { temperature: 0.6, top_k: 40, ..SamplerParams::NEUTRAL });

    let flags =
        SamplerFlags { top_k: Some(3), presence_penalty: Some(0.5), seed: Some(9), ..none.clone() };
    let resolved = resolve(&flags, &some, Mode::Thinking).unwrap();
    let expected = SamplerParams {
        temperature: 0.6,
        top_k: 3,
        presence_penalty: 0.5,
        seed: Some(9),
        ..SamplerParams::NEUTRAL
    };
    assert_eq!(resolved, expected);

    let more = file(&[
        ("general.sampling.penalty_repeat", 1.1f32.into()),
        ("general.sampling.penalty_last_n", 64i32.into()),
        ("general.sampling.min_p", 0.1f32.into()),
    ]);
    let resolved = resolve(&none, &more, Mode::Thinking).unwrap();
    assert_eq!(
        (resolved.repeat_penalty, resolved.repeat_window, resolved.min_p),
        (1.1, Some(64), 0.1)
    );
    let all = file(&[("general.sampling.penalty_last_n", (-1i32).into())]);
    assert_eq!(resolve(&none, &all, Mode::Thinking).unwrap().repeat_window, None);

    let bad = SamplerFlags { temperature: Some(-1.0), ..none };
    assert!(matches!(
        resolve(&bad, &some, Mode::Thinking),
        Err(SamplingError::Parameter { name: "temperature", .. })
    ));
    for (key, value) in [
        ("general.sampling.temp", Value::from("hot")),
        ("general.sampling.temp", f32::NAN.into()),
        ("general.sampling.top_p", 7.0f32.into()),
        ("general.sampling.top_k", vec![1i32, 2].into()),
    ] {
        let message = try_file(&[(key, value)]).unwrap_err().to_string();
        assert!(message.contains("s.gguf") && message.contains(key), "{message}");
    }
}

#[test]
fn the_seed_in_use_can_be_asked_for() {
    assert_eq!(sampler(seeded(77), 2).seed(), 77);
    let (a, b) = (sampler(SamplerParams::NEUTRAL, 2), sampler(SamplerParams::NEUTRAL, 2));
    assert_ne!(a.seed(), b.seed());
    let logits = random_logits(100, 3);
    let mut unseeded = sampler(SamplerParams::NEUTRAL, 100);
    let first: Vec<u32> = (0..20).map(|_| unseeded.sample(&logits).unwrap()).collect();
    assert_eq!(draws(seeded(unseeded.seed()), &logits, 20), first);
}

/// The tokens that may be drawn, found the slow way: sort everything, then cut.
fn kept_slowly(logits: &[f32], params: &SamplerParams) -> Vec<u32> {
    let mut all: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|l| f64::from(*l))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if params.top_k > 0 {
        all.truncate(params.top_k as usize);
    }
    let weight = |l: f64| ((l - all[0].1) / f64::from(params.temperature)).exp();
    let total: f64 = all.iter().map(|(_, l)| weight(*l)).sum();
    let mut sum = 0.0;
    let mut kept = Vec::new();
    for (id, logit) in &all {
        if sum >= f64::from(params.top_p) * total && params.top_p < 1.0 && !kept.is_empty() {
            break;
        }
        sum += weight(*logit);
        if weight(*logit) >= f64::from(params.min_p) {
            kept.push(*id);
        }
    }
    kept
}

#[test]
fn fast_cuts_equal_slow_ones() {
    for (seed, (top_k, top_p, min_p)) in [
        (20, 0.95, 0.0),
        (1, 1.0, 0.0),
        (5, 0.5, 0.0),
        (0, 0.3, 0.0),
        (700, 0.99, 0.01),
        (0, 1.0, 0.2),
        (33, 1.0, 0.0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut logits = random_logits(1001, seed as u64);
        // Ties across the cut.
        logits.iter_mut().for_each(|l| *l = (*l * 4.0).round() / 4.0);
        let params = SamplerParams { top_k, top_p, min_p, temperature: 1.5, ..seeded(seed as u64) };
        let slow = kept_slowly(&logits, &params);
        let mut drawn = draws(params, &logits, 10_000);
        drawn.sort_unstable();
        drawn.dedup();
        assert!(drawn.iter().all(|id| slow.contains(id)), "{top_k} {top_p} {min_p}");
        if slow.len() <= 20 {
            assert_eq!(drawn.len(), slow.len(), "{top_k} {top_p} {min_p}");
        }
    }
}

#[test]
fn a_large_vocabulary_is_sampled_in_about_a_millisecond() {
    let logits = random_logits(248_320, 1);
    let padding: Vec<u32> = (248_077..248_320).collect();
    for (top_k, top_p, budget) in [(20, 0.95, 0.004), (0, 0.95, 0.05)] {
        let params = SamplerParams { top_k, top_p, presence_penalty: 1.5, ..seeded(1) };
        let mask = LogitMask::from_ids(logits.len(), &padding, &[]);
        let mut sampler = Sampler::new(params, mask).unwrap();
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let started = Instant::now();
            let id = sampler.sample(&logits).unwrap();
            best = best.min(started.elapsed().as_secs_f64());
            sampler.accept(id);
        }
        println!("top_k {top_k} top_p {top_p}: {:.3} ms", best * 1e3);
        assert!(best < budget, "top_k {top_k}: {best} s");
    }
}
