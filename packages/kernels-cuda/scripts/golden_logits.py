"""Golden logits of real models, from a computation in f64 that shares nothing with this repository.

    pip install gguf==0.19.0 numpy==2.4.6 tokenizers==0.22.1
    python golden_logits.py MODEL.gguf > ../crates/replay/tests/data/MODEL.txt

Weights are what the Python package `gguf` decodes, everything else is numpy. Logs on the same tokens: one plain, the others edited.

    tokens ID…
    case NAME
    edit BOUNDARY FIRST END MOVE   before token BOUNDARY the cells FIRST…END−1 are dropped; MOVE = 1: then the rest moves together
    row ROW ID:LOGIT…      the 20 highest and 64 spread over the vocabulary
"""

import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, models, pre_tokenizers

TEXT = """<|im_start|>user
Write a function that reads a file line by line and counts how often each word occurs. Explain the trade-offs.<|im_end|>
<|im_start|>assistant
Reading line by line keeps memory small, because only one line is held at a time. Here is a version in Python:

```python
from collections import Counter

def count_words(path):
    counts = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            counts.update(line.lower().split())
    return counts
```

The dictionary grows with the number of distinct words, not with the size of the file. For 1,234,567 lines this takes about 2.5 seconds.
If words are separated by punctuation as well, a regular expression is the better choice, at some cost in speed.<|im_end|>
"""
SHORT = [(100, 40, 70, True), (130, 10, 20, False)]
# With windows: long enough to leave one, and an edit that brings cells back into it.
LONG = [*SHORT, (600, 200, 400, True)]
TOP = 20
SPREAD = 64


def positions_and_mask(count, edits):
    """Per row: its position and the current positions of the cells that it reads. An edit: (boundary, first, end, move together)."""
    current, rows = {}, []
    next_position = 0
    for cell in range(count):
        for boundary, first, end, compact in edits:
            if boundary == cell:
                current = {other: at for other, at in current.items() if not first <= other < end}
                if compact:
                    current = {other: rank for rank, other in enumerate(sorted(current))}
                    next_position = len(current)
        current[cell] = next_position
        next_position += 1
        rows.append(dict(current))
    return rows


