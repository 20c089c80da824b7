//! Runs a file's chat template within bounds.
//!
//! The template comes with the file, so it may be hostile. The interpreter bounds its steps and its
//! recursion; what it does not bound is memory: a template can double a string with every step. So
//! the compiled program is changed before it runs ([`program`]): wherever an instruction makes a
//! string or a container, calls into a [`budget::Budget`] surround it. Filters, functions and
//! methods come from [`library`] alone, where each has a bound of what it makes. Two rules follow:
//!
//! * All strings and containers made in one rendering, together, stay below [`budget::TOTAL`].
//! * Containers hold plain data of limited depth and of limited size when written out, so that
//!   printing, comparing and dropping one is cheap, and none contains itself.

mod bounds;
mod budget;
mod library;
mod program;
mod source;

use std::sync::Arc;

use minijinja::machinery::{Vm, make_string_output};
use minijinja::{AutoEscape, Environment, Error, Value};

use budget::Budget;
pub(crate) use budget::TooLarge;
use program::Program;

/// Instructions a rendering may take; a message takes a few hundred.
const FUEL: u64 = 20_000_000;

/// Checks that a template can be compiled.
pub(crate) fn check(name: &str, source: &str) -> Result<(), Error> {
    Program::compile(name, source).map(drop)
}

/// Renders a template that [`check`] accepted. `functions` adds what the caller provides.
pub(crate) fn render(
    name: &str,
    source: &str,
    context: Vec<(String, Value)>,
    functions: impl Fn(&mut Environment<'_>),
) -> Result<String, Error> {
    let budget = Arc::new(Budget::default());
    let mut environment = library::environment(&budget);
    functions(&mut environment);
    environment.set_fuel(Some(FUEL));
    let program = Program::compile(name, source)?;
    let context = context.into_iter().map(|(key, value)| Ok((key, budget.keep(value)?)));
    let context: Value = context.collect::<Result<Vec<_>, Error>>()?.into_iter().collect();
    let mut text = String::new();
    let mut output = make_string_output(&mut text);
    Vm::new(&environment).eval(
        &program.main,
        context,
        &program.blocks,
        &mut output,
        AutoEscape::None,
    )?;
    drop(output);
    Ok(text)
}
