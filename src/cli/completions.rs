//! `pantheon completions`: scripts that let a shell complete the command line.

use clap::CommandFactory;

const EXAMPLES: &str = "\
Examples:
  pantheon completions bash > ~/.local/share/bash-completion/completions/pantheon
  pantheon completions zsh > ~/.zfunc/_pantheon
  pantheon completions fish > ~/.config/fish/completions/pantheon.fish";

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "pantheon", &mut script);
    Ok(super::output::print_bytes(&script)?)
}
