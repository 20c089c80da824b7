use super::*;

#[test]
fn every_item_of_every_region_is_done_once() {
    for count in [1, 2, 3, 5] {
        let mut team = Team::new(count).expect("threads");
        let done: Vec<AtomicUsize> = (0..97).map(|_| AtomicUsize::new(0)).collect();
        for round in 1..=20 {
            team.run(&|w| {
                for grain in [1, 4, 97, 200] {
                    w.parallel(done.len(), grain, |range| {
                        for item in range {
                            done[item].fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 4 * round));
        }
    }
}

#[test]
fn a_region_sees_what_the_last_one_wrote() {
    let mut team = Team::new(3).expect("threads");
    let buf = SharedBuf::zeroed(64 * 4).expect("memory");
    let plane = buf.plane::<u32>(0, 1, 64);
    team.run(&|w| {
        for step in 0..50u32 {
            w.parallel(64, 3, |range| range.for_each(|i| plane.write(i)[0] = step * 64 + i as u32));
            w.parallel(64, 5, |range| {
                for i in range {
                    assert_eq!(plane.read(63 - i)[0], step * 64 + 63 - i as u32);
                }
            });
            w.single(|| plane.write(0)[0] = u32::MAX);
        }
    });
}

#[test]
fn parked_workers_wake_for_the_next_job() {
    let mut team = Team::new(2).expect("threads");
    let hits = AtomicUsize::new(0);
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(30));
        team.run(&|_| {
            hits.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(hits.load(Ordering::Relaxed), 6);
}

#[test]
fn a_panic_on_any_worker_reaches_the_caller() {
    for culprit in 0..2 {
        let mut team = Team::new(2).expect("threads");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(&|w| {
                assert!(w.index() != culprit, "on purpose");
                w.parallel(4, 1, |_| {});
            });
        }));
        assert!(outcome.is_err(), "worker {culprit}'s panic was lost");
    }
}

#[test]
#[should_panic(expected = "past the end")]
fn a_view_past_the_end_is_refused() {
    let _ = SharedBuf::zeroed(64).expect("memory").plane::<f32>(0, 16, 2);
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
        // Unseen by the compiler, which may leave out an allocation that nobody uses.
        let found = std::hint::black_box(SharedBuf::zeroed(std::hint::black_box(bytes)));
        assert_eq!(found.err(), Some(OutOfMemory { bytes }));
    }
    assert_eq!(SharedBuf::zeroed(0).expect("nothing").bytes(), 0);
    assert_eq!(SharedBuf::zeroed(65).expect("memory").bytes(), 128);
}

#[test]
fn regions_with_fewer_items_than_workers_or_none_do_what_there_is() {
    for count in [1, 2, 3, 7] {
        let mut team = Team::new(count).expect("threads");
        for items in 0..=8 {
            let done: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
            team.run(&|w| {
                for grain in [1, 3, usize::MAX / 16] {
                    w.parallel(0, grain, |_| panic!("there is nothing to do"));
                    w.parallel(items, grain, |range| {
                        assert!(!range.is_empty() && range.len() <= grain && range.end <= items);
                        range.for_each(|item| {
                            done[item].fetch_add(1, Ordering::Relaxed);
                        });
                    });
                    w.parallel(0, grain, |_| panic!("there is nothing to do"));
                }
            });
            assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 3), "{count} for {items}");
        }
    }
}

/// CPU time of a thread so far.
#[cfg(target_os = "linux")]
fn cpu_time(thread: &std::path::Path) -> std::time::Duration {
    let text =
        std::fs::read_to_string(std::path::Path::new("/proc").join(thread).join("schedstat"))
            .expect("a thread that runs");
    let nanoseconds = text.split(' ').next().expect("three numbers");
    std::time::Duration::from_nanos(nanoseconds.parse().expect("a number"))
}

#[test]
#[cfg(target_os = "linux")]
fn an_idle_team_sleeps_and_uses_no_cpu() {
    use std::time::{Duration, Instant};
    let mut team = Team::new(3).expect("threads");
    let threads = Mutex::new(Vec::new());
    team.run(&|w| {
        w.parallel(50, 1, |_| {});
        if w.index() > 0 {
            lock(&threads).push(std::fs::read_link("/proc/thread-self").expect("a thread"));
        }
    });
    // The best of some tries: others want this machine's cores, too.
    let mut soonest = Duration::MAX;
    for _ in 0..50 {
        team.run(&|w| w.parallel(50, 1, |_| {}));
        let start = Instant::now();
        let asleep = |seat: &Padded<Seat>| seat.0.parked.load(Ordering::SeqCst);
        while !team.shared.seats[1..].iter().all(asleep) && start.elapsed().as_secs() < 5 {
            std::thread::yield_now();
        }
        soonest = soonest.min(start.elapsed());
    }
    assert!(soonest < Duration::from_millis(1), "asleep after {soonest:?}");

    std::thread::sleep(Duration::from_millis(20));
    let used = || lock(&threads).iter().map(|thread| cpu_time(thread)).sum::<Duration>();
    let before = used();
    std::thread::sleep(Duration::from_millis(200));
    let used = used() - before;
    assert!(used < Duration::from_micros(500), "{used:?} of 200 ms");
    assert_eq!(lock(&threads).len(), 2);
}
