"""A step of PyTorch's AdamW (plain, foreach or fused, the fastest) over the parameters of GPT-2. Prints one JSON line."""
import argparse
import json
import time

import torch

parser = argparse.ArgumentParser()
for name in ("layers", "heads", "width", "context", "vocabulary", "batch", "time", "steps", "threads"):
    parser.add_argument("--" + name, type=int)
args = parser.parse_args()
torch.set_num_threads(args.threads)

c = args.width
shapes = [(args.vocabulary, c), (args.context, c), (c,), (c,)]
for _ in range(args.layers):
    shapes += [(c,), (c,), (3 * c, c), (3 * c,), (c, c), (c,), (c,), (c,), (4 * c, c), (4 * c,), (c, 4 * c), (c,)]
parameters = [torch.nn.Parameter(torch.randn(s)) for s in shapes]
for p in parameters:
    p.grad = torch.full_like(p, 0.01)


def measure(**options):
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, **options)
    seconds = []
    for step in range(12):
        start = time.perf_counter()
        optimizer.step()
        if step > 0:
            seconds.append(time.perf_counter() - start)
    return seconds


print(json.dumps({"seconds": min((measure(), measure(foreach=True), measure(fused=True)), key=lambda s: sorted(s)[len(s) // 2])}))
