//! Several sequences in one step.

use pantheon::engine::{Engine, EngineOptions, Outputs, Run};

use crate::common::golden::argmax;
use crate::common::run::{self, assert_same};
use crate::{Case, cases};

/// An engine with `n` sequences.
fn engine(case: &Case, n: usize) -> Engine {
    run::engine(&case.gguf, &EngineOptions { sequences: n, ..case.options.clone() })
}

/// The logits of `tokens` alone, one row per token.
fn solo(case: &Case, tokens: &[u32]) -> Vec<f32> {
    run::logits(&mut engine(case, 1), 0, tokens, 32)
}

fn run_of(sequence: usize, tokens: &[u32]) -> Run<'_> {
    Run { sequence, tokens, outputs: Outputs::All }
}

#[test]
fn identical_prompts_at_once_give_one_answer() {
    for case in cases() {
        let tokens = case.tokens("identical", 6);
        let prompt = solo(&case, &tokens);
        for n in 1..=4 {
            let mut engine = engine(&case, n);
            let runs: Vec<_> = (0..n).map(|sequence| run_of(sequence, &tokens)).collect();
            engine.step(&runs).unwrap();
            for row in 0..n * tokens.len() {
                let at = row % tokens.len() * case.vocab;
                let what = format!("{}, {n} sequences, row {row}", case.name);
                assert_same(&what, &prompt[at..at + case.vocab], engine.logits(row));
            }
            // Then greedy decoding, all of them in every step.
            let mut history = tokens.clone();
            for _ in 0..4 {
                let next = [argmax(engine.logits(engine.outputs() - 1))];
                history.push(next[0]);
                let runs: Vec<_> = (0..n).map(|sequence| run_of(sequence, &next)).collect();
                engine.step(&runs).unwrap();
                (1..n).for_each(|row| {
                    assert_same(case.name, engine.logits(0), engine.logits(row));
                });
            }
            let expected = solo(&case, &history);
            assert_same(case.name, &expected[expected.len() - case.vocab..], engine.logits(0));
        }
    }
}

#[test]
fn interleaved_sequences_equal_their_solo_runs() {
    for case in cases() {
        let prompts: Vec<_> = (0..3).map(|i| case.tokens(&format!("interleaved {i}"), 9)).collect();
        let expected: Vec<_> = prompts.iter().map(|tokens| solo(&case, tokens)).collect();
        let mut engine = engine(&case, 3);
        // One token each in the order 0, 1, 0, 2, 1, over and over; graphs and states of one
        // sequence must not serve another.
        let mut next = [0; 3];
        for sequence in [0, 1, 0, 2, 1].into_iter().cycle().take(15) {
            let at = next[sequence];
            engine.step(&[run_of(sequence, &prompts[sequence][at..=at])]).unwrap();
            let row = &expected[sequence][at * case.vocab..(at + 1) * case.vocab];
            assert_same(&format!("{}, sequence {sequence}", case.name), row, engine.logits(0));
            next[sequence] += 1;
        }
        assert_eq!([0, 1, 2].map(|s| engine.position(s)), next);
    }
}

#[test]
fn prompts_and_decoding_in_one_step_equal_their_solo_runs() {
    for case in cases() {
        let prompts: Vec<_> = (0..4).map(|i| case.tokens(&format!("ragged {i}"), 20)).collect();
        let expected: Vec<_> = prompts.iter().map(|tokens| solo(&case, tokens)).collect();
        let mut engine = engine(&case, 4);
        let mut next = [0; 4];
        // (sequence, tokens) of each run: orders, lengths and companions all change.
        let steps: [&[(usize, usize)]; 5] = [
            &[(2, 7), (0, 1)],
            &[(1, 5), (3, 2), (0, 3), (2, 1)],
            &[(3, 1)],
            &[(0, 9), (2, 8), (3, 10), (1, 1)],
            &[(1, 14), (0, 7), (2, 4), (3, 7)],
        ];
        for step in steps {
            let runs: Vec<_> =
                step.iter().map(|&(s, n)| run_of(s, &prompts[s][next[s]..next[s] + n])).collect();
            engine.step(&runs).unwrap();
            let mut row = 0;
            for &(sequence, n) in step {
                for at in next[sequence]..next[sequence] + n {
                    let expected = &expected[sequence][at * case.vocab..(at + 1) * case.vocab];
                    let what = format!("{}, sequence {sequence}, token {at}", case.name);
                    assert_same(&what, expected, engine.logits(row));
                    row += 1;
                }
                next[sequence] += n;
            }
            assert_eq!(row, engine.outputs());
        }
        assert_eq!(next, [20; 4]);
    }
}

#[test]
fn resetting_one_sequence_leaves_the_others() {
    for case in cases() {
        let (a, b) = (case.tokens("stays", 8), case.tokens("leaves", 8));
        let expected = solo(&case, &a);
        let mut engine = engine(&case, 2);
        engine.step(&[run_of(0, &a[..4]), run_of(1, &b)]).unwrap();
        engine.reset(1);
        engine.step(&[run_of(1, &a), run_of(0, &a[4..])]).unwrap();
        for (row, at) in (0..8).chain(4..8).enumerate() {
            let expected = &expected[at * case.vocab..(at + 1) * case.vocab];
            assert_same(&format!("{}, row {row}", case.name), expected, engine.logits(row));
        }
    }
}
