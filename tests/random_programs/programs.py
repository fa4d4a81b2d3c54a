"""A whole random program: imports, settings, definitions, and the part that runs."""

from __future__ import annotations

from random import Random

from tests.random_programs.blocks import body, statement
from tests.random_programs.definitions import definition
from tests.random_programs.objects import held, network_used, trained
from tests.random_programs.writer import Writer

IMPORTS = """\
import copy
import functools
import io
import itertools
import os
import sys
import types
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
"""

LOGGED = """\
def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner
"""

# What nobody who reads the program can know: each is set from outside, by itself.
FLAGS = {
    "FAST": '"--fast" in sys.argv',
    "DEBUG": 'os.environ.get("DEBUG") == "1"',
    "LARGE": "len(sys.argv) > 9",
}


def draw(random: Random) -> tuple[str, frozenset[str]]:
    """A program that `random` chooses: its text, and the flags that are set when it is run."""
    return write_program(random), frozenset(flag for flag in FLAGS if random.random() < 0.5)


def write_program(random: Random) -> str:
    """The text of a program that `random` chooses."""
    w = Writer(random)
    w.write(IMPORTS)
    device = w.one_of(
        ('torch.device("cuda")', '"cuda"', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")')
    )
    w.write(f"DEVICE = {device}", "device = DEVICE", f"dev = {w.one_of(('DEVICE', 'torch.device(0)'))}", "history = []")
    w.flags = list(FLAGS)[: 1 + random.randrange(len(FLAGS))]
    w.write(*(f"{name} = {FLAGS[name]}" for name in w.flags))
    if w.chance(0.5):
        place = w.one_of(("home", "host"))
        w.write(f"TABLE = {w.made('mat', place)}")
        w.bind("TABLE", "mat", place, fixed=True)
    w.write("")
    w.write(LOGGED)
    for _ in range(random.randrange(5)):
        definition(w)
    if w.chance(0.5):
        w.write("# The run")
        main(w)
    else:
        with w.function("def main():"):
            main(w)
        w.write('if __name__ == "__main__":', "    main()")
    return "\n".join(line.rstrip() for line in w.lines) + "\n"


def main(w: Writer) -> None:
    for place in ("host", "home"):
        w.let("mat", place, w.made("mat", place))
    for _ in range(2 + w.random.randrange(6)):
        w.one_of((statement, statement, statement, body, held, network_used, network_used, trained))(w)
