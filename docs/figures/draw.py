#!/usr/bin/env python3
"""Draws the pictures of the pages in docs/: docs/figures/draw.py [BUILD-FOLDER]

The diagrams need nothing. The curves come from the labs in BUILD-FOLDER/examples; without a folder the curves are not drawn again.
"""
import pathlib
import sys

import curves
import diagrams

HERE = pathlib.Path(__file__).resolve().parent

for name, draw in diagrams.PICTURES.items():
    draw().save(HERE / f"{name}.svg")
if len(sys.argv) > 1:
    for name, draw in curves.PICTURES.items():
        draw(pathlib.Path(sys.argv[1])).save(HERE / f"{name}.svg")
