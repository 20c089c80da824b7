#!/usr/bin/env python3
"""Checks `pantheon` against a folder of models with reference logits and perplexities.

usage: oracle.py [--pantheon BIN] [--only TYPE,...] [-t THREADS] DIR

DIR/index.json lists the references (see tests/golden/README.md). Checked for every file:
  exact       --exact and f32 KV against exact-*.npz, and against transformers-*.npz of the same name:
              mean KL and largest difference of a logit; 64 greedy tokens, end-of-text ignored
  integer     default arithmetic: mean KL from exact against llama.cpp's own, row by row and in sum
  perplexity  on both held-out texts against llama.cpp's
  draft       tiny-mtp-TYPE.gguf gives the bits of tiny-TYPE.gguf
Prints a table; exit status 1 if anything is out of bounds.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

MAX_KL, MAX_DIFF = 1e-9, 5e-4
SUM_FACTOR, ROW_FACTOR, ROW_SLACK, OUTSIDE_SLACK = 1.25, 2.0, 2e-5, 1e-3
PPL_FACTOR = 1.002
GREEDY = 64
# Prompts outside the training distribution: near ties between experts flip there.
OUTSIDE = {"unicode", "mixed"}


class Table:
    """Rows as they come; remembers whether one failed."""

    def __init__(self):
        self.failed, self.rows = 0, 0

    def row(self, ok, what, model, name, text):
        self.rows += 1
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what:<11} {model:<12} {name:<11} {text}", flush=True)


class Pantheon:
    def __init__(self, binary, folder, threads, scratch):
        self.binary, self.folder, self.scratch = binary, folder, scratch
        self.threads = ["-t", str(threads)] if threads else []

    def run(self, *args):
        done = subprocess.run([self.binary, *args], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join([self.binary, *args])}\nended with {done.returncode}: {done.stderr}")
        return done.stdout

    def logits(self, model, tokens, *flags):
        """float32 [n, vocab]"""
        ids, out = f"{self.scratch}/ids.json", f"{self.scratch}/out.npy"
        with open(ids, "w") as f:
            json.dump([int(t) for t in tokens], f)
        self.run("logits", "-m", f"{self.folder}/{model}", ids, out, "--kv", "f32", *self.threads, *flags)
        return np.load(out)

    def greedy(self, model, tokens):
        ids = f"{self.scratch}/ids.json"
        with open(ids, "w") as f:
            json.dump([int(t) for t in tokens], f)
        text = self.run("generate", "-m", f"{self.folder}/{model}", "--tokens", ids, "--raw", "--exact",
                        "--kv", "f32", "--temp", "0", "--ignore-eos", "-n", str(GREEDY), "--json", *self.threads)
        return json.loads(text)["ids"]

    def perplexity(self, model, text):
        out = self.run("perplexity", "-m", f"{self.folder}/{model}", "-f", f"{self.folder}/{text}",
                       "--ctx", "256", "--chunks", "20", "--json", *self.threads)
        return json.loads(out)["ppl"]


def mean_kl(exact, other):
    def log_softmax(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    a, b = log_softmax(exact), log_softmax(other)
    return float((np.exp(a) * (a - b)).sum(-1).mean())


def load(folder, name):
    with np.load(f"{folder}/{name}") as z:
        return {k: z[k] for k in z.files}


def short(model):
    return model.removeprefix("tiny-").removesuffix(".gguf")


def exact(p, table, row):
    model, name = row["model"], row["name"]
    ref = load(p.folder, row["logits"])
    tokens, wanted = ref["tokens"], ref["greedy64"]
    got = p.logits(model, np.concatenate([tokens, wanted[:-1]]), "--exact")
    ours, n = got[:len(tokens)], len(tokens)
    others = {"exact": ref}
    if os.path.exists(f"{p.folder}/transformers-{short(model)}-{name}.npz"):
        others["transformers"] = load(p.folder, f"transformers-{short(model)}-{name}.npz")
    for what, other in others.items():
        kl, diff = mean_kl(other["logits"], ours), float(np.abs(other["logits"] - ours).max())
        table.row(kl <= MAX_KL and diff <= MAX_DIFF, what, short(model), name,
                  f"KL {kl:9.2e} (<= {MAX_KL:.0e})   max diff {diff:8.2e} (<= {MAX_DIFF:.0e})")
        if not np.array_equal(other["greedy64"], wanted):
            table.row(False, what, short(model), name, "the two oracles' greedy tokens differ")
    # The argmax after each token of the reference's own continuation, then the command itself.
    best = got[n - 1:].argmax(-1)
    same = int((best == wanted).sum())
    table.row(same == GREEDY, "greedy", short(model), name, f"{same} of {GREEDY} by argmax of logits")
    ids = np.array(p.greedy(model, tokens))
    same = int((ids == wanted).sum()) if len(ids) == GREEDY else 0
    table.row(same == GREEDY, "greedy", short(model), name, f"{same} of {GREEDY} by generate")


def integer(p, table, rows):
    ours, theirs = 0.0, 0.0
    for row in rows:
        model, name, llama = row["model"], row["name"], row["llama_kl"]
        ref = load(p.folder, row["exact"])
        kl = mean_kl(ref["logits"], p.logits(model, ref["tokens"]))
        outside = name in OUTSIDE
        bar = ROW_FACTOR * llama + (OUTSIDE_SLACK if outside else ROW_SLACK)
        table.row(kl <= bar, "integer", short(model), name,
                  f"KL {kl:9.2e} (<= {bar:8.2e})   llama.cpp {llama:8.2e}   ratio {kl / llama:5.2f}")
        if not outside:
            ours, theirs = ours + kl, theirs + llama
    bar = SUM_FACTOR * theirs
    table.row(ours <= bar, "integer", "all", "sum",
              f"KL {ours:9.2e} (<= {bar:8.2e})   llama.cpp {theirs:8.2e}   ratio {ours / theirs:5.2f}")


def perplexity(p, table, figures):
    for model, texts in figures.items():
        for text, wanted in texts.items():
            got = p.perplexity(model, f"heldout_{text}.txt")
            table.row(got <= PPL_FACTOR * wanted, "perplexity", short(model), text,
                      f"{got:9.4f} llama.cpp {wanted:9.4f}   {100 * (got / wanted - 1):+.3f} %")


def draft(p, table, rows):
    """A draft block must not change the trunk: same bits, on both paths."""
    for row in rows:
        model, name = row["model"], row["name"]
        with_draft = f"tiny-mtp-{short(model)}.gguf"
        if not os.path.exists(f"{p.folder}/{with_draft}"):
            continue
        tokens = load(p.folder, row["exact"])["tokens"]
        for flags in ([], ["--exact"]):
            a, b = p.logits(model, tokens, *flags), p.logits(with_draft, tokens, *flags)
            table.row(a.tobytes() == b.tobytes(), "draft", short(with_draft), name,
                      f"same bits as {short(model)} {' '.join(flags)}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    ap.add_argument("--pantheon", default="target/release/pantheon")
    ap.add_argument("--only", help="types, for instance f16,q4_k_m (the sum is then over these)")
    ap.add_argument("-t", dest="threads", type=int)
    args = ap.parse_args()
    with open(f"{args.dir}/index.json") as f:
        index = json.load(f)
    only = args.only and args.only.split(",")
    keep = lambda rows: [r for r in rows if not only or short(r["model"]) in only]
    table = Table()
    with tempfile.TemporaryDirectory() as scratch:
        p = Pantheon(args.pantheon, args.dir, args.threads, scratch)
        for row in keep(index["exact"]):
            exact(p, table, row)
        integer(p, table, keep(index["quant"]))
        draft(p, table, keep(index["quant"]))
        figures = {m: t for m, t in index["perplexity"].items() if not only or short(m) in only}
        perplexity(p, table, figures)
    print(f"{table.rows - table.failed} of {table.rows} checks passed")
    return 1 if table.failed or not table.rows else 0


if __name__ == "__main__":
    sys.exit(main())
