#!/usr/bin/env bash
# Pantheon beside llama.cpp: the same file, the same threads, in turn, at least three rounds; medians, ratios and the share of the
# read bandwidth measured in the same run.
#
#   benches/compare.sh [MIX] [ROUNDS]        default: q4_k_m 3
#
# Makes a random eight-layer cut of nex-n2-mini with `pantheon synth` (4.8 GB as q4_k_m; deleted afterwards unless KEEP=1), builds
# the peer once into target/peers (10 to 20 minutes), and keeps the table under benches/results/.
set -euo pipefail
cd "$(dirname "$0")/.."
mix=${1:-q4_k_m} rounds=${2:-3}
threads=${THREADS:-$(nproc)}
target=${CARGO_TARGET_DIR:-target}
work=${WORK:-target/compare}
venv=${PEERS:-target/peers}
mkdir -p "$work" benches/results

[ -x "$venv/bin/python" ] || sh benches/peers/setup.sh "$venv"
PANTHEON_MODEL_TOML=$PWD/benches/shapes.toml cargo build --release --quiet
cargo bench --quiet --bench bandwidth --no-run
file=$work/nex-n2-mini-8l-$mix.gguf
[ -f "$file" ] || "$target/release/pantheon" synth --model nex-n2-mini-8l --quant "$mix" --out "$file"
trap '[ -n "${KEEP:-}" ] || rm -f "$file"' EXIT

"$venv/bin/python" benches/peers/compare.py --pantheon "$target/release/pantheon" --model "$file" --mix "$mix" \
    --rounds "$rounds" --threads "$threads" | tee "$work/table.txt"
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1 | tr -cs 'A-Za-z0-9\n' '-')
cp "$work/table.txt" "benches/results/$(date +%F)_${cpu%-}_$(git rev-parse --short HEAD)_$mix.txt"
