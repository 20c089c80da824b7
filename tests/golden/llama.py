#!/usr/bin/env python3
"""Adds what only llama.cpp can say: run after make.py.

usage: llama.py            needs: pip install llama-cpp-python==0.3.36 gguf numpy

Writes llama.json (how far llama.cpp's integer arithmetic is from exact on tiny-mixed.gguf) and odd.npz
(llama.cpp's logits of the `odd` model of model.toml, whose weights are a formula: see `odd_tensors`).
Exact logits are llama.cpp's on the file turned into F32, with f32 KV and without flash attention.
"""
import ctypes
import json
import os
import sys
import tempfile
import tomllib

import gguf
import llama_cpp as L
import numpy as np

import ggufio

HERE = os.path.dirname(os.path.abspath(__file__))
ODD_TOKENS = 70

# ---------------------------------------------------------------- llama.cpp


@L.llama_log_callback
def quiet(level, text, _user):
    if level == 4:
        sys.stderr.write(text.decode(errors="replace"))


L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()


def logits(path, tokens):
    """float32 [n, vocab]: the logits after each token of one sequence."""
    mp = L.llama_model_default_params()
    mp.n_gpu_layers = 0
    model = L.llama_model_load_from_file(path.encode(), mp)
    assert model, f"llama.cpp cannot load {path}"
    n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    cp = L.llama_context_default_params()
    cp.n_ctx, cp.n_batch, cp.n_ubatch, cp.n_threads = 1024, 1024, 1024, 2
    cp.n_threads_batch, cp.type_k, cp.type_v, cp.flash_attn_type = 2, 0, 0, 0
    ctx = L.llama_init_from_model(model, cp)
    b = L.llama_batch_init(len(tokens), 0, 1)
    b.n_tokens = len(tokens)
    for i, t in enumerate(tokens):
        b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = int(t), i, 1, 1
        b.seq_id[i][0] = 0
    assert L.llama_decode(ctx, b) == 0
    row = lambda i: np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), (n_vocab,)).copy()
    out = np.stack([row(i) for i in range(len(tokens))])
    L.llama_batch_free(b)
    L.llama_free(ctx)
    L.llama_model_free(model)
    return out


def exact_logits(path, tokens):
    """`logits` of the file with every tensor dequantised."""
    kv, n_kv, tensors = ggufio.read(path)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
        ggufio.write(f.name, kv, n_kv, [dequantised(t) for t in tensors])
        return logits(f.name, tokens)


def dequantised(t):
    n, size = ggufio.BLOCKS[t.type]
    raw = np.frombuffer(t.data, np.uint8).reshape(-1, t.ne[0] // n * size)
    values = gguf.dequantize(raw, gguf.GGMLQuantizationType(t.type)) if t.type else raw
    return ggufio.Tensor(t.name, t.ne, 0, values.tobytes())


def mean_kl(exact, other):
    def log_softmax(x):
        x = x.astype(np.float64) - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    a, b = log_softmax(exact), log_softmax(other)
    return float((np.exp(a) * (a - b)).sum(-1).mean())


# ---------------------------------------------------------------- the odd model
# The same formulas stand in tests/common/synth.rs.

M64 = np.uint64


def bits(name, n):
    """64-bit words 0..n of the tensor's stream: splitmix64 started at FNV-1a of the name."""
    seed = 0xCBF29CE484222325
    for c in name.encode():
        seed = (seed ^ c) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = M64(seed) + np.arange(1, n + 1, dtype=M64) * M64(0x9E3779B97F4A7C15)
        z = (z ^ z >> M64(30)) * M64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> M64(27)) * M64(0x94D049BB133111EB)
        return z ^ z >> M64(31)


def uniform(name, n):
    """f32 in [-1, 1), multiples of 2^-23."""
    u = (bits(name, n) >> M64(40)).astype(np.int64) - (1 << 23)
    return u.astype(np.float32) * np.float32(2.0 ** -23)


# type -> where the f16 scales stand: (offset, exponent, sign); all other bytes are free
FIELDS = {2: [(0, -7, 0)], 3: [(0, -7, 0), (2, -4, 1)], 6: [(0, -8, 0)], 7: [(0, -8, 0), (2, -4, 1)],
          8: [(0, -11, 0)], 20: [(0, -11, 0)], 39: []}


