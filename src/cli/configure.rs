//! `pantheon configure`: a file's shape as an entry of `model.toml`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pantheon_codegen::{ModelSpec, spec, to_toml_entry};

use super::shape_match::compiled_shapes;
use super::{mix, models, output, partial, usage};
use crate::gguf::Gguf;
use crate::weights::FileShape;

const EXAMPLES: &str = "\
Examples:
  pantheon configure model.gguf                    print the entry
  pantheon configure model.gguf --write            add it to model.toml
  cargo build --release                            and build for it";

/// The list of models that a build reads.
const LIST: &str = "model.toml";
/// Environment variable that names another list, for the build and for this command.
const VARIABLE: &str = "PANTHEON_MODEL_TOML";

/// Write the entry of model.toml that specialises the program for a file's shape
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// GGUF file; of several parts, the first
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the model: a-z, 0-9, `-` and `.` [default: made from the file's own name]
    #[arg(long, value_name = "NAME", value_parser = model_name)]
    name: Option<String>,

    /// Add the entry to the list of models
    #[arg(long)]
    write: bool,

    /// List to add it to [default: $PANTHEON_MODEL_TOML, else model.toml here or in a folder above]
    #[arg(long, value_name = "FILE.toml", requires = "write")]
    into: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let gguf = Gguf::open(&args.file)?;
    let file = FileShape::read(&gguf)?;
    file.warnings.iter().for_each(|warning| output::note(format_args!("warning: {warning}")));
    let name = args.name.clone().unwrap_or_else(|| name_of(&gguf, &args.file));
    let mut model = models::spec_of(&file.shape, &name);
    model.reference_mix = mix::nearest(&gguf, &model).name.to_owned();
    model.mixes = mix::stage_mixes(&gguf, &model);
    if !args.write {
        check(&model)?;
        output::print(&to_toml_entry(&model))?;
        // Without a list in reach there is still an entry to print.
        let known = List::open(None).ok().and_then(|list| list.known(&model));
        let note = compiled_in(&file)
            .or(known)
            .unwrap_or_else(|| format!("this entry is not in {LIST}: --write adds it"));
        output::note(format_args!("{note}"));
        return Ok(());
    }
    let list = List::open(args.into.as_deref())?;
    if let Some(known) = list.known(&model) {
        output::note(format_args!("{known}"));
        return Ok(());
    }
    if list.models.iter().any(|other| other.name == model.name) {
        match &args.name {
            Some(name) => {
                return usage(format!(
                    "--name {name}: {} has a model of this name with another shape; choose another",
                    list.path.display()
                ));
            }
            None => model.name = list.free_name(&model.name),
        }
    }
    check(&model)?;
    list.append(&model, &args.file)?;
    output::print(&format!(
        "added {} to {}; {}\n",
        model.name,
        list.path.display(),
        list.next_command()
    ))?;
    Ok(())
}

fn model_name(text: &str) -> Result<String, String> {
    match spec::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected {}", spec::NAME_RULE)),
    }
}

/// Whether the program can be specialised for the shape: the rules are those of `model.toml`.
fn check(model: &ModelSpec) -> anyhow::Result<()> {
    spec::parse(&to_toml_entry(model), "the file's shape")
        .map(|_| ())
        .context("the program cannot be specialised for this file")
}

/// Says under which name this program has the file's shape, if it has.
fn compiled_in(file: &FileShape) -> Option<String> {
    let compiled = compiled_shapes();
    let name = compiled.iter().find(|shape| file.diff(shape).is_empty())?.name;
    Some(format!("this shape is compiled in already, as {name}: nothing to do"))
}

/// A name from `general.name`, else from the file's name, where they can be names.
fn name_of(gguf: &Gguf, path: &Path) -> String {
    let stated = gguf.str("general.name").ok().flatten().map(plain_name);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let names = stated.into_iter().chain([plain_name(&stem)]);
    names.into_iter().find(|name| spec::is_name(name)).unwrap_or_else(|| "model".to_owned())
}

/// Lower case, everything that is no letter, digit or dot a single dash; begins with a letter.
fn plain_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() || c == '.' {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    let start = name.find(|c: char| c.is_ascii_lowercase()).unwrap_or(name.len());
    name[start..].chars().take(48).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// A list of models to add to.
struct List {
    path: PathBuf,
    text: String,
    models: Vec<ModelSpec>,
    /// Whether a plain `cargo build` reads it.
    is_default: bool,
}

impl List {
    fn open(into: Option<&Path>) -> anyhow::Result<Self> {
        let variable = std::env::var_os(VARIABLE).map(PathBuf::from);
        let is_default = into.is_none() && variable.is_none();
        let path = match into.map(Path::to_owned).or(variable) {
            Some(path) => path,
            None => nearest_list()?,
        };
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read the model list {}", path.display()))?;
        let models = spec::parse(&text, &path.display().to_string())
            .context("the list must be in order before an entry can be added")?;
        Ok(Self { path, text, models, is_default })
    }

    /// Says under which name the list has the model's shape, if it has.
    fn known(&self, model: &ModelSpec) -> Option<String> {
        let shape = models::shape_of(model);
        let twin = self.models.iter().find(|other| models::shape_of(other) == shape)?;
        let (list, next) = (self.path.display(), self.next_command());
        let name = &twin.name;
        Some(format!("{list} has this shape already, as {name}: nothing to write; {next}"))
    }

    /// The name with the first number behind it that no model has.
    fn free_name(&self, name: &str) -> String {
        let taken = |name: &String| self.models.iter().any(|model| model.name == *name);
        let mut numbered = (2..).map(|n| format!("{name}-{n}"));
        numbered.find(|name| !taken(name)).unwrap_or_default()
    }

    /// Adds an entry at the end; what is there stays as it is, comments and all.
    fn append(&self, model: &ModelSpec, source: &Path) -> anyhow::Result<()> {
        let mut text = self.text.trim_end().to_owned();
        let source = source.file_name().unwrap_or_default().to_string_lossy();
        let source: String = source.chars().filter(|c| !c.is_control()).collect();
        text += &format!("\n\n# From {source}.\n{}", to_toml_entry(model));
        spec::parse(&text, &self.path.display().to_string())?;
        partial::write(&self.path, text.as_bytes())
    }

    fn next_command(&self) -> String {
        if self.is_default {
            return "next: cargo build --release".to_owned();
        }
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        format!("next: {VARIABLE}={} cargo build --release", path.display())
    }
}

/// `model.toml` in the working directory or above it, else above the program (which cargo puts
/// below the sources).
fn nearest_list() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let folders = here.ancestors().chain(program.ancestors());
    let found = folders.map(|folder| folder.join(LIST)).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None => usage(format!(
            "there is no {LIST} in {} or above it: run this in the source folder, or name a list \
             with --into",
            here.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn names_become_plain() {
        let cases = [
            ("Nex-N2-mini", "nex-n2-mini"),
            ("Qwen3.5 35B  A3B (Instruct)", "qwen3.5-35b-a3b-instruct"),
            ("  42 — model", "model"),
            ("...", ""),
            ("Größe_XL", "gr-e-xl"),
        ];
        for (text, name) in cases {
            assert_eq!(plain_name(text), name, "{text}");
        }
    }
}
