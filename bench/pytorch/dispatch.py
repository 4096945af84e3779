"""Nanoseconds per small operation in PyTorch: one JSON line {name: [bare, recorded, with backward]}.

The names and chains are those of bench/dispatch.cpp.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn import functional as F

OPS = {
    "add": lambda y, w: y + w,
    "multiply by 2": lambda y, w: y * 2,
    "tanh": lambda y, w: y.tanh(),
    "transpose": lambda y, w: y.transpose(0, 1),
    "softmax": lambda y, w: y.softmax(-1),
    "layer_norm": lambda y, w: F.layer_norm(y, y.shape[-1:]),
    "matmul": lambda y, w: y @ w,
}

parser = argparse.ArgumentParser(description=__doc__)
for name in ("threads", "n", "chain"):
    parser.add_argument("--" + name, type=int)
parser.add_argument("--seconds", type=float)
args = parser.parse_args()
torch.set_num_threads(args.threads)


def nanoseconds(f):
    f()
    times, end = [], time.perf_counter() + args.seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return 1e9 * statistics.median(times) / args.chain


def measure(op):
    w = torch.randn(args.n, args.n)
    dy = torch.ones(args.n, args.n)

    def chain(x):
        for _ in range(args.chain):
            x = op(x, w)
        return x

    plain = torch.randn(args.n, args.n)
    tracked = plain.clone().requires_grad_()

    def bare():
        with torch.no_grad():
            chain(plain)

    return [nanoseconds(bare), nanoseconds(lambda: chain(tracked)),
            nanoseconds(lambda: torch.autograd.grad(chain(tracked), tracked, dy))]


print(json.dumps({name: measure(op) for name, op in OPS.items()}))
