//! What is left of the speed when cores are short: a neighbour that keeps one core busy, and more
//! threads than cores.
//!
//! `cargo bench --bench oversubscribed [-- ROUNDS]` prints the rate of each workload in each situation,
//! the median of ROUNDS (7), and its share of the undisturbed rate of the same rounds. The bar: with a
//! busy neighbour at least 40 %. Workloads: decoding with the demo model, which is nearly all barriers,
//! and regions as long as those of a large model. Afterwards the time of a bare barrier.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pantheon::cpu::probe::Regions;
use pantheon::engine::{Engine, EngineOptions, Outputs, Run};
use pantheon::gguf::Gguf;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-q4_k_m.gguf");
/// Length of one measurement.
const SLICE: Duration = Duration::from_millis(300);
/// What the bench is started with to be a neighbour.
const NEIGHBOUR: &str = "--neighbour";
/// Least share of the undisturbed rate beside a neighbour.
const BAR: f64 = 0.4;

fn main() {
    if std::env::args().any(|arg| arg == NEIGHBOUR) {
        loop {
            std::hint::spin_loop();
        }
    }
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let rounds = args.next().map_or(7, |text| text.parse().expect("a number of rounds"));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let decode = compare(rounds, &mut teams(cores, Decode::new));
    let regions = compare(rounds, &mut teams(cores, Long::new));
    println!("{cores} cores, medians of {rounds} rounds");
    println!("{:<26}{:>18}{:>20}", "", "demo, tokens/s", "long regions/s");
    let names = ["alone", "busy neighbour", "twice the threads", "four times the threads"];
    for (i, name) in names.iter().enumerate() {
        let cell = |(rates, shares): &(Vec<f64>, Vec<f64>)| {
            format!("{:.0} ({:.0} %)", rates[i], 100.0 * shares[i])
        };
        println!("{name:<26}{:>18}{:>20}", cell(&decode), cell(&regions));
    }
    let met = decode.1[1].min(regions.1[1]) >= BAR;
    println!(
        "bar beside a neighbour, {:.0} %: {}",
        100.0 * BAR,
        if met { "met" } else { "missed" }
    );
    for threads in [cores, 2 * cores] {
        println!("barrier of {threads} threads: {:.2} us", barrier(threads, rounds));
    }
}

/// Something with a rate.
trait Workload {
    /// Does a piece of work and says how much of it there was.
    fn piece(&mut self) -> f64;
}

/// Single tokens of the demo model.
struct Decode(Engine);

impl Decode {
    fn new(threads: usize) -> Self {
        let options = EngineOptions { threads: Some(threads), ..EngineOptions::default() };
        let gguf = Gguf::open(MODEL.as_ref()).expect("the demo model");
        Self(Engine::load(gguf, &options).expect("the demo model"))
    }
}

impl Workload for Decode {
    fn piece(&mut self) -> f64 {
        self.0.reset(0);
        for token in 0..32 {
            let run = Run { sequence: 0, tokens: &[token], outputs: Outputs::Last };
            self.0.step(&[run]).expect("a token");
        }
        32.0
    }
}

/// Regions of about 0.4 ms of work, in 64 items.
struct Long(Regions);

impl Long {
    fn new(threads: usize) -> Self {
        Self(Regions::new(threads).expect("threads"))
    }
}

impl Workload for Long {
    fn piece(&mut self) -> f64 {
        self.0.time(32, 64, 4000);
        32.0
    }
}

/// The same workload on one, two and four threads for each core.
fn teams<W: Workload>(cores: usize, new: fn(usize) -> W) -> [W; 3] {
    [cores, 2 * cores, 4 * cores].map(new)
}

/// Rates of the four situations, and their shares of the first one's.
fn compare<W: Workload>(rounds: usize, teams: &mut [W; 3]) -> (Vec<f64>, Vec<f64>) {
    let mut rates = [const { Vec::new() }; 4];
    let mut shares = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let alone = rate(&mut teams[0]);
        let neighbour = Neighbour::start();
        let beside = rate(&mut teams[0]);
        drop(neighbour);
        let found = [alone, beside, rate(&mut teams[1]), rate(&mut teams[2])];
        for (i, found) in found.into_iter().enumerate() {
            rates[i].push(found);
            shares[i].push(found / alone);
        }
    }
    (rates.into_iter().map(median).collect(), shares.into_iter().map(median).collect())
}

fn rate(workload: &mut impl Workload) -> f64 {
    workload.piece();
    let start = Instant::now();
    let mut done = 0.0;
    while start.elapsed() < SLICE {
        done += workload.piece();
    }
    done / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of one barrier: the best of some, since everything else only adds to it.
fn barrier(threads: usize, rounds: usize) -> f64 {
    const COUNT: usize = 2000;
    let mut team = Regions::new(threads).expect("threads");
    let times = (0..5 * rounds).map(|_| team.time(COUNT, 0, 0).as_secs_f64());
    times.fold(f64::MAX, f64::min) / COUNT as f64 * 1e6
}

/// This program again, busy on the first core it may use, until dropped.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> Self {
        let program = std::env::current_exe().expect("the bench's own path");
        let mut command = Command::new("taskset");
        command.args(["-c", &first_core()]).arg(program).arg(NEIGHBOUR);
        let child = command.stdin(Stdio::null()).spawn().expect("taskset, of util-linux");
        std::thread::sleep(Duration::from_millis(20));
        Self(child)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lowest number of a processor that this process may run on.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc: this needs Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let digits = list.unwrap_or_default().trim().split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap_or("0").to_owned()
}
