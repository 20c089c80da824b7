//! Read bandwidth of this machine's memory: all threads stream one large buffer, best of five.
//!
//! `cargo bench --bench bandwidth [-- THREADS [GIB]]` prints one JSON object: `threads`, `gib`, `gb_s`.

#[path = "common/bandwidth.rs"]
mod bandwidth;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.next().map_or(cores, |text| text.parse().expect("a number of threads"));
    let gib: usize = args.next().map_or(1, |text| text.parse().expect("a number of GiB"));
    let gb_s = bandwidth::gb_s(threads, gib);
    println!("{{\"threads\": {threads}, \"gib\": {gib}, \"gb_s\": {gb_s:.2}}}");
}
