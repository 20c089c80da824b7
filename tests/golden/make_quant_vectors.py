#!/usr/bin/env python3
"""Writes tests/golden/quant/: random valid blocks of every GGUF weight type and what they mean.

    python tests/golden/make_quant_vectors.py        (needs numpy, gguf, llama-cpp-python)

For each type, NAME.blocks holds the blocks as they stand in a file and NAME.f32 their values,
little-endian f32. Two independent references make the values: gguf-py's `quants.py` (where it has
the type) and ggml's own `to_float` (libggml-base, called through ctypes). The script stops if they
differ in one bit, or if a block has a value that is not finite.

The blocks: random bytes with ordinary scales, then scales of zero, minus zero, negative, subnormal,
smallest and largest; for the grid formats, blocks that walk through the whole grid; for the formats
with 8-bit scales, every scale byte.

quantize-NAME.f32 / .blocks: inputs and outputs of ggml's reference quantisers for Q8_0 and Q4_0.

Everything is seeded by the type's name, so the script writes the same files each time.
"""

import ctypes
import sys
import zlib
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from gguf.quants import _type_traits as gguf_py_types

OUT = Path(__file__).resolve().parent / "quant"
GGML = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))

# ggml's name (and id) -> byte offsets of the block's f16 scale fields
TYPES = {
    "f32": (0, []), "f16": (1, []), "bf16": (30, []),
    "q4_0": (2, [0]), "q4_1": (3, [0, 2]), "q5_0": (6, [0]), "q5_1": (7, [0, 2]), "q8_0": (8, [0]),
    "q2_K": (10, [80, 82]), "q3_K": (11, [108]), "q4_K": (12, [0, 2]), "q5_K": (13, [0, 2]),
    "q6_K": (14, [208]),
    "iq2_xxs": (16, [0]), "iq2_xs": (17, [0]), "iq3_xxs": (18, [0]), "iq1_s": (19, [0]),
    "iq4_nl": (20, [0]), "iq3_s": (21, [0]), "iq2_s": (22, [0]), "iq4_xs": (23, [0]),
    "iq1_m": (29, []), "tq1_0": (34, [52]), "tq2_0": (35, [64]), "mxfp4": (39, []),
    "nvfp4": (40, []), "q1_0": (41, [0]), "q2_0": (42, [0]),
}
# Scales besides random ones, as f16 bits: 0, -0, least subnormal, a negative subnormal, greatest
# subnormal, least normal, 8, -8, greatest, its negative.
EDGES = [0x0000, 0x8000, 0x0001, 0x8155, 0x03FF, 0x0400, 0x4800, 0xC800, 0x7BFF, 0xFBFF]


class Traits(ctypes.Structure):
    _fields_ = [
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.c_void_p),
        ("from_float_ref", ctypes.c_void_p),
    ]


GGML.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
GGML.ggml_get_type_traits.argtypes = [ctypes.c_int]
TO_FLOAT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def traits(name):
    found = GGML.ggml_get_type_traits(TYPES[name][0]).contents
    if (found.type_name or b"").decode().lower() != name.lower():
        sys.exit(f"{name}: this ggml calls id {TYPES[name][0]} {found.type_name!r}")
    return found


def random_scales(rng, n):
    """f16 bit patterns of ordinary scales: either sign, 2^-12 to 2^-2."""
    values = 2.0 ** rng.uniform(-12, -2, n) * rng.choice([-1.0, 1.0], n)
    return values.astype(np.float16).view(np.uint16)


def put_u16(blocks, at, values):
    blocks[:, at : at + 2] = np.asarray(values, "<u2").reshape(-1, 1).view(np.uint8)


def scale_bits(rng, n):
    """Edge cases first, random after them."""
    edges = np.array(EDGES, np.uint16)[:n]
    return np.concatenate([edges, random_scales(rng, n - len(edges))])


