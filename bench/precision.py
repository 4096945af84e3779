#!/usr/bin/env python3
"""What training in bfloat16 costs in loss: bench/precision.py [--gradients | --moments] [--data TEXT] [--steps N] [--seeds 1,2,3,4,5] [MIXER…]

Trains each mixer with build/examples/train_gpt in float32 and in bfloat16, with the same seeds, and prints the mean difference of
the final validation losses with its 95 % interval (Student's t over the pairs). The exit code is 1 where the interval leaves ±0.01.
With --gradients the comparison is of gradients in bfloat16 with gradients in float32, both with models in bfloat16; with --moments,
of the optimizer's moments in bfloat16 with moments in float32.
Without --data the text is tinyshakespeare in the folder that VITRINE_DATA names, or else Vitrine's own source.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIXERS = ["standard", "laser", "qk_norm", "optimal=32"]
# The 97.5 % quantile of Student's t by the number of pairs
QUANTILE = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
ALLOWED = 0.01
FLAGS = {"float32": [], "bfloat16": ["--dtype", "bfloat16"],
         "bfloat16 gradients": ["--dtype", "bfloat16", "--gradients", "bfloat16"],
         "bfloat16 moments": ["--dtype", "bfloat16", "--moments", "bfloat16"]}


def final_loss(folder, mixer, way, seed, options):
    """The last validation loss that a run wrote into its metrics."""
    out = pathlib.Path(folder) / f"{mixer}-{way}-{seed}"
    command = [str(ROOT / "build/examples/train_gpt"), "--mixer", mixer, *FLAGS[way], "--seed", str(seed), "--steps",
               str(options.steps), "--sample", "0", "--out", str(out)]
    if options.data:
        command += ["--data", options.data]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    records = [json.loads(line) for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [r["validation_loss"] for r in records if "validation_loss" in r][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mixers", nargs="*", default=MIXERS, metavar="MIXER")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--gradients", action="store_true")
    what.add_argument("--moments", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    options = parser.parse_args()
    seeds = options.seeds.split(",")
    if len(seeds) not in QUANTILE:
        parser.error(f"got {len(seeds)} seeds, wanted 2 to {max(QUANTILE)}")
    text = pathlib.Path(os.environ.get("VITRINE_DATA", "")) / "tinyshakespeare" / "input.txt"
    if options.data is None and text.exists():
        options.data = str(text)
    print(f"{options.steps} steps, seeds {options.seeds}, text: {pathlib.Path(options.data).parent.name if options.data else 'own source'}\n")
    first, second = "float32", "bfloat16"
    if options.gradients or options.moments:
        first, second = "bfloat16", "bfloat16 gradients" if options.gradients else "bfloat16 moments"
    print(f"| mixer | {first} | {second} | difference | 95 % interval |\n| --- | ---: | ---: | ---: | ---: |", flush=True)
    wrong = []
    for mixer in options.mixers:
        with tempfile.TemporaryDirectory() as folder:
            losses = {way: [final_loss(folder, mixer, way, seed, options) for seed in seeds] for way in (first, second)}
        differences = [b - a for a, b in zip(losses[first], losses[second])]
        mean = statistics.mean(differences)
        reach = QUANTILE[len(seeds)] * statistics.stdev(differences) / len(seeds) ** 0.5
        print(f"| {mixer} | {statistics.mean(losses[first]):.4f} | {statistics.mean(losses[second]):.4f} | {mean:+.4f} | "
              f"{mean - reach:+.4f} to {mean + reach:+.4f} |", flush=True)
        if abs(mean) + reach > ALLOWED:
            wrong.append(mixer)
    if wrong:
        sys.exit(f"beyond ±{ALLOWED}: {', '.join(wrong)}")


main()
