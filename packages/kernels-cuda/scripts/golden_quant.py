"""Golden vectors of block decoding and encoding, from the Python package `gguf` (an implementation that is not ours).

    pip install gguf==0.19.0 numpy==2.4.6
    python golden_quant.py > ../crates/kernels/tests/data/quant.txt

One line a case: `decode TYPE bytes values` or `encode TYPE values bytes`, numbers as hexadecimal little-endian bytes.
"""

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

SEED = 20261130
# Offsets of the half-precision scales in a block: random bits there would often be infinite or no number.
HALVES = {
    Type.F32: [], Type.F16: [0], Type.BF16: [], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q8_0: [0], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
# (numbers, bytes) of a block.
SIZES = {
    Type.F32: (1, 4), Type.F16: (1, 2), Type.BF16: (1, 2), Type.Q4_0: (32, 18), Type.Q4_1: (32, 20), Type.Q5_0: (32, 22),
    Type.Q5_1: (32, 24), Type.Q8_0: (32, 34), Type.Q4_K: (256, 144), Type.Q5_K: (256, 176), Type.Q6_K: (256, 210),
}
# Types that the package can write.
WRITTEN = [Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]


def decode_cases(random):
    for kind, halves in HALVES.items():
        size, length = SIZES[kind]
        blocks = random.integers(0, 256, (max(2, 16 // size), length), dtype=np.uint8)
        if kind in (Type.F32, Type.BF16):
            values = random.normal(size=len(blocks)).astype(np.float32)
            blocks = values.view(np.uint8).reshape(-1, 4)[:, 4 - length:].copy()
        for at in halves:
            scales = (random.normal(size=len(blocks)) * 0.01).astype(np.float16)
            scales[-1] = np.float16(-3e-7)  # subnormal
            blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
        values = dequantize(blocks, kind).astype(np.float32)
        yield f"decode {kind.name} {blocks.tobytes().hex()} {values.tobytes().hex()}"


def encode_cases(random):
    for kind in WRITTEN:
        values = (random.normal(size=96) * np.repeat([1.0, 0.02, 300.0], 32)).astype(np.float32)
        values[32:48] = 0
        if kind in (Type.Q4_0, Type.Q8_0):
            values[64:] = 0
        coded = quantize(values, kind)
        yield f"encode {kind.name} {values.tobytes().hex()} {coded.tobytes().hex()}"


if __name__ == "__main__":
    generator = np.random.default_rng(SEED)
    for line in [*decode_cases(generator), *encode_cases(generator)]:
        print(line)
