"""Single operations in PyTorch, for comparison: one JSON line {name: [seconds forward, seconds forward and backward]}.

The names and shapes are those of bench/ops.cpp.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn import functional as F


def median_seconds(f, budget):
    f()
    times, end = [], time.perf_counter() + budget
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cases():
    wide, rows = (4096, 3072), (4096, 1024)
    targets = torch.randint(50257, (2048,))
    yield "gelu_tanh", [wide], lambda x: F.gelu(x, approximate="tanh")
    for name in ("relu", "gelu", "silu", "softplus", "softsign", "hardswish", "mish", "elu", "leaky_relu"):
        yield name, [wide], getattr(F, name)
    yield "softmax", [rows], lambda x: x.softmax(-1)
    yield "log_softmax", [rows], lambda x: x.log_softmax(-1)
    yield "log_sum_exp", [rows], lambda x: x.logsumexp(-1)
    yield "layer_norm", [(4096, 768), (768,), (768,)], lambda x, w, b: F.layer_norm(x, (768,), w, b)
    yield "add_layer_norm", [(4096, 768), (4096, 768), (768,), (768,)], lambda x, r, w, b: F.layer_norm(x + r, (768,), w, b)
    angle = torch.randn(1024, 32)
    tables = angle.cos(), angle.sin()
    yield "rotary", [(4, 6, 1024, 64)], lambda x: rotary(x, *tables)
    yield "linear", [(768, 768), (3072, 768), (3072,)], F.linear
    yield "linear_gelu_tanh", [(768, 768), (3072, 768), (3072,)], lambda *xs: F.gelu(F.linear(*xs), approximate="tanh")
    yield "cross_entropy", [(2048, 50257)], lambda x: F.cross_entropy(x, targets)
    yield "attention", [(4, 6, 1024, 64)] * 3, attention
    yield "attention short", [(12, 4, 64, 32)] * 3, attention
    yield "attention middle", [(8, 6, 256, 64)] * 3, attention
    yield "dropout", [rows], lambda x: F.dropout(x, 0.1)


def rotary(x, cosine, sine):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    result = {}
    for name, shapes, op in cases():
        if o.only not in ("", name):
            continue
        deviations = [1, *(shape[-1] ** -0.5 for shape in shapes[1:])]  # as in bench/ops.cpp
        inputs = [(torch.randn(shape) * s).requires_grad_() for shape, s in zip(shapes, deviations)]

        def forward():
            with torch.no_grad():
                op(*inputs)

        def both():
            y = op(*inputs)
            torch.autograd.grad(y, inputs, torch.ones_like(y))

        result[name] = [median_seconds(forward, o.seconds), median_seconds(both, o.seconds)]
    print(json.dumps(result))


main()
