#!/usr/bin/env python3
"""Runs Pantheon and llama.cpp in turn on one file and prints medians, ratios and the share of read bandwidth.

Called by compare.sh; bytes per token are the plan's (`pantheon plan -m FILE`), the recurrent state read and written included."""
import argparse, json, os, pathlib, re, statistics, subprocess, sys, time

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--pantheon", required=True)
ap.add_argument("--model", required=True)
ap.add_argument("--mix", required=True)
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--threads", type=int, default=os.cpu_count())
ap.add_argument("--long", action="store_true", help="also decode at 32768 tokens of context")
ap.add_argument("-p", type=int, default=512)
ap.add_argument("-n", type=int, default=32)
a = ap.parse_args()
here = pathlib.Path(__file__).parent
peer = [sys.executable, str(here / "llama_cpp_peer.py")]
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def run(*command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def planned(row):
    """Bytes of a row of the plan for this file."""
    plan = subprocess.run([a.pantheon, "plan", "-m", a.model], check=True, stdout=subprocess.PIPE, text=True).stdout
    part = plan[plan.index("bytes per token"):]
    return [float(n) * UNITS[u] for n, u in re.findall(row + r"\s+([\d.]+) (\w+)", part)][0]


def bench(*args):
    return run(a.pantheon, "bench", "-m", a.model, "-t", str(a.threads), "-r", "1", "--json", *map(str, args))


def ours():
    r = bench("-p", a.p, "-n", a.n, "--batch", 8)
    return r["pp_tok_s"], r["tg_tok_s"], r["batch_tok_s"]["8"]


def theirs():
    r = run(*peer, "bench", a.model, "-t", str(a.threads), "-p", str(a.p), "-n", str(a.n), "-r", "1")
    b = run(*peer, "batch", a.model, "-t", str(a.threads), "-k", "8", "-n", "24")
    return r["pp_tok_s"], r["tg_tok_s"], b["aggregate_tok_s"]["8"]


def bandwidth():
    return run("cargo", "bench", "--quiet", "--bench", "bandwidth", "--", str(a.threads))["gb_s"]


def first_token():
    """Seconds of a whole run that computes one token; the file is in the page cache."""
    ids = here / "one_token.json"
    ids.write_text("[1]")
    start = time.monotonic()
    subprocess.run([a.pantheon, "logits", "-m", a.model, "-t", str(a.threads), str(ids), os.devnull], check=True,
                   stderr=subprocess.DEVNULL)
    ids.unlink()
    return time.monotonic() - start


rows = {"ours": [], "theirs": [], "gb_s": []}
for _ in range(a.rounds):
    rows["gb_s"].append(bandwidth())
    rows["ours"].append(ours())
    rows["theirs"].append(theirs())
median = lambda table: [statistics.median(column) for column in zip(*table)]
mine, peers = median(rows["ours"]), median(rows["theirs"])
gb_s, per_token = max(rows["gb_s"]), planned("weights") + planned("recurrent state")
print(f"{a.mix}, {a.threads} threads, medians of {len(rows['ours'])} rounds in turn; read bandwidth {gb_s:.1f} GB/s (best)")
print(f"{'':24}{'pantheon':>10}{'llama.cpp':>11}{'ratio':>8}")
for name, x, y in zip([f"prefill {a.p}, tok/s", "decode, tok/s", "decode x 8, tok/s"], mine, peers):
    print(f"{name:24}{x:>10.1f}{y:>11.1f}{x / y:>8.2f}")
print(f"decode moves {per_token / 1e9:.3f} GB a token: {mine[1] * per_token / 1e9:.1f} GB/s, "
      f"{100 * mine[1] * per_token / 1e9 / gb_s:.0f} % of the read bandwidth")
print(f"eight sequences against one: {mine[2] / mine[1]:.2f}")
if a.mix == "q4_k_m":
    short, long = bench("-p", 512, "-n", 0)["pp_tok_s"], bench("-p", 4096, "-n", 0)["pp_tok_s"]
    print(f"prefill 4096 against 512: {100 * long / short:.0f} %")
    print(f"start, one token, end: {min(first_token() for _ in range(3)):.2f} s")
if a.long:
    depth, kv = 32768, 2 * 2 * 2 * 256 * 2  # keys and values, two heads of 256, f16, in two attention layers
    at = [1e3 / bench("-p", 0, "-n", 16, "-d", d)["tg_tok_s"] for d in (0, depth)]
    reading = depth * kv / gb_s / 1e6
    print(f"decode at {depth}: {at[0]:.1f} ms, {at[1]:.1f} ms; {(at[1] - at[0]) / reading:.2f} x the time of reading its KV")
print()
