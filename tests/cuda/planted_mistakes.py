#!/usr/bin/env python3
"""Plants one mistake at a time in the library's CUDA kernels, and wants their emulated tests to fail.

    tests/cuda/planted_mistakes.py BUILD [OPTIONS]

BUILD: a folder of an emulated build by Ninja. OPTIONS, separated by semicolons: those that let kernels tell their accesses to memory
(docs/cuda.md), for mistakes that show in no order of threads that the emulator takes; without them these are left out.

Each mistake is a replacement in one file, which must be found there once. The kernels of `unit` are compiled with the mistake and
linked in place of the library's.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Mistake(NamedTuple):
    what: str
    file: str
    right: str
    wrong: str
    unit: str
    test: str  # tests/cuda/TEST_test.cpp
    traced: bool = False


MISTAKES = [
    Mistake("no barrier before a block reads its warps' results", "cuda/block.h",
            "if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;\n  __syncthreads();",
            "if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;",
            "cuda/softmax.cu", "softmax"),
    Mistake("no barrier before the next tile is written", "cuda/matmul/tiled.cu",
            "__syncthreads();  // and have been read, before the next ones are written", "",
            "cuda/matmul/tiled.cu", "matmul"),
    Mistake("no barrier before the totals of warps are written again", "cuda/cumsum.cu",
            "__syncthreads();  // all threads have read the totals of the last round", "",
            "cuda/cumsum.cu", "kernels", traced=True),
    Mistake("no barrier between LASER's F and the product that reads it", "cuda/attention/forward_tile.h",
            "memory_.laser.transform(stage(memory_.v, j));\n        __syncthreads();",
            "memory_.laser.transform(stage(memory_.v, j));",
            "cuda/attention/tiled.cu", "attention/attention", traced=True),
    Mistake("tiles are read before they have arrived", "cuda/matmul/tensor_core.cu",
            "copies.template wait<kStages - 2>();", "",
            "cuda/matmul/tensor_core.cu", "matmul"),
    Mistake("the wrong phase of an mbarrier", "cuda/attention/hopper.h",
            "full.wait(round % 2);", "full.wait((round + 1) % 2);",
            "cuda/attention/hopper.cu", "attention/16_bits"),
    Mistake("one row too many in a sum of columns", "cuda/reduce.cu",
            "for (int64_t i = begin + threadIdx.y; i < end; i += blockDim.y)",
            "for (int64_t i = begin + threadIdx.y; i <= end; i += blockDim.y)",
            "cuda/reduce.cu", "kernels"),
    Mistake("a query does not see its own key", "cuda/attention/scores.h",
            "clamp(position(i) + right + 1, keys)", "clamp(position(i) + right, keys)",
            "cuda/attention/tiled.cu", "attention/attention"),
    Mistake("the last row of a tile is not stored", "cuda/attention/hopper_gradients.h",
            "if (i >= own.end) continue;", "if (i + 1 >= own.end) continue;",
            "cuda/attention/hopper_backward.cu", "attention/16_bits"),
    Mistake("no mask", "cuda/attention/scores.h",
            "return allowed.data == nullptr || allowed.data[i * allowed.row + j * allowed.column];",
            "return true;",
            "cuda/attention/tiled.cu", "attention/attention"),
    Mistake("no mask on Hopper", "cuda/attention/hopper.h",
            "&& !is_allowed(owned_column(e))", "&& false",
            "cuda/attention/hopper.cu", "attention/16_bits"),
    Mistake("half of a warp's lanes are left out of a sum", "cuda/block.h",
            "for (int step = lanes / 2; step > 0; step /= 2)", "for (int step = lanes / 4; step > 0; step /= 2)",
            "cuda/norm.cu", "twins"),
    Mistake("neighbouring columns of a product change places", "cuda/attention/hopper.h",
            "% 4 * 2 + e % 2;", "% 4 * 2 + 1 - e % 2;",
            "cuda/attention/hopper.cu", "attention/16_bits"),
    Mistake("each thread's total is scaled by its own largest element", "cuda/sum_exp.h",
            "mine.total * exp_below<S>(mine.largest, largest)", "mine.total",
            "cuda/softmax.cu", "softmax"),
    Mistake("the next row of a norm is never taken", "cuda/norm_held.h",
            "row += step, held = next", "row += step",
            "cuda/norm.cu", "norm"),
    Mistake("a running sum takes a lane too many", "cuda/cumsum.cu",
            "if (lane >= step) up_to_here", "if (lane + 1 >= step) up_to_here",
            "cuda/cumsum.cu", "kernels"),
    Mistake("LASER's sums move the wrong way", "cuda/attention/laser.h",
            "f[d] = first ? T(0) : math::exp(by);", "f[d] = first ? T(0) : math::exp(-by);",
            "cuda/attention/tiled.cu", "attention/attention"),
    Mistake("LASER's sums on Hopper do not move", "cuda/attention/hopper.cu",
            "if (moves) move(", "if (false) move(",
            "cuda/attention/hopper.cu", "attention/laser_16_bits"),
    Mistake("LASER's gradient along scores forgets the weight", "cuda/attention/naive_backward.cu",
            "return by_value(w, v, y) - math::exp(w);", "return by_value(w, v, y);",
            "cuda/attention/naive_backward.cu", "attention/steps"),
    Mistake("each query head of the naive step has keys of its own", "cuda/attention/naive.cu",
            "const HeadMatrix<S> k = in.k.rows(e.b, e.h / in.group);", "const HeadMatrix<S> k = in.k.rows(e.b, e.h % 2);",
            "cuda/attention/naive.cu", "attention/steps"),
    Mistake("equal elements are sorted the other way round", "cuda/sort.cu",
            "a.value == b.value) return a.index < b.index;", "a.value == b.value) return a.index > b.index;",
            "cuda/sort.cu", "kernels"),
    Mistake("rows of one index are added by each block that has it", "cuda/index.cu",
            "if (first > 0 && rows[order[first - 1]] == row) return;  // an earlier block adds this row", "",
            "cuda/index.cu", "kernels"),
    Mistake("no label smoothing in the gradient", "cuda/loss.cu",
            "i + k == target ? T(1) - targets.smoothing + share : share", "i + k == target ? T(1) : T(0)",
            "cuda/loss.cu", "twins"),
    Mistake("each tensor moves at the first one's rate", "cuda/optim/lamb.cu",
            "f.rate(sums[2 * piece.tensor], sums[2 * piece.tensor + 1])", "f.rate(sums[0], sums[1])",
            "cuda/optim/lamb.cu", "optim/optimizers"),
    Mistake("the sums of weights reach into the next row", "cuda/multinomial.cu",
            "at < n ? weights[i / groups * n + at] : 0", "weights[i / groups * n + at]",
            "cuda/multinomial.cu", "random"),
    Mistake("two groups of numbers from one counter", "cuda/random.cu",
            "static_cast<uint64_t>((i + k) / 4)", "static_cast<uint64_t>(i / 4)",
            "cuda/random.cu", "random"),
    Mistake("each table of gradients leaves its squares in one place", "cuda/optim/clip.cu",
            "squares.data<double>() + done, pieces", "squares.data<double>(), pieces",
            "cuda/optim/clip.cu", "optim/optimizers"),
]


def is_compiled_by(file, unit):
    """Whether the build compiles the unit by compiling the file: it is the unit, or includes it with others."""
    return file == ROOT / unit or (
        "unity" in file.parts and f'#include "{unit}"' in file.read_text().splitlines())


def compile_command(build, unit):
    """The file by which the build compiles the unit, and the command that compiles it, as words."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if is_compiled_by(file, unit):
            return file, shlex.split(entry["command"])
    raise SystemExit(f"{build} does not compile {unit}")


