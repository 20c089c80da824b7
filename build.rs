//! Generates the code of every model that this build is specialised for.
//!
//! Reads `model.toml`, or the list that the environment variable `PANTHEON_MODEL_TOML` names (a
//! path relative to this folder, or an absolute one), and writes to `OUT_DIR/models/`. What is
//! generated is decided in the `codegen` crate; `src/generated.rs` includes it.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

const LIST: &str = "PANTHEON_MODEL_TOML";

fn main() -> std::process::ExitCode {
    match generate() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error:#}\n");
            std::process::ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<()> {
    let list = PathBuf::from(env::var_os(LIST).unwrap_or_else(|| "model.toml".into()));
    println!("cargo::rerun-if-env-changed={LIST}");
    println!("cargo::rerun-if-changed={}", list.display());
    let text = fs::read_to_string(&list)
        .with_context(|| format!("expected a list of models in {}", list.display()))?;
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    let files = pantheon_codegen::generate(&text, &name)?;

    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is set by cargo")?);
    let folder = out.join("models");
    for file in &files {
        write_if_changed(&folder.join(&file.path), &file.text)?;
    }
    println!("generated {} files from {} in {}", files.len(), list.display(), folder.display());
    Ok(())
}

/// Keeps the time stamp of a file that is already right, so that nothing is compiled again for it.
fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().context("generated files lie in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
