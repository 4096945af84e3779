#!/usr/bin/env python3
"""Checks that folders include each other in one direction only, and that includes are written from the root."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(vitrine/[^>]+)>)')

# Folder or file -> what it may include; the longest match counts.
# Shared by the CPU kernels and their CUDA twins
CONTRACTS = r"(ops|optim)/(.+/)?(kernels|formulas)\w*\.h"
ALLOWED = {
    "core": r"core/",
    "ops": r"(core|ops)/",
    # A kernel is compiled with its formula
    "ops/elementwise_formula.h": r"(core|ops)/|cuda/elementwise_formula\.h",
    "optim": r"(core|ops|optim)/",
    # nn's floors: each may include those below it.
    "nn": r"(core|ops)/|nn/(module|init|check_gradients|options|config_file)\.h",
    "nn/layers": r"(core|ops)/|nn/((module|init)\.h|layers/)",
    "nn/mixer.h": r"core/|nn/(module\.h|layers/|attention/mask\.h)",
    "nn/mixer.cpp": r"(core|ops)/|nn/mixer\.h",
    "nn/fixed_state.h": r"nn/mixer\.h",
    "nn/fixed_state.cpp": r"(core|ops)/|nn/fixed_state\.h",
    "nn/attention": r"(core|ops)/|nn/((module|init|mixer|fixed_state)\.h|layers/|attention/)",
    "nn/recurrent": r"(core|ops)/|nn/((module|init|mixer|fixed_state)\.h|layers/|recurrent/)",
    "nn/transformer": r"(core|ops)/|nn/((module|init|mixer)\.h|layers/|attention/|recurrent/|transformer/)",
    "nn/losses": r"(core|ops)/|nn/losses/",
    "nn/text": r"(core|ops)/|nn/text/",
    "nn/data": r"(core|ops)/|nn/(text|data)/",
    "nn/metrics": r"(core|ops)/|nn/(text|metrics)/",
    "nn/models": r"(core|ops)/|nn/((module|init|options|fixed_state)\.h|layers/|attention/|recurrent/|transformer/|models/)",
    "nn/generation": r"(core|ops)/|nn/((module|options)\.h|models/|generation/)",
    "nn/pretrained": r"(core|ops)/|nn/((module|options)\.h|layers/|transformer/|models/|text/|pretrained/)",
    "nn/report": r"core/|nn/(attention/statistics\.h|metrics/|text/|report/)",
    # The record of a run knows no drawing, and of the report training knows the record alone.
    "nn/report/series.h": r"core/",
    "nn/report/run.h": r"core/|nn/(attention/statistics|report/(series|text_table))\.h",
    "nn/report/run.cpp": r"core/|nn/report/run\.h",
    "nn/training": r"(core|ops|optim)/|nn/(?!report/)|nn/report/run\.h",
    "cuda": rf"((core|cuda)/|{CONTRACTS})",
    "examples": r"(core|ops|optim|nn|cuda|examples)/",
    "bench": r"(core|ops|optim|nn|cuda|bench)/",
    # The text on which train_gpt has trained
    "bench/int8_loss.cpp": r"(core|nn|bench)/|examples/default_text\.h",
    "bench/tokenizer.cpp": r"(core|nn|bench)/|examples/default_text\.h",
    "tests": r"(core|ops|optim|nn|cuda|tests)/",
    "tests/examples": r"(core|ops|optim|nn|cuda|examples|tests)/",
}


def complaints(path):
    """Yields (line number, text) for each include of the file `path` that breaks a rule."""
    relative = path.relative_to(ROOT).as_posix()
    folder = max((f for f in ALLOWED if relative == f or relative.startswith(f + "/")), key=len)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, installed = match.groups()
        if installed:
            yield number, f'<{installed}> is how users include: write "{installed.removeprefix("vitrine/")}"'
        elif not (ROOT / quoted).is_file():
            yield number, f'"{quoted}" is not a file, seen from the root'
        elif not re.match(ALLOWED[folder], quoted):
            yield number, f'{folder} must not include "{quoted}"'


def main():
    files = [p for folder in ALLOWED if "/" not in folder for p in sorted((ROOT / folder).rglob("*"))]
    files = [p for p in files if p.suffix in SUFFIXES and "tests/consumer" not in p.as_posix()]
    found = [(p.relative_to(ROOT), *c) for p in files for c in complaints(p)]
    for path, number, text in found:
        print(f"{path}:{number}: {text}")
    print(f"{len(files)} files, {len(found)} includes in a wrong direction")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
