//! The `pantheon` command. All of it is in [`pantheon::cli`].

fn main() -> std::process::ExitCode {
    pantheon::cli::main()
}
