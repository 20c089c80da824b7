#!/usr/bin/env bash
# Pantheon beside llama.cpp: the same file, the same threads, in turn, three rounds unless told otherwise; medians, ratios and the share of the
# read bandwidth measured in the same run.
#
#   benches/compare.sh [MIX,MIX,...|all] [ROUNDS]        default: q4_k_m 3
#
# For each mix, makes a random eight-layer cut of nex-n2-mini with `pantheon synth` (2.3 to 9 GB; deleted afterwards unless KEEP=1).
# Builds the peer once into target/peers (10 to 20 minutes), and keeps the table under benches/results/. LONG=1 adds a decode at
# 32768 tokens of context (10 minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
mixes=${1:-q4_k_m} rounds=${2:-3}
[ "$mixes" != all ] || mixes=q4_k_m,q8_0,q4_0,q5_k_m,q6_k,q3_k_m,iq4_xs,iq3_s,iq2_xs,mxfp4_moe,nvfp4
threads=${THREADS:-$(nproc)}
target=${CARGO_TARGET_DIR:-target}
work=${WORK:-target/compare}
venv=${PEERS:-target/peers}
mkdir -p "$work" benches/results

[ -x "$venv/bin/python" ] || sh benches/peers/setup.sh "$venv"
PANTHEON_MODEL_TOML=$PWD/benches/shapes.toml cargo build --release --quiet
PANTHEON_MODEL_TOML=$PWD/benches/shapes.toml cargo bench --quiet --bench bandwidth --no-run
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1 | tr -cs 'A-Za-z0-9\n' '-')
result=benches/results/$(date +%F)_${cpu%-}_$(git rev-parse --short HEAD).txt
for mix in ${mixes//,/ }; do
    file=$work/nex-n2-mini-8l-$mix.gguf
    [ -f "$file" ] || "$target/release/pantheon" synth --model nex-n2-mini-8l --quant "$mix" --out "$file"
    PANTHEON_MODEL_TOML=$PWD/benches/shapes.toml "$venv/bin/python" benches/peers/compare.py \
        --pantheon "$target/release/pantheon" --model "$file" --mix "$mix" --rounds "$rounds" --threads "$threads" \
        ${LONG:+--long} | tee -a "$result"
    [ -n "${KEEP:-}" ] || rm -f "$file"
done