def blocks(name, ne, ty):
    """Random valid blocks: values of about +-1/16."""
    n, size = ggufio.BLOCKS[ty]
    count, words = int(np.prod(ne)) // n, -(-size // 8) + 1
    h = bits(name, count * words).reshape(count, words)
    raw = np.ascontiguousarray(h[:, 1:]).view(np.uint8)[:, :size].copy()
    for offset, exponent, sign in FIELDS[ty]:
        half = (sign << 15 | (exponent + 15) << 10) | (h[:, 0] & M64(1023)).astype(np.uint16)
        raw[:, offset:offset + 2] = half.astype(np.uint16)[:, None].view(np.uint8)
    if ty == 39:
        raw[:, 0] = 121 + (h[:, 0] & M64(1)).astype(np.uint8)
    return raw.tobytes()


def floats(name, ne):
    u = uniform(name, int(np.prod(ne)))
    if name.endswith("norm.weight"):
        v = 1 + u / 4
    elif name.endswith("ssm_a"):
        v = -(np.float32(1 / 64) + (u + 1) / 4)
    elif name.endswith("token_embd.weight"):
        v = u * 8
    elif name.endswith("ssm_dt.bias"):
        v = u
    elif name.endswith("ssm_conv1d.weight"):
        v = u / 2
    elif name.endswith(("ffn_gate_inp.weight", "output.weight")) and "attn" not in name:
        v = u / 2
    else:
        v = u / 8
    return v.astype(np.float32).tobytes()


# Type of each matrix in the model of blocks: the first suffix that fits, else F32.
ODD_BLOCKS = [("ffn_gate_exps.weight", 39), ("ffn_up_exps.weight", 20), ("ffn_down_exps.weight", 2),
              ("shexp.weight", 8), ("attn_qkv.weight", 8), ("attn_gate.weight", 2),
              ("ssm_out.weight", 6), ("attn_q.weight", 20), ("attn_k.weight", 3),
              ("attn_v.weight", 7), ("attn_output.weight", 2)]


# Short names of the dimensions, and what a GGUF and model.toml call them.
KEYS = {"n_layer": "block_count", "n_embd": "embedding_length", "n_vocab": "vocab_size",
        "n_head": "attention.head_count", "n_head_kv": "attention.head_count_kv",
        "head_dim": "attention.key_length", "rms_eps": "attention.layer_norm_rms_epsilon",
        "full_attention_interval": "full_attention_interval", "rope_dim": "rope.dimension_count",
        "rope_base": "rope.freq_base", "rope_sections": "rope.dimension_sections",
        "n_expert": "expert_count", "n_expert_used": "expert_used_count",
        "expert_ff": "expert_feed_forward_length", "shared_ff": "expert_shared_feed_forward_length",
        "conv_taps": "ssm.conv_kernel", "gdn_head_dim": "ssm.state_size",
        "gdn_k_heads": "ssm.group_count", "gdn_v_heads": "ssm.time_step_rank"}


