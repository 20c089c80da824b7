//! Files that take their name when they are complete, so that no half-written one is ever found.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;

/// The temporary names in use.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that are not complete, for a program that ends at once.
pub(super) fn discard_all() {
    for temporary in unfinished().drain(..) {
        // Nothing more can be done about a file that cannot be removed.
        let _ = std::fs::remove_file(temporary);
    }
}

/// A file being written. Dropped before [`Partial::keep`] it leaves nothing behind.
pub(super) struct Partial {
    file: File,
    /// Its name until it is complete; none where the target is no ordinary file and is written
    /// directly.
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl Partial {
    /// Opens a file that will be `target`. Devices and pipes are written as they are, links are
    /// followed.
    pub(super) fn create(target: &Path) -> anyhow::Result<Self> {
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let problem = || format!("cannot write {}", target.display());
        if target.is_dir() {
            anyhow::bail!(
                "cannot write {}: expected a file name, found a directory",
                target.display()
            );
        }
        if target.exists() && !target.is_file() {
            let file = File::options().write(true).open(&target).with_context(problem)?;
            return Ok(Self { file, temporary: None, target });
        }
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = target.with_file_name(name);
        let file = File::create(&temporary).with_context(problem)?;
        unfinished().push(temporary.clone());
        Ok(Self { file, temporary: Some(temporary), target })
    }

    /// Where to write.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// What to say when writing fails.
    pub(super) fn problem(&self) -> String {
        format!("cannot write {}", self.target.display())
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self) -> anyhow::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        std::fs::rename(temporary, &self.target).with_context(|| self.problem())?;
        unfinished().retain(|other| other != temporary);
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            unfinished().retain(|other| other != temporary);
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Writes a whole file.
pub(super) fn write(target: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let partial = Partial::create(target)?;
    std::io::Write::write_all(&mut partial.file(), bytes).with_context(|| partial.problem())?;
    partial.keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        drop(Partial::create(&target).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        write(&target, b"one").unwrap();
        write(&target, b"two").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(dir.path(), b"").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_and_stays_a_device() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }
}
