"""Reads and writes GGUF files with nothing but numpy: what the scripts of this folder need.

A file is (metadata bytes as they stand, their count, list of Tensor); metadata is copied, not understood,
except by `metadata()`, which encodes new pairs.
"""
import dataclasses
import struct

import numpy as np

ALIGN = 32
# type id -> (values per block, bytes per block)
BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24),
          8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176),
          14: (256, 210), 20: (32, 18), 21: (256, 110), 23: (256, 136), 39: (32, 17)}
SCALAR = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


@dataclasses.dataclass
class Tensor:
    name: str
    ne: tuple  # innermost first, as in the file
    type: int
    data: bytes


def size(ne, ty):
    n, b = BLOCKS[ty]
    return int(np.prod(ne, dtype=np.int64)) // n * b


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        value = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return value if len(value) > 1 else value[0]

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def skip_value(self, ty):
        if ty == 8:
            self.string()
        elif ty == 9:
            inner, n = self.take("IQ")
            if inner == 8:
                for _ in range(n):
                    self.string()
            else:
                self.at += n * SCALAR[inner]
        else:
            self.at += SCALAR[ty]


def read(path):
    """(metadata bytes, number of pairs, tensors) of a file with the default alignment."""
    r = _Reader(open(path, "rb").read())
    assert r.data[:4] == b"GGUF", path
    r.at = 4
    version, n_tensors, n_kv = r.take("IQQ")
    assert version == 3, path
    start = r.at
    for _ in range(n_kv):
        assert r.string() != "general.alignment", path
        r.skip_value(r.take("I"))
    kv = r.data[start:r.at]
    infos = []
    for _ in range(n_tensors):
        name, dims = r.string(), r.take("I")
        ne = tuple(r.take("Q") for _ in range(dims))
        infos.append((name, ne, *r.take("IQ")))
    base = -(-r.at // ALIGN) * ALIGN
    return kv, n_kv, [Tensor(n, ne, ty, r.data[base + off:base + off + size(ne, ty)])
                      for n, ne, ty, off in infos]


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def metadata(pairs):
    """Metadata bytes of {key: value}: str, bool, int (u32), float (f32), list of str or int (i32)."""
    out = b""
    for key, v in pairs.items():
        out += string(key)
        if isinstance(v, str):
            out += struct.pack("<I", 8) + string(v)
        elif isinstance(v, bool):
            out += struct.pack("<IB", 7, v)
        elif isinstance(v, int):
            out += struct.pack("<II", 4, v)
        elif isinstance(v, float):
            out += struct.pack("<If", 6, v)
        elif v and isinstance(v[0], str):
            out += struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
        else:
            out += struct.pack(f"<IIQ{len(v)}i", 9, 5, len(v), *v)
    return out


def write(path, kv, n_kv, tensors):
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_kv) + kv
    offset = 0
    for t in tensors:
        assert len(t.data) == size(t.ne, t.type), t.name
        out += string(t.name) + struct.pack(f"<I{len(t.ne)}Q", len(t.ne), *t.ne)
        out += struct.pack("<IQ", t.type, offset)
        offset += -(-len(t.data) // ALIGN) * ALIGN
    with open(path, "wb") as f:
        f.write(out + bytes(-len(out) % ALIGN))
        for t in tensors:
            f.write(t.data + bytes(-len(t.data) % ALIGN))
