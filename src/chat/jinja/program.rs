//! The compiled template, with calls into the budget around every instruction that makes something.

use std::collections::BTreeMap;

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, WhitespaceConfig, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};

use super::source;

// Names of the functions that a program calls. No template can spell them.
/// `(value)`: the value, kept; a string in it is not new.
pub(super) const KEEP: &str = "\0keep";
/// `(value)`: the value, kept; a string is new.
pub(super) const MADE: &str = "\0made";
/// `(a, b)`: `[b, a]`, once their product is known to be small enough.
pub(super) const BEFORE_REPEAT: &str = "\0repeat";
/// `(a, b)`: `[b, a]`, once both written one after the other are known to be small enough.
pub(super) const BEFORE_CONCAT: &str = "\0concat";
/// `(a, b)`: `[b, a]`, once `a` is known to be small when written, if `b` is a string.
pub(super) const BEFORE_SEARCH: &str = "\0search";
/// `(lists...)`: all their items.
pub(super) const SPREAD: &str = "\0spread";
/// `(macro)`: the macro, paid for.
pub(super) const MACRO: &str = "\0macro";

/// A template's instructions, and those of its blocks by name.
pub(super) struct Program<'s> {
    pub(super) main: Instructions<'s>,
    pub(super) blocks: BTreeMap<&'s str, Instructions<'s>>,
}

impl<'s> Program<'s> {
    /// Compiles a template, written for Hugging Face's `apply_chat_template`.
    pub(super) fn compile(name: &'s str, text: &'s str) -> Result<Program<'s>, Error> {
        let whitespace = WhitespaceConfig {
            keep_trailing_newline: false,
            lstrip_blocks: true,
            trim_blocks: true,
        };
        source::check_text(text, whitespace)?;
        let tree = parse(text, name, SyntaxConfig, whitespace)?;
        source::check_constants(&tree)?;
        let mut generator = CodeGenerator::new(name, text);
        generator.compile_stmt(&tree);
        let (main, blocks) = generator.finish();
        let blocks = blocks.iter().map(|(name, code)| Ok((*name, bounded(code)?)));
        Ok(Program { main: bounded(&main)?, blocks: blocks.collect::<Result<_, Error>>()? })
    }
}

/// The same instructions with their guards.
fn bounded<'s>(code: &Instructions<'s>) -> Result<Instructions<'s>, Error> {
    let all = (0..code.len() as u32).filter_map(|at| code.get(at).cloned());
    let parts: Vec<Vec<Instruction<'s>>> = all.map(guarded).collect::<Result<_, _>>()?;
    // Where each old instruction begins now; jumps may also go to the end.
    let mut starts = vec![0];
    for part in &parts {
        starts.push(starts[starts.len() - 1] + part.len() as u32);
    }
    let mut bounded = Instructions::new(code.name(), code.source());
    for (at, part) in (0..).zip(parts) {
        for mut instruction in part {
            if let Some(target) = target(&mut instruction) {
                *target = starts[*target as usize];
            }
            match (code.get_span(at), code.get_line(at)) {
                (Some(span), _) => bounded.add_with_span(instruction, span),
                (None, Some(line)) => bounded.add_with_line(instruction, line as u16),
                (None, None) => bounded.add(instruction),
            };
        }
    }
    Ok(bounded)
}

/// Where an instruction may go on instead of at the next one.
fn target<'i>(instruction: &'i mut Instruction<'_>) -> Option<&'i mut u32> {
    use Instruction as I;
    match instruction {
        I::Iterate(to)
        | I::Jump(to)
        | I::JumpIfFalse(to)
        | I::JumpIfFalseOrPop(to)
        | I::JumpIfTrueOrPop(to)
        | I::BuildMacro(_, to, _) => Some(to),
        _ => None,
    }
}

/// An instruction with its guards. Every kind is named here, so that a new one is noticed.
fn guarded(instruction: Instruction<'_>) -> Result<Vec<Instruction<'_>>, Error> {
    use Instruction as I;
    let call = |name, arguments| I::CallFunction(name, Some(arguments));
    let (keep, made) = (|| call(KEEP, 1), || call(MADE, 1));
    Ok(match instruction {
        // All output passes the formatter, which counts it.
        I::EmitRaw(text) => vec![I::LoadConst(Value::from(text)), I::Emit],
        I::BuildMap(_) | I::BuildList(_) | I::Add | I::Slice => vec![instruction, made()],
        I::Mul => vec![call(BEFORE_REPEAT, 2), I::UnpackList(2), instruction, made()],
        I::StringConcat => vec![call(BEFORE_CONCAT, 2), I::UnpackList(2), instruction],
        I::In => vec![call(BEFORE_SEARCH, 2), I::UnpackList(2), instruction],
        // The value is below the namespace.
        I::SetAttr(_) => vec![I::Swap, keep(), I::Swap, instruction],
        I::UnpackLists(lists) => match u16::try_from(lists) {
            Ok(lists) => vec![call(SPREAD, lists), I::UnpackLists(1)],
            Err(_) => return refuse("a call with fewer lists of arguments"),
        },
        I::BuildMacro(..) => vec![instruction, call(MACRO, 1)],
        I::Include(_) | I::LoadBlocks | I::ExportLocals => {
            return refuse("a template that stands alone, without include, import or extends");
        }
        // These make nothing, or as much as the program has of them, or their parts are in the
        // library.
        I::StoreLocal(_) | I::Lookup(_) | I::GetAttr(_) | I::GetItem | I::LoadConst(_) => {
            vec![instruction]
        }
        I::BuildKwargs(_) | I::MergeKwargs(_) | I::UnpackList(_) => vec![instruction],
        I::Sub | I::Div | I::IntDiv | I::Rem | I::Pow | I::Neg => vec![instruction],
        I::Eq | I::Ne | I::Gt | I::Gte | I::Lt | I::Lte | I::Not => vec![instruction],
        I::CompareAndPreserve(_) | I::IsUndefined => vec![instruction],
        I::ApplyFilter(..) | I::PerformTest(..) | I::Emit => vec![instruction],
        I::CallFunction(..) | I::CallMethod(..) | I::CallObject(_) => vec![instruction],
        I::PushLoop(_) | I::PushWith | I::Iterate(_) | I::PushDidNotIterate => vec![instruction],
        I::PopFrame | I::PopLoopFrame | I::Jump(_) | I::JumpIfFalse(_) => vec![instruction],
        I::JumpIfFalseOrPop(_) | I::JumpIfTrueOrPop(_) => vec![instruction],
        I::PushAutoEscape | I::PopAutoEscape | I::BeginCapture(_) | I::EndCapture => {
            vec![instruction]
        }
        I::DupTop | I::DiscardTop | I::Swap | I::FastSuper | I::FastRecurse => vec![instruction],
        I::CallBlock(_) | I::Return | I::Enclose(_) | I::GetClosure => vec![instruction],
    })
}

fn refuse<T>(expected: &str) -> Result<T, Error> {
    Err(Error::new(ErrorKind::SyntaxError, format!("expected {expected}")))
}
