//! One sequence, cut into steps in many ways.

use pantheon::engine::{Engine, EngineOptions, Outputs, Run};

use crate::common::run::{self, assert_same};
use crate::{Case, cases};

/// Logits after each token, given in the pieces whose lengths are `cut`.
fn in_pieces(engine: &mut Engine, tokens: &[u32], cut: &[usize]) -> Vec<f32> {
    let (mut out, mut rest) = (Vec::new(), tokens);
    for &n in cut {
        let (piece, next) = rest.split_at(n);
        out.extend(run::logits(engine, 0, piece, n));
        rest = next;
    }
    assert!(rest.is_empty(), "the pieces are the whole");
    out
}

fn wide(case: &Case, chunk: usize) -> EngineOptions {
    EngineOptions { chunk, max_outputs: chunk, ..case.options.clone() }
}

#[test]
fn any_chunk_size_gives_the_same_bits() {
    for case in cases() {
        let tokens = case.tokens("chunks", 70);
        let expected = case.fresh(&wide(&case, tokens.len()), &tokens);
        for chunk in [1, 2, 3, 5, 7, 16, 31, 32, 33, 64] {
            let found = case.fresh(&wide(&case, chunk), &tokens);
            assert_same(&format!("{}, chunk {chunk}", case.name), &expected, &found);
        }
    }
}

#[test]
fn every_split_point_gives_the_same_bits() {
    for case in cases() {
        let tokens = case.tokens("splits", 9);
        let mut engine = run::engine(&case.gguf, &case.options);
        let expected = in_pieces(&mut engine, &tokens, &[9]);
        for first in 1..tokens.len() {
            engine.reset(0);
            let found = in_pieces(&mut engine, &tokens, &[first, tokens.len() - first]);
            assert_same(&format!("{}, split at {first}", case.name), &expected, &found);
        }
    }
}

#[test]
fn prompt_lengths_around_the_chunk_equal_one_token_at_a_time() {
    const CHUNK: usize = 8;
    for case in cases() {
        let tokens = case.tokens("lengths", 2 * CHUNK);
        let mut engine = run::engine(&case.gguf, &case.options);
        let one_by_one = run::logits(&mut engine, 0, &tokens, 1);
        for n in [1, 2, 3, 4, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1] {
            engine.reset(0);
            let found = run::logits(&mut engine, 0, &tokens[..n], CHUNK);
            let what = format!("{}, {n} tokens", case.name);
            assert_same(&what, &one_by_one[..n * case.vocab], &found);
            // What follows must find the state as it would be otherwise.
            let rest = run::logits(&mut engine, 0, &tokens[n..], CHUNK);
            assert_same(&what, &one_by_one[n * case.vocab..], &rest);
        }
    }
}

#[test]
fn the_last_row_is_the_same_whichever_rows_are_asked_for() {
    for case in cases() {
        let tokens = case.tokens("outputs", 12);
        let mut engine = run::engine(&case.gguf, &case.options);
        let all = run::logits(&mut engine, 0, &tokens, 12);
        engine.reset(0);
        let (head, tail) = tokens.split_at(5);
        engine.step(&[Run { sequence: 0, tokens: head, outputs: Outputs::None }]).unwrap();
        assert_eq!(engine.outputs(), 0);
        engine.step(&[Run { sequence: 0, tokens: tail, outputs: Outputs::Last }]).unwrap();
        assert_eq!(engine.outputs(), 1);
        assert_same(case.name, &all[11 * case.vocab..], engine.logits(0));
    }
}