class Model:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self.arch = self.field("general.architecture")
        self.layers = self.key("block_count")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv")
        self.width = self.key("embedding_length")
        self.size = self.key("attention.key_length", self.width // self.heads)
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")
        self.base = self.key("rope.freq_base")
        self.gemma = self.arch == "gemma3"
        self.window = self.key("attention.sliding_window", None) if self.gemma else None

    def field(self, name, default=None):
        return self.reader.fields[name].contents() if name in self.reader.fields else default

    def key(self, name, default=None):
        return self.field(f"{self.arch}.{name}", default)

    def has(self, name):
        return name in self.tensors

    def weight(self, name):
        tensor = self.tensors[name]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def embedding(self, ids):
        tensor = self.tensors["token_embd.weight"]
        rows = dequantize(tensor.data[np.array(ids)], tensor.tensor_type).astype(np.float64)
        return rows * np.sqrt(self.width) if self.gemma else rows


def rms(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def turn(heads, positions, base, interleaved):
    """heads: (…, heads, size); positions broadcast over the leading axes."""
    size = heads.shape[-1]
    angle = np.asarray(positions, dtype=np.float64)[..., None, None] * base ** (-np.arange(0, size, 2) / size)
    cosine, sine = np.cos(angle), np.sin(angle)
    out = np.empty_like(heads)
    if interleaved:
        x, y = heads[..., 0::2], heads[..., 1::2]
        out[..., 0::2], out[..., 1::2] = x * cosine - y * sine, x * sine + y * cosine
    else:
        x, y = heads[..., : size // 2], heads[..., size // 2 :]
        out[..., : size // 2], out[..., size // 2 :] = x * cosine - y * sine, x * sine + y * cosine
    return out


def attention(model, layer, x, rows):
    name = f"blk.{layer}."
    count = len(rows)

    def project(part, heads):
        out = x @ model.weight(f"{name}{part}.weight").T
        if model.has(f"{name}{part}.bias"):
            out = out + model.weight(f"{name}{part}.bias")
        return out.reshape(count, heads, model.size)

    q, k, v = project("attn_q", model.heads), project("attn_k", model.kv_heads), project("attn_v", model.kv_heads)
    if model.has(f"{name}attn_q_norm.weight"):
        q = rms(q, model.weight(f"{name}attn_q_norm.weight"), model.epsilon)
        k = rms(k, model.weight(f"{name}attn_k_norm.weight"), model.epsilon)
    local = model.window is not None and (layer + 1) % 6 != 0
    base = 10000.0 if local else model.base
    scale = 1 / np.sqrt(model.size)
    out = np.empty((count, model.heads, model.size))
    for row, cells in enumerate(rows):
        position = cells[row]
        if local:
            cells = {cell: at for cell, at in cells.items() if position - at < model.window}
        ids, places = list(cells), list(cells.values())
        interleaved = model.arch == "llama"
        query = turn(q[row : row + 1], [position], base, interleaved)[0]
        keys = turn(k[ids], places, base, interleaved)
        for head in range(model.heads):
            shared = head * model.kv_heads // model.heads
            score = keys[:, shared] @ query[head] * scale
            weight = np.exp(score - score.max())
            out[row, head] = weight @ v[ids, shared] / weight.sum()
    out = out.reshape(count, -1) @ model.weight(f"{name}attn_output.weight").T
    return rms(out, model.weight(f"{name}post_attention_norm.weight"), model.epsilon) if model.gemma else out


def feed_forward(model, layer, x):
    name = f"blk.{layer}."
    gate, up = x @ model.weight(f"{name}ffn_gate.weight").T, x @ model.weight(f"{name}ffn_up.weight").T
    if model.gemma:
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    else:
        gate = gate / (1 + np.exp(-gate))
    out = (gate * up) @ model.weight(f"{name}ffn_down.weight").T
    return rms(out, model.weight(f"{name}post_ffw_norm.weight"), model.epsilon) if model.gemma else out


def logits(model, ids, rows):
    x = model.embedding(ids)
    for layer in range(model.layers):
        x = x + attention(model, layer, rms(x, model.weight(f"blk.{layer}.attn_norm.weight"), model.epsilon), rows)
        x = x + feed_forward(model, layer, rms(x, model.weight(f"blk.{layer}.ffn_norm.weight"), model.epsilon))
    x = rms(x, model.weight("output_norm.weight"), model.epsilon)
    return x @ model.weight("output.weight" if model.has("output.weight") else "token_embd.weight").T


def tokenize(model):
    """Plausible ids; the pre-tokenizer is not the model's own, which does not matter here."""
    tokens = model.field("tokenizer.ggml.tokens")
    if model.field("tokenizer.ggml.model") != "gpt2":
        known = {token: at for at, token in enumerate(tokens)}
        words = TEXT.replace("<|im_start|>", "<start_of_turn>").replace("<|im_end|>", "<end_of_turn>").replace("\n", " \n ").split(" ")
        pieces = [piece for word in words for piece in (["\n"] if word == "\n" else ["\u2581" + word])]
        ids = [known.get(piece, known.get(piece[1:])) for piece in pieces]
        return [model.field("tokenizer.ggml.bos_token_id")] + [at for at in ids if at is not None] * 6
    merges = [tuple(merge.split(" ")) for merge in model.field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer.encode(TEXT).ids


def main(path):
    model = Model(path)
    rows = [0, 37, 99, 100, 131, 150, 169] + ([520, 599, 600, 639] if model.window else [])
    ids = tokenize(model)[: rows[-1] + 1]
    assert len(ids) == rows[-1] + 1, len(ids)
    print("tokens", *ids)
    spread = [at * model.tensors["token_embd.weight"].data.shape[0] // SPREAD for at in range(SPREAD)]
    for case, edits in [("plain", []), ("edited", LONG if model.window else SHORT)]:
        values = logits(model, ids, positions_and_mask(len(ids), edits))
        chosen = values - values.max(-1, keepdims=True)
        chosen = chosen - np.log(np.exp(chosen).sum(-1, keepdims=True))
        loss = -np.mean([chosen[at, ids[at + 1]] for at in range(len(ids) - 1)])
        print(f"{case}: mean loss {loss:.3f}", file=sys.stderr)
        print("case", case)
        for boundary, first, end, move in edits:
            print("edit", boundary, first, end, int(move))
        for row in rows:
            wanted = list(np.argsort(-values[row])[:TOP]) + spread
            print("row", row, *(f"{at}:{values[row, at]:.6f}" for at in wanted))


if __name__ == "__main__":
    main(sys.argv[1])