def grid_walk(name, n):
    """Index bytes of `n` blocks that run through a grid: {(start, stop): bytes}, by type."""
    walk = {}
    if name == "iq2_xxs":
        index = np.arange(n * 32).reshape(n, 8, 4) % 256
        for run in range(8):
            walk[2 + 8 * run, 6 + 8 * run] = index[:, run]
    elif name == "iq2_xs":
        index = np.arange(n * 32) % 512
        signs = (np.arange(n * 32) * 37 + 11) % 128
        walk[2, 66] = (index | (signs << 9)).astype("<u2").view(np.uint8).reshape(n, 64)
    elif name in ("iq2_s", "iq1_s", "iq1_m"):
        index = np.arange(n * 32)
        walk[(0, 32) if name == "iq1_m" else (2, 34)] = (index % 256).reshape(n, 32)
        high = (index // 256).reshape(n, 32)
        if name == "iq2_s":
            walk[66, 74] = sum((high[:, l::4] % 4) << (2 * l) for l in range(4))
        elif name == "iq1_s":
            word = sum((high[:, l::4] % 8) << (3 * l) for l in range(4))
            word = word | ((np.arange(n * 8) * 5 % 16).reshape(n, 8) << 12)
            walk[34, 50] = word.astype("<u2").view(np.uint8).reshape(n, 16)
        else:
            walk[32, 48] = (high[:, 0::2] % 8) | ((high[:, 1::2] % 8) << 4) | 0x80
    elif name == "iq3_xxs":
        walk[2, 66] = (np.arange(n * 64) % 256).reshape(n, 64)
    elif name == "iq3_s":
        index = np.arange(n * 64)
        walk[2, 66] = (index % 256).reshape(n, 64)
        high = (index // 256 % 2).reshape(n, 8, 8)
        walk[66, 74] = sum(high[:, :, l] << l for l in range(8))
    return walk


# Blocks that a walk through the grid takes, less than the whole grid where two types share it.
WALKS = {"iq2_xxs": 8, "iq2_xs": 16, "iq2_s": 32, "iq3_xxs": 4, "iq3_s": 8, "iq1_s": 64, "iq1_m": 4}


def make_blocks(name, size):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name == "f32":
        return rng.standard_normal(64).astype("<f4").view(np.uint8)
    if name in ("f16", "bf16"):
        bits = np.concatenate([EDGES, rng.integers(0, 1 << 16, 1013)]).astype(np.uint16)
        top = 0x7C00 if name == "f16" else 0x7F80
        bits = np.where(bits & top == top, bits & ~np.uint16(0x0400), bits)
        return bits.astype("<u2").view(np.uint8)
    count = {"mxfp4": 64, "nvfp4": 64}.get(name, 16) + WALKS.get(name, 0)
    blocks = rng.integers(0, 256, (count, size), np.uint8)
    for (start, stop), values in grid_walk(name, WALKS.get(name, 0)).items():
        blocks[count - WALKS[name] :, start:stop] = values
    for at in TYPES[name][1]:
        put_u16(blocks, at, np.roll(scale_bits(rng, count), at // 2 % 5))
    if name == "iq1_m":
        words = blocks[:, 48:].view("<u2").copy() & 0x0FFF
        d = scale_bits(rng, count)
        for i in range(4):
            words[:, i] |= ((d >> (4 * i)) & 15) << 12
        blocks[:, 48:] = words.view(np.uint8)
    if name == "mxfp4":
        # Every fourth scale byte, and both ends; 253 and up would overflow with the largest code.
        blocks[:, 0] = np.concatenate([[0, 1, 2, 3, 252, 251], np.arange(4, 252, 4)])[:count]
    if name == "nvfp4":
        blocks[:, :4] = np.arange(256).reshape(64, 4)
    return blocks.reshape(-1)


def by_ggml(name, data):
    found = traits(name)
    out = np.full(data.size // found.type_size * found.blck_size, np.nan, np.float32)
    if name == "f32":  # ggml has no conversion for it
        return data.view(np.float32).copy()
    if not found.to_float:
        sys.exit(f"{name}: this ggml has no to_float for it")
    TO_FLOAT(found.to_float)(data.ctypes.data, out.ctypes.data, out.size)
    return out


def by_gguf_py(name, data):
    ident = getattr(gguf.GGMLQuantizationType, name.upper(), None)
    if ident is None or not (ident in gguf_py_types or name in ("f32", "f16")):
        return None
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(data, ident).astype(np.float32)


def write_dequantised():
    for name in TYPES:
        found = traits(name)
        data = np.ascontiguousarray(make_blocks(name, found.type_size))
        values = by_ggml(name, data)
        other = by_gguf_py(name, data)
        if other is not None and not np.array_equal(values.view(np.uint32), other.view(np.uint32)):
            at = np.flatnonzero(values.view(np.uint32) != other.view(np.uint32))
            pair = f"{values[at[:4]]} {other[at[:4]]}"
            sys.exit(f"{name}: ggml and gguf-py differ at {at[:8]}: {pair}")
        if not np.isfinite(values).all():
            sys.exit(f"{name}: not finite at {np.flatnonzero(~np.isfinite(values))[:8]}")
        data.tofile(OUT / f"{name}.blocks")
        values.astype("<f4").tofile(OUT / f"{name}.f32")
        source = "ggml" if other is None else "ggml, gguf-py"
        print(f"{name:8} {data.size // found.type_size:5} blocks  {source}")


def write_quantised():
    for name in ("q8_0", "q4_0"):
        rng = np.random.default_rng(zlib.crc32(b"quantize" + name.encode()))
        x = rng.standard_normal((24, 32)).astype(np.float32)
        x *= 2.0 ** rng.integers(-20, 8, (24, 1))
        x[0] = 0.0
        x[1] = np.arange(-16, 16) / 2  # values half way between two codes
        x[2] = np.arange(32) * -127 / 31
        x[3] = np.where(np.arange(32) % 2 == 0, 1.5, -1.5)  # two equal maxima of unlike sign
        x[4] = 1e-30  # the scale vanishes in f16
        x = np.ascontiguousarray(x, np.float32)
        out = np.zeros(24 * traits(name).type_size, np.uint8)
        call = getattr(GGML, f"quantize_row_{name}_ref")
        call.restype = None
        call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        call(x.ctypes.data, out.ctypes.data, x.size)
        x.astype("<f4").tofile(OUT / f"quantize-{name}.f32")
        out.tofile(OUT / f"quantize-{name}.blocks")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    write_dequantised()
    write_quantised()
    print(sum(f.stat().st_size for f in OUT.iterdir()), "bytes in all")
