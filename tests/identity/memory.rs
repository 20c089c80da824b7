//! What memory held before, the ring that wraps, and the storage of keys and values.

use pantheon::engine::{Engine, EngineOptions, Fix, LoadError};
use pantheon::state::KvFormat;

use crate::cases;
use crate::common::golden::assert_exact;
use crate::common::run::{self, assert_same};
use crate::common::{shape, synth, to_f32, weights};
use crate::reference::forward::{Reference, State};

#[test]
fn a_reset_sequence_starts_anew() {
    for case in cases() {
        let (first, second) = (case.tokens("first", 40), case.tokens("second", 11));
        let expected = case.fresh(&case.options, &second);
        let mut engine = run::engine(&case.gguf, &case.options);
        run::logits(&mut engine, 0, &first, 32);
        assert_eq!(engine.position(0), first.len());
        engine.reset(0);
        assert_eq!(engine.position(0), 0);
        assert_same(case.name, &expected, &run::logits(&mut engine, 0, &second, 32));
    }
}

#[test]
fn what_an_engine_holds_is_known_before_it_is_loaded() {
    for case in cases() {
        for sequences in [1, 3] {
            let options = EngineOptions { sequences, ..case.options.clone() };
            let needed = Engine::needs(&case.gguf, &options).unwrap();
            let held = run::engine(&case.gguf, &options).memory();
            assert_eq!(needed, held, "{}", case.name);
        }
    }
}

#[test]
fn nothing_is_read_before_it_is_written() {
    for case in cases() {
        let tokens = case.tokens("poison", 40);
        let expected = case.fresh(&case.options, &tokens);
        let mut engine = run::engine(&case.gguf, &case.options);
        for chunk in [32, 7, 1] {
            // Every byte of arena, rings and states becomes 0xFF: NaN in every format.
            engine.poison();
            let found = run::logits(&mut engine, 0, &tokens, chunk);
            assert_same(&format!("{}, chunk {chunk}", case.name), &expected, &found);
        }
    }
}

#[test]
fn a_wrapped_ring_gives_the_same_bits_for_any_cut_and_format() {
    for case in cases() {
        // 300 tokens through a window of 40: several turns of the ring.
        let tokens = case.tokens("ring", 300);
        for kv in [KvFormat::F32, KvFormat::F16] {
            let options = EngineOptions { ctx: 40, kv, ..case.options.clone() };
            let mut engine = run::engine(&case.gguf, &options);
            let expected = run::logits(&mut engine, 0, &tokens, 1);
            for chunk in [5, 32] {
                engine.reset(0);
                let found = run::logits(&mut engine, 0, &tokens, chunk);
                assert_same(&format!("{}, {kv}, chunk {chunk}", case.name), &expected, &found);
            }
        }
    }
}

#[test]
fn a_wrapped_ring_attends_to_exactly_the_last_tokens() {
    const WINDOW: usize = 20;
    let s = shape("odd");
    let (_file, gguf) = synth::odd_blocks(s);
    let tokens = synth::tokens("window", 150, s.n_vocab);
    let weights = weights(&gguf);
    let mut reference = Reference::new(s, &weights);
    let mut expected = Vec::new();
    for &token in &tokens {
        expected.extend(to_f32(&reference.token(token)));
        for state in &mut reference.states {
            if let State::Attention(state) = state
                && state.k.len() == WINDOW
            {
                // The next token sees itself and the last WINDOW - 1.
                state.k.remove(0);
                state.v.remove(0);
            }
        }
    }
    let options = EngineOptions { ctx: WINDOW, ..run::exact() };
    assert_exact("window", &expected, &run::fresh(&gguf, &options, &tokens), s.n_vocab);
}

#[test]
fn a_larger_context_or_more_sequences_change_no_bit() {
    for case in cases() {
        let tokens = case.tokens("context", 40);
        let expected = case.fresh(&case.options, &tokens);
        let larger = EngineOptions { ctx: 1000, sequences: 3, ..case.options.clone() };
        assert_same(case.name, &expected, &case.fresh(&larger, &tokens));
    }
}

#[test]
fn what_is_allocated_is_known_before_and_refused_if_it_does_not_fit() {
    for case in cases() {
        let options = EngineOptions { ctx: 700, sequences: 3, ..case.options.clone() };
        let used = run::engine(&case.gguf, &options).memory();
        let load = |memory| {
            let options = EngineOptions { memory: Some(memory), ..options.clone() };
            Engine::load(crate::common::open(case.gguf.name().as_ref()), &options)
        };
        assert!(load(used.allocated()).is_ok(), "{}", case.name);
        let Err(LoadError::Memory(shortage)) = load(used.allocated() - 1) else {
            panic!("{}: loaded", case.name);
        };
        let found = shortage.needed;
        assert_eq!((found.kv, found.states, found.arena), (used.kv, used.states, used.arena));
        assert_eq!(shortage.available, used.allocated() - 1);
        assert!(shortage.fixes.contains(&Fix::Sequences(2)), "{shortage}");
        assert!(matches!(shortage.fixes[0], Fix::Ctx(ctx) if ctx < 700), "{shortage}");
    }
}
