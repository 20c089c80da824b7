//! A team of threads, started once, that run the same program and meet at barriers (SPMD).
//!
//! The caller of [`Team::run`] is worker 0. Waiting spins briefly, then parks ([`wait`]), so an idle
//! team uses no CPU and a busy neighbour is let through. Work inside a region is claimed in small
//! pieces from a shared counter: a slow core takes fewer of them, and since no result depends on who
//! computed it, the split never changes a bit.

mod plane;
mod wait;

pub(crate) use plane::{OutOfMemory, Plane, Pod, SharedBuf};

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

use wait::Patience;

/// A job: the program every worker runs. The lifetime is erased; see [`Team::run`].
type Job = *const (dyn Fn(&Worker<'_>) + Sync);

/// Keeps neighbouring counters on separate cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// Where a worker parks, and how to wake it.
#[derive(Default)]
struct Seat {
    parked: AtomicBool,
    patience: Patience,
    thread: Mutex<Option<Thread>>,
}

struct Shared {
    count: usize,
    /// There are more workers than hardware threads to run them.
    crowded: bool,
    seats: Vec<Padded<Seat>>,
    /// Bumped once per job.
    epoch: Padded<AtomicU64>,
    job: Mutex<Option<SendJob>>,
    /// Workers that arrived at the current barrier.
    arrived: Padded<AtomicUsize>,
    /// Workers that are done with the current job.
    finished: Padded<AtomicUsize>,
    /// Bumped when a barrier opens.
    generation: Padded<AtomicU64>,
    /// Next unclaimed item of the current and of the next region.
    next: [Padded<AtomicUsize>; 2],
    /// A worker panicked: everybody else leaves instead of waiting for it.
    failed: AtomicBool,
    quit: AtomicBool,
}

struct SendJob(Job);
// SAFETY: the pointee is `Sync`, and `Team::run` keeps it alive until every worker is done with it.
unsafe impl Send for SendJob {}

/// The threads.
pub(crate) struct Team {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Team {
    /// Starts `count` workers, the caller of [`Team::run`] included.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn new(count: usize) -> std::io::Result<Self> {
        let count = count.max(1);
        let hardware = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shared = Arc::new(Shared {
            count,
            crowded: count > hardware,
            seats: (0..count).map(|_| Padded::default()).collect(),
            epoch: Padded::default(),
            job: Mutex::new(None),
            arrived: Padded::default(),
            finished: Padded::default(),
            generation: Padded::default(),
            next: Default::default(),
            failed: AtomicBool::new(false),
            quit: AtomicBool::new(false),
        });
        let mut team = Self { shared, handles: Vec::new() };
        for index in 1..count {
            let shared = Arc::clone(&team.shared);
            let thread = std::thread::Builder::new().name(format!("pantheon-{index}"));
            team.handles.push(thread.spawn(move || shared.serve(index))?);
        }
        Ok(team)
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> usize {
        self.shared.count
    }

    /// Runs `job` on every worker and returns when all are done. A worker's panic is passed on.
    pub(crate) fn run(&mut self, job: &(dyn Fn(&Worker<'_>) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: only the lifetime is erased. Workers use the pointer between the epoch bump below and
        // their increment of `finished`, and this function returns only after all of those.
        let erased: Job =
            unsafe { std::mem::transmute::<*const (dyn Fn(&Worker<'_>) + Sync + '_), Job>(job) };
        *lock(&shared.job) = Some(SendJob(erased));
        shared.take_seat(0);
        shared.reset();
        shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        shared.wake_all(0);
        let outcome = shared.work(0, job);
        shared.wait(0, || shared.finished.0.load(Ordering::SeqCst) == shared.count);
        *lock(&shared.job) = None;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        assert!(!shared.failed.load(Ordering::SeqCst), "a worker thread panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        self.shared.wake_all(0);
        for handle in self.handles.drain(..) {
            // A worker that panicked has already been reported by `run`.
            let _ = handle.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Life of a worker thread: wait for a job, run it, again.
    fn serve(&self, index: usize) {
        self.take_seat(index);
        let mut seen = 0;
        loop {
            self.wait(index, || self.epoch.0.load(Ordering::SeqCst) != seen);
            seen = self.epoch.0.load(Ordering::SeqCst);
            if self.quit.load(Ordering::SeqCst) {
                return;
            }
            let Some(job) = lock(&self.job).as_ref().map(|job| job.0) else { continue };
            // SAFETY: `run` published this job and waits for the closing barrier inside `work`.
            let _ = self.work(index, unsafe { &*job });
        }
    }

    /// One job on one worker.
    fn work(&self, index: usize, job: &(dyn Fn(&Worker<'_>) + Sync)) -> std::thread::Result<()> {
        let worker = Worker { shared: self, index, region: Cell::new(0) };
        let outcome = catch_unwind(AssertUnwindSafe(|| job(&worker)));
        if outcome.is_err() {
            self.failed.store(true, Ordering::SeqCst);
        }
        self.finished.0.fetch_add(1, Ordering::SeqCst);
        self.wake_all(index);
        outcome
    }

    /// Prepares the counters for a job; every worker is idle.
    fn reset(&self) {
        self.arrived.0.store(0, Ordering::SeqCst);
        self.finished.0.store(0, Ordering::SeqCst);
        self.next.iter().for_each(|next| next.0.store(0, Ordering::SeqCst));
        self.failed.store(false, Ordering::SeqCst);
    }

    fn take_seat(&self, index: usize) {
        *lock(&self.seats[index].0.thread) = Some(std::thread::current());
    }

    /// Wakes whoever sleeps. What they wait for was changed before.
    fn wake_all(&self, me: usize) {
        for (index, seat) in self.seats.iter().enumerate() {
            // Mostly nobody sleeps: looking first leaves the line in every worker's cache.
            if index != me
                && seat.0.parked.load(Ordering::SeqCst)
                && seat.0.parked.swap(false, Ordering::SeqCst)
                && let Some(thread) = &*lock(&seat.0.thread)
            {
                thread.unpark();
            }
        }
    }

    /// Waits until `ready`: awake for a while, then asleep.
    fn wait(&self, me: usize, ready: impl Fn() -> bool) {
        let Seat { parked, patience, .. } = &self.seats[me].0;
        if patience.awake(self.crowded, &ready) {
            return;
        }
        while !ready() {
            parked.store(true, Ordering::SeqCst);
            // The waker changes the condition first and looks at `parked` second.
            if !ready() {
                std::thread::park();
            }
            parked.store(false, Ordering::SeqCst);
        }
    }

    /// A barrier; a failed team does not wait at it.
    fn meet(&self, me: usize) {
        let generation = self.generation.0.load(Ordering::SeqCst);
        if self.arrived.0.fetch_add(1, Ordering::SeqCst) + 1 == self.count {
            self.arrived.0.store(0, Ordering::SeqCst);
            self.generation.0.fetch_add(1, Ordering::SeqCst);
            self.wake_all(me);
            return;
        }
        self.wait(me, || {
            self.generation.0.load(Ordering::SeqCst) != generation
                || self.failed.load(Ordering::SeqCst)
        });
    }
}

/// One worker inside a job.
pub(crate) struct Worker<'t> {
    shared: &'t Shared,
    index: usize,
    /// Regions entered so far; the same on every worker, since all run the same program.
    region: Cell<usize>,
}

impl Worker<'_> {
    /// This worker's number, `0..count`.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> usize {
        self.shared.count
    }

    /// One parallel region: `body` gets disjoint ranges that cover `0..items`, each at most `grain`
    /// long; ends with a barrier.
    pub(crate) fn parallel(&self, items: usize, grain: usize, mut body: impl FnMut(Range<usize>)) {
        assert!(grain > 0, "items are claimed in pieces of at least one");
        let region = self.region.get();
        self.region.set(region + 1);
        let next = &self.shared.next[region % 2].0;
        loop {
            let start = next.fetch_add(grain, Ordering::Relaxed);
            if start >= items {
                break;
            }
            body(start..(start + grain).min(items));
        }
        // The other counter is idle between the last barrier and this one: everybody has left the
        // region that used it and nobody has entered the one that will.
        if self.index == 0 {
            self.shared.next[(region + 1) % 2].0.store(0, Ordering::Relaxed);
        }
        self.barrier();
    }

    /// A region for one worker; ends with a barrier.
    pub(crate) fn single(&self, body: impl FnOnce()) {
        if self.index == 0 {
            body();
        }
        self.barrier();
    }

    fn barrier(&self) {
        if self.shared.count > 1 {
            self.shared.meet(self.index);
            assert!(!self.shared.failed.load(Ordering::SeqCst), "another worker panicked");
        }
    }
}

#[cfg(test)]
mod tests;