def link_command(build):
    """The command that links the tests, as words."""
    target = "tests/vitrine_tests"
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True, capture_output=True, text=True)
    link = next(line for line in reversed(lines.stdout.splitlines()) if f"-o {target}" in line)
    return [word for word in shlex.split(link) if word not in (":", "&&")]


def tests_with(mistake, build, options, folder):
    """Builds the tests with the mistake in `folder`."""
    text = (ROOT / mistake.file).read_text()
    if text.count(mistake.right) != 1:
        raise SystemExit(f"{mistake.what}: {mistake.file} has the text {text.count(mistake.right)} times, wanted once")
    patched = folder / mistake.file
    patched.parent.mkdir(parents=True)
    patched.write_text(text.replace(mistake.right, mistake.wrong))
    # The unit alone, even if the build compiles other files together with it
    compiled, words = compile_command(build, mistake.unit)
    words[words.index(str(compiled))] = str(patched if mistake.unit == mistake.file else ROOT / mistake.unit)
    words[words.index("-o") + 1] = str(folder / "unit.o")
    # Before the project's own folder, so that the file with the mistake is included first.
    words.insert(next(i for i, word in enumerate(words) if word.startswith("-I")), f"-I{folder}")
    # A mistake may leave a variable unused. And compiling takes most of the time.
    words += ["-Wno-error", "-O1"]
    if mistake.traced:
        # What it defines is not taken from the library
        words += options
    subprocess.run(words, check=True, cwd=build, capture_output=True)
    link = link_command(build)
    link[link.index("-o") + 1] = str(folder / "tests")
    # What is linked first is taken. The library may define it again, next to other kernels.
    link[link.index("libvitrine.a"):link.index("libvitrine.a")] = [str(folder / "unit.o"), "-Wl,-z,muldefs"]
    subprocess.run(link, check=True, cwd=build, capture_output=True)
    return folder / "tests"


def finder_of(mistake, build, options):
    """The first test case that fails with the mistake, or None."""
    with tempfile.TemporaryDirectory() as folder:
        tests = tests_with(mistake, build, options, pathlib.Path(folder))
        run = subprocess.run([tests, f"--source-file=*/tests/cuda/{mistake.test}_test.cpp", "--abort-after=1"],
                             capture_output=True, text=True, env={**os.environ, "VITRINE_THREADS": "1"})
    if run.returncode == 0:
        return None
    found = re.search(r"^TEST CASE: *(.*)", run.stdout, re.MULTILINE)
    return found.group(1) if found else f"the tests end with {run.returncode}"


def main(build, options):
    planted = [mistake for mistake in MISTAKES if options or not mistake.traced]
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mistake, finder in zip(planted, pool.map(lambda mistake: finder_of(mistake, build, options), planted)):
            print(f"{mistake.what}: {f'found by {mistake.test}: {finder}' if finder else 'NOT FOUND'}", flush=True)
            missed += finder is None
    print(f"{len(planted)} mistakes of {len(MISTAKES)} planted, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), [word for word in ";".join(sys.argv[2:]).split(";") if word]))