def odd_tensors(s, quantised):
    """The tensors of a model of shape `s` (see KEYS), all F32 or in ODD_BLOCKS's types."""
    kd, vd = s["gdn_k_heads"] * s["gdn_head_dim"], s["gdn_v_heads"] * s["gdn_head_dim"]
    d, e = s["n_embd"], s["n_expert"]
    every = {"attn_norm.weight": (d,), "post_attention_norm.weight": (d,),
             "ffn_gate_inp.weight": (d, e), "ffn_gate_inp_shexp.weight": (d,),
             "ffn_gate_exps.weight": (d, s["expert_ff"], e), "ffn_up_exps.weight": (d, s["expert_ff"], e),
             "ffn_down_exps.weight": (s["expert_ff"], d, e), "ffn_gate_shexp.weight": (d, s["shared_ff"]),
             "ffn_up_shexp.weight": (d, s["shared_ff"]), "ffn_down_shexp.weight": (s["shared_ff"], d)}
    gdn = {"attn_qkv.weight": (d, 2 * kd + vd), "attn_gate.weight": (d, vd),
           "ssm_conv1d.weight": (s["conv_taps"], 2 * kd + vd), "ssm_dt.bias": (s["gdn_v_heads"],),
           "ssm_a": (s["gdn_v_heads"],), "ssm_alpha.weight": (d, s["gdn_v_heads"]),
           "ssm_beta.weight": (d, s["gdn_v_heads"]), "ssm_norm.weight": (s["gdn_head_dim"],),
           "ssm_out.weight": (vd, d)}
    q, kv = s["n_head"] * s["head_dim"], s["n_head_kv"] * s["head_dim"]
    attn = {"attn_q.weight": (d, 2 * q), "attn_k.weight": (d, kv), "attn_v.weight": (d, kv),
            "attn_q_norm.weight": (s["head_dim"],), "attn_k_norm.weight": (s["head_dim"],),
            "attn_output.weight": (q, d)}
    shapes = {"token_embd.weight": (d, s["n_vocab"]), "output_norm.weight": (d,),
              "output.weight": (d, s["n_vocab"])}
    for i in range(s["n_layer"]):
        mixer = gdn if (i + 1) % s["full_attention_interval"] else attn
        shapes |= {f"blk.{i}.{n}": ne for n, ne in (every | mixer).items()}
    out = []
    for name, ne in shapes.items():
        plain = name.endswith("ffn_gate_inp_shexp.weight") or not quantised
        ty = 0 if plain else next((t for suffix, t in ODD_BLOCKS if name.endswith(suffix)), 0)
        out.append(ggufio.Tensor(name, ne, ty, blocks(name, ne, ty) if ty else floats(name, ne)))
    return out


def odd_metadata(s):
    byte_chars = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)]]
    tokens = byte_chars + [chr(256 + i) for i in range(256 - len(byte_chars))]
    tokens += [f"[PAD{i}]" for i in range(s["n_vocab"] - 256)]
    model = {f"qwen35moe.{key}": s[ours] for ours, key in KEYS.items()}
    return {
        "general.architecture": "qwen35moe", **model,
        "qwen35moe.context_length": 4096, "qwen35moe.attention.value_length": s["head_dim"],
        "qwen35moe.ssm.inner_size": s["gdn_v_heads"] * s["gdn_head_dim"],
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [1] * 256 + [5] * (len(tokens) - 256),
        "tokenizer.ggml.merges": ["! !"], "tokenizer.ggml.eos_token_id": 0,
    }


def odd_shape():
    with open(os.path.join(HERE, "..", "..", "model.toml"), "rb") as f:
        model = next(m for m in tomllib.load(f)["model"] if m["name"] == "odd")
    return {ours: lookup(model, key) for ours, key in KEYS.items()}


def lookup(table, key):
    """The value of a dotted key."""
    for part in key.split("."):
        table = table[part]
    return table


# ---------------------------------------------------------------- what is kept


def odd():
    s = odd_shape()
    pairs = odd_metadata(s)
    kv = ggufio.metadata(pairs)
    tokens = (bits("tokens", ODD_TOKENS) % M64(s["n_vocab"])).astype(np.int32)
    keep = {"tokens": tokens}
    with tempfile.TemporaryDirectory() as tmp:
        plain, mixed = f"{tmp}/f32.gguf", f"{tmp}/blocks.gguf"
        ggufio.write(plain, kv, len(pairs), odd_tensors(s, False))
        ggufio.write(mixed, kv, len(pairs), odd_tensors(s, True))
        keep["f32"] = logits(plain, tokens)
        keep["blocks"] = exact_logits(mixed, tokens)
        kl = mean_kl(keep["blocks"], logits(mixed, tokens))
    np.savez_compressed(f"{HERE}/odd.npz", **keep)
    return kl


def mixed():
    path = f"{HERE}/tiny-mixed.gguf"
    with open(f"{HERE}/prompts.json") as f:
        prompts = json.load(f)
    rows = {}
    for name in ("story", "kjv"):
        ids = prompts[name]["ids"]
        rows[name] = mean_kl(exact_logits(path, ids), logits(path, ids))
    return rows


def main():
    out = {"tiny-mixed": mixed(), "odd-blocks": odd()}
    with open(f"{HERE}/llama.json", "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
