#!/usr/bin/env python3
"""Remakes this folder from a folder of tiny models and their references (needs numpy only).

usage: make.py DIR

DIR holds tiny-TYPE.gguf, index.json, exact-*.npz, stages-f16-story48.npz, prompts.json, heldout_*.txt,
tokenizer_cases.json.
README.md says what each file made here is for. Afterwards run llama.py, which adds llama.cpp's figures.
"""
import json
import os
import re
import shutil
import sys

import numpy as np

import ggufio

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join(HERE, "..", "..", "assets", "tiny-q4_k_m.gguf")

# Which file each tensor of tiny-mixed.gguf comes from: the first pattern that matches. Layers 0 to 2 are
# F16, so that the intermediate tensors can be compared; the rest shows as many block types as fit.
MIX = [
    (r"token_embd", "f16"),
    (r"blk\.[012]\.", "f16"),
    (r"blk\.3\.ffn_.*_exps", "mxfp4_moe"),
    (r"blk\.3\.", "q3_k_m"),
    (r"blk\.4\.ffn_.*_exps", "q2_k"),
    (r"blk\.4\.", "iq3_s"),
    (r"blk\.5\.ffn_(gate|up)_exps", "q3_k_m"),
    (r"blk\.5\.", "iq4_xs"),
    (r"output", "q2_k"),
]

# Arrays of the stage file that no test reads.
UNUSED = {"logits", "embed", "final_norm", "l0.v", "l0.delta_out", "l2.cos", "l2.sin", "l2.q_proj",
          "l2.k_proj", "l0.experts_out", "l2.experts_out", "l0.shared_expert_out", "l2.shared_expert_out"}

# Enough text for 20 chunks of 256 tokens.
HELDOUT_BYTES = 32 * 1024


def mixed(src):
    files = {t: ggufio.read(f"{src}/tiny-{t}.gguf") for t in {t for _, t in MIX}}
    by_name = {t: {x.name: x for x in f[2]} for t, f in files.items()}
    kv, n_kv, tensors = files["f16"]
    pick = lambda name: next(t for pattern, t in MIX if re.match(pattern, name))
    chosen = [by_name[pick(t.name)][t.name] for t in tensors]
    ggufio.write(f"{HERE}/tiny-mixed.gguf", kv, n_kv, chosen)


def stages(src):
    z = np.load(f"{src}/stages-f16-story48.npz")
    narrow = lambda a: a.astype(np.int32) if a.dtype == np.int64 else a
    keep = {k: np.ascontiguousarray(narrow(z[k])) for k in z if k not in UNUSED}
    np.savez_compressed(f"{HERE}/stages.npz", **keep)


def references(src):
    with open(f"{src}/index.json") as f:
        index = json.load(f)
    model = "tiny-q4_k_m.gguf"
    rows = []
    for row in index["quant"]:
        if row["model"] == model:
            rows.append({k: row[k] for k in ("name", "exact", "llama_kl")})
            shutil.copyfile(f"{src}/{row['exact']}", f"{HERE}/{row['exact']}")
    out = {"logits": rows, "perplexity": index["perplexity"][model], "bars": index["bars"],
           "perplexity_how": index["perplexity_how"]}
    with open(f"{HERE}/index.json", "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


def heldout(src):
    for name in ("stories", "kjv"):
        with open(f"{src}/heldout_{name}.txt", "rb") as f:
            text = f.read()
        with open(f"{HERE}/heldout_{name}.txt", "wb") as f:
            f.write(text[:text.index(b"\n", HELDOUT_BYTES) + 1])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    src = sys.argv[1]
    for old in os.listdir(HERE):
        if re.fullmatch(r"exact-.*\.npz", old):
            os.remove(f"{HERE}/{old}")
    mixed(src)
    stages(src)
    references(src)
    heldout(src)
    shutil.copyfile(f"{src}/prompts.json", f"{HERE}/prompts.json")
    os.makedirs(f"{HERE}/tokenizer", exist_ok=True)
    shutil.copyfile(f"{src}/tokenizer_cases.json", f"{HERE}/tokenizer/tokenizer_cases.json")
    os.makedirs(os.path.dirname(DEMO), exist_ok=True)
    shutil.copyfile(f"{src}/tiny-q4_k_m.gguf", DEMO)
    total = sum(os.path.getsize(f"{HERE}/{n}") for n in os.listdir(HERE) if os.path.isfile(f"{HERE}/{n}"))
    print(f"{HERE}: {total / 1e6:.1f} MB; now run llama.py")


if __name__ == "__main__":
    main()
