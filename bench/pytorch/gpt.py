"""GPT-2 in PyTorch at its best, for comparison: pre-norm, tanh GELU, biases, tied output layer, no dropout, fused attention.

Prints one JSON line: seconds of each step (train) or token (generate), and the peak resident memory in MiB. With --dtype bfloat16
parameters stay in float32, and autocast computes in bfloat16. With --compiled the loss and its backward are compiled. On a GPU the
peak is that of its tensors from the second step on, next to what the allocator holds for them; without a GPU the line is null.
"""
import argparse
import json
import math
import os
import resource
import time

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache):
        batch, time_, width = x.shape
        heads = (batch, time_, self.heads, width // self.heads)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.query_key_value(x).chunk(3, dim=-1))
        if cache is not None:  # one query, which sees all keys
            k, v = cache.append(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.out(y.transpose(1, 2).reshape(batch, time_, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        x = x + self.attention(self.attention_norm(x), cache)
        return x + self.down(F.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh"))


class Cache:
    """Keys and values of one layer, in memory that is allocated once."""

    def __init__(self, heads, context, size):
        self.k, self.v = torch.zeros(2, 1, heads, context, size)
        self.used = 0

    def append(self, k, v):
        end = self.used + k.shape[2]
        self.k[:, :, self.used : end], self.v[:, :, self.used : end] = k, v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens = nn.Embedding(o.vocabulary, o.width)
        self.positions = nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o.layers) if deep else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, caches=None):
        past = caches[0].used if caches else 0
        x = self.tokens(ids) + self.positions.weight[past : past + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None)
        return F.linear(self.norm(x), self.tokens.weight)


def train(o):
    model = Gpt(o).to(o.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss_of(x, y):
        with torch.autocast(o.device, torch.bfloat16, enabled=o.dtype == "bfloat16"):
            return F.cross_entropy(model(x).view(-1, o.vocabulary), y.view(-1))

    if o.compiled:
        if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
            torch._inductor.config.cpp.simdlen = 256
        loss_of = torch.compile(loss_of)
    unmeasured = 4 if o.compiled else 2  # compiling is not training
    seconds, losses = [], []
    for _ in range(o.steps + unmeasured):
        start = time.perf_counter()
        x, y = torch.randint(o.vocabulary, (2, o.batch, o.time)).to(o.device)
        loss = loss_of(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        if o.device == "cuda" and len(seconds) == 1:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    return {"seconds": seconds[unmeasured:], "loss": losses[-1]}


@torch.no_grad()
def generate(o):
    model = Gpt(o).eval()
    caches = [Cache(o.heads, o.context, o.width // o.heads) for _ in range(o.layers)]
    ids = torch.zeros(1, 1, dtype=torch.long)
    seconds = []
    for _ in range(min(o.steps, o.context)):
        start = time.perf_counter()
        ids = model(ids, caches)[:, -1].argmax(-1, keepdim=True)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["train", "generate"])
    for name in "layers heads width context vocabulary batch time steps threads".split():
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compiled", action="store_true")
    o = parser.parse_args()
    if o.device == "cuda" and not torch.cuda.is_available():
        print("null")
        return
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    result = {"train": train, "generate": generate}[o.task](o)
    if o.device == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
        result["reserved_mib"] = torch.cuda.memory_reserved() / 2**20
    else:
        result["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


main()
