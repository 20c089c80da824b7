//! Which cores this process may use, and how many threads are worth starting on them.
//!
//! The kernels keep a core's arithmetic and its share of memory bandwidth busy from one hardware
//! thread; a second one on the same core only adds to the waiting at barriers. So the default is one
//! thread for each physical core, and never more than the control group's quota pays for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// What the operating system says about the processors that this process may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Cores; `None` where it is not known which hardware threads share one.
    pub physical: Option<usize>,
    /// Hardware threads.
    pub logical: usize,
    /// Hardware threads' worth of time, by affinity and by the control group's quota.
    pub allowed: usize,
}

/// Why just so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are that many cores.
    Cores,
    /// Which hardware threads share a core is unknown: there are that many of them.
    HardwareThreads,
    /// More would exceed the quota.
    Quota,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cores => "one for each physical core",
            Self::HardwareThreads => "one for each hardware thread, since cores are unknown",
            Self::Quota => "what the control group's CPU quota pays for",
        })
    }
}

impl Cores {
    /// Asks now.
    pub fn read() -> Self {
        // The standard library takes the smaller of the affinity mask and the quota of the control
        // group, version 1 or 2, on Linux; elsewhere what the system counts.
        let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::read_below(Path::new("/"), allowed)
    }

    /// Reads a tree laid out like `/`.
    fn read_below(root: &Path, allowed: usize) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let status = text("proc/thread-self/status");
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let mask = list(mask.unwrap_or_default());
        if mask.is_empty() {
            return Self { physical: None, logical: allowed, allowed };
        }
        // A core counts by the first of its hardware threads that may be used; the others are found
        // to be the same one.
        let first_sibling = |cpu: &usize| {
            let name = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            list(&text(&name)).intersection(&mask).next().copied()
        };
        let cores: Option<BTreeSet<usize>> = mask.iter().map(first_sibling).collect();
        Self { physical: cores.map(|cores| cores.len()), logical: mask.len(), allowed }
    }

    /// Threads to start where nothing else is said.
    pub fn threads(&self) -> usize {
        self.physical.unwrap_or(self.logical).min(self.allowed).max(1)
    }

    /// Why [`Cores::threads`].
    pub fn reason(&self) -> Reason {
        match self.physical {
            _ if self.allowed < self.physical.unwrap_or(self.logical) => Reason::Quota,
            Some(_) => Reason::Cores,
            None => Reason::HardwareThreads,
        }
    }
}

/// A list of the kernel's, such as `0-3,8`. What is none gives nothing.
fn list(text: &str) -> BTreeSet<usize> {
    // Far above any machine; keeps a wrong file from filling memory.
    const MOST: usize = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse().ok()?..=last.parse().ok().filter(|last| *last < MOST)?;
        Some(range)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose thread may run on `mask`, with these siblings per processor.
    fn machine(mask: &str, siblings: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, content: String| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        put("proc/thread-self/status", format!("Name:\tx\nCpus_allowed_list:\t{mask}\n"));
        for (cpu, list) in siblings.iter().enumerate() {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            put(&format!("{topology}/thread_siblings_list"), format!("{list}\n"));
        }
        root
    }

    fn found(mask: &str, siblings: &[&str], allowed: usize) -> (Cores, usize, Reason) {
        let cores = Cores::read_below(machine(mask, siblings).path(), allowed);
        (cores, cores.threads(), cores.reason())
    }

    const NEIGHBOURS: [&str; 8] = ["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"];
    const HALVES: [&str; 8] = ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"];

    #[test]
    fn siblings_count_once_however_they_are_numbered() {
        for siblings in [NEIGHBOURS, HALVES] {
            let (cores, threads, reason) = found("0-7", &siblings, 8);
            assert_eq!(cores, Cores { physical: Some(4), logical: 8, allowed: 8 });
            assert_eq!((threads, reason), (4, Reason::Cores));
        }
        let single = found("0-2", &["0", "1", "2"], 3);
        assert_eq!((single.0.physical, single.1, single.2), (Some(3), 3, Reason::Cores));
    }

    #[test]
    fn only_what_the_affinity_mask_has_counts() {
        // Both threads of core 0, one of core 1, one of core 3.
        let (cores, threads, _) = found("0-2,7", &NEIGHBOURS, 4);
        assert_eq!((cores.physical, cores.logical, threads), (Some(3), 4, 3));
        // The second threads alone: their first siblings may not be used.
        let (cores, threads, _) = found("4-7", &HALVES, 4);
        assert_eq!((cores.physical, cores.logical, threads), (Some(4), 4, 4));
    }

    #[test]
    fn a_quota_below_the_cores_decides() {
        let (cores, threads, reason) = found("0-7", &NEIGHBOURS, 3);
        assert_eq!((cores.logical, cores.allowed), (8, 3));
        assert_eq!((threads, reason), (3, Reason::Quota));
        // Less than all hardware threads, but enough for all cores.
        let (_, threads, reason) = found("0-7", &NEIGHBOURS, 5);
        assert_eq!((threads, reason), (4, Reason::Cores));
    }

    #[test]
    fn what_is_unknown_is_counted_in_hardware_threads() {
        let (cores, threads, reason) = found("0-5", &[], 6);
        assert_eq!((cores.physical, cores.logical), (None, 6));
        assert_eq!((threads, reason), (6, Reason::HardwareThreads));
        let (_, threads, reason) = found("0-5", &[], 2);
        assert_eq!((threads, reason), (2, Reason::Quota));
        let nothing = tempfile::tempdir().unwrap();
        let cores = Cores::read_below(nothing.path(), 5);
        assert_eq!((cores.physical, cores.threads()), (None, 5));
    }

    #[test]
    fn lists_are_read_and_nonsense_is_none() {
        assert_eq!(list(" 0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        for nonsense in ["", "x", "3-1", "0-99999999999", "-", "1-"] {
            assert!(list(nonsense).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn this_machine_has_something_to_compute_on() {
        let cores = Cores::read();
        assert!((1..=cores.logical).contains(&cores.threads()), "{cores:?}");
        assert!(cores.physical.is_none_or(|n| (1..=cores.logical).contains(&n)), "{cores:?}");
    }
}
