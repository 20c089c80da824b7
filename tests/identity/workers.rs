//! Threads and instruction sets.

use pantheon::cpu::Isa;
use pantheon::engine::EngineOptions;

use crate::cases;
use crate::common::run::assert_same;

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for case in cases() {
        let tokens = case.tokens("threads", 37);
        let with = |threads| EngineOptions { threads: Some(threads), ..case.options.clone() };
        let expected = case.fresh(&with(1), &tokens);
        for threads in [2, 3, 5] {
            let found = case.fresh(&with(threads), &tokens);
            assert_same(&format!("{}, {threads} threads", case.name), &expected, &found);
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let sets = Isa::available();
    assert!(sets.contains(&Isa::Scalar), "{sets:?}");
    for case in cases() {
        let tokens = case.tokens("sets", 37);
        let with = |isa| EngineOptions { isa: Some(isa), ..case.options.clone() };
        let expected = case.fresh(&with(Isa::Scalar), &tokens);
        for &isa in &sets {
            let found = case.fresh(&with(isa), &tokens);
            assert_same(&format!("{}, {isa}", case.name), &expected, &found);
        }
    }
}
