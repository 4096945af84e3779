"""PyTorch's fused attention on a GPU, causal, bfloat16. Prints one JSON line: median seconds of forward and backward; null where torch
has no GPU.
"""
import argparse
import json
import statistics

import torch
from torch.nn import functional as F


def seconds(run, repeats, runs=3):
    run()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / runs)
    return statistics.median(times)


def measure(o):
    shape = (o.batch, o.time, o.heads, o.size)
    q, k, v, dy = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def attention():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    with torch.no_grad():
        forward = seconds(attention, o.repeats)
    y = attention()
    backward = seconds(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True), o.repeats)
    return {"forward": forward, "backward": backward}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in "batch heads time size repeats".split():
        parser.add_argument(f"--{name}", type=int, required=True)
    o = parser.parse_args()
    print(json.dumps(measure(o) if torch.cuda.is_available() else None))


main()
