//! What memory this process may use and does use, as the operating system tells it.
//!
//! Figures only: [`HostMemory::read`] never fails, what cannot be found out is `None`. On Linux
//! they come from `/proc` and the control group (version 2, else 1); elsewhere nothing is known.

use std::fmt;
use std::path::{Path, PathBuf};

/// Memory figures of the machine and of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Installed memory (`MemTotal`).
    pub total: Option<u64>,
    /// What can be had without swapping (`MemAvailable`).
    pub available: Option<u64>,
    /// Resident set of this process (`VmRSS`); mapped weights count as far as they were touched.
    pub resident: Option<u64>,
    /// Largest resident set so far (`VmHWM`).
    pub peak: Option<u64>,
    /// Limit of the tightest control group around this process.
    pub group_limit: Option<u64>,
    /// What that control group uses, less file pages that can be dropped.
    pub group_used: Option<u64>,
}

impl HostMemory {
    /// Reads the figures now.
    pub fn read() -> Self {
        Self::read_below(Path::new("/"))
    }

    /// Reads the figures from a tree laid out like `/`.
    fn read_below(root: &Path) -> Self {
        let meminfo = text(&root.join("proc/meminfo"));
        let status = text(&root.join("proc/self/status"));
        let group = group(root);
        Self {
            total: kib_field(&meminfo, "MemTotal"),
            available: kib_field(&meminfo, "MemAvailable"),
            resident: kib_field(&status, "VmRSS"),
            peak: kib_field(&status, "VmHWM"),
            group_limit: group.map(|g| g.0),
            group_used: group.map(|g| g.1),
        }
    }

    /// What this process can still take: what the machine has, or what the control group leaves if
    /// less.
    pub fn free(&self) -> Option<u64> {
        let left = self.group_limit.map(|limit| limit.saturating_sub(self.group_used.unwrap_or(0)));
        match (self.available, left) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Bytes in a unit that reads well, with three digits: `8.39 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        for next in units {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        let decimals = match value {
            _ if unit == "B" => 0,
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn number(path: &Path) -> Option<u64> {
    text(path).trim().parse().ok()
}

/// The value of a line `NAME:   1234 kB`, in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Limit and use of the tightest control group, if there is a limit at all.
fn group(root: &Path) -> Option<(u64, u64)> {
    let own = text(&root.join("proc/self/cgroup"));
    let v2 = own.lines().find_map(|l| l.strip_prefix("0::/"));
    let v1 = own.lines().find_map(|l| {
        let (controllers, path) = l.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|c| c == "memory").then(|| path.trim_start_matches('/'))
    });
    let tightest = |mount: PathBuf, path: &str, limit: &str, used: &str, dropped: &str| {
        // A process in a container may see its own group as the mount's root: then the lower levels
        // are not there.
        let levels: Vec<PathBuf> =
            Path::new(path).ancestors().map(|level| mount.join(level)).collect();
        let figures = levels.iter().filter_map(|dir| {
            let limit = number(&dir.join(limit))?;
            let cache = stat(&text(&dir.join("memory.stat")), dropped).unwrap_or(0);
            Some((limit, number(&dir.join(used)).unwrap_or(0).saturating_sub(cache)))
        });
        // Version 1 says "no limit" with a number near 2^63.
        figures
            .filter(|&(limit, _)| limit < 1 << 62)
            .min_by_key(|&(limit, used)| limit.saturating_sub(used))
    };
    let mount = root.join("sys/fs/cgroup");
    v2.and_then(|path| {
        tightest(mount.clone(), path, "memory.max", "memory.current", "inactive_file")
    })
    .or_else(|| {
        let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        tightest(mount.join("memory"), v1?, limit, used, "total_inactive_file")
    })
}

/// A line `NAME 1234` of `memory.stat`.
fn stat(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    600 kB\n");

    #[test]
    fn the_tightest_group_of_version_2_counts_and_cache_is_not_use() {
        let root = tree(&[
            MEMINFO,
            ("proc/self/status", "VmHWM:\t  90 kB\nVmRSS:\t  70 kB\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "204800\n"),
            ("sys/fs/cgroup/a/memory.current", "102400\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 2400\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        let memory = HostMemory::read_below(root.path());
        assert_eq!(memory.total, Some(1_024_000));
        assert_eq!((memory.resident, memory.peak), (Some(71_680), Some(92_160)));
        assert_eq!((memory.group_limit, memory.group_used), (Some(204_800), Some(100_000)));
        assert_eq!(memory.free(), Some(104_800));
    }

    #[test]
    fn version_1_is_understood_and_its_no_limit_is_none() {
        let group = ("proc/self/cgroup", "5:cpu,memory:/x\n");
        let limit = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        let root = tree(&[MEMINFO, group, (limit, "9223372036854771712\n")]);
        assert_eq!(HostMemory::read_below(root.path()).free(), Some(614_400));
        let root = tree(&[MEMINFO, group, (limit, "4096\n")]);
        assert_eq!(HostMemory::read_below(root.path()).free(), Some(4096));
    }

    #[test]
    fn nothing_known_is_no_failure() {
        let root = tree(&[]);
        let memory = HostMemory::read_below(root.path());
        assert_eq!((memory, memory.free()), (HostMemory::default(), None));
    }

    #[test]
    fn bytes_read_well() {
        let shown =
            [0, 1023, 1024, 10_240, 1 << 20, 8_800_000, 3 << 30].map(|b| Bytes(b).to_string());
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.00 KiB", "10.0 KiB", "1.00 MiB", "8.39 MiB", "3.00 GiB"]
        );
    }
}
