"""Flags that are off, and that nobody gives, told from texts."""

from __future__ import annotations

import pytest

from devlint.source.givens import Givens

NET = b"class Net:\n    def __init__(self, width, fused: bool = False, scale=None):\n        self.fused = fused\n"


@pytest.mark.parametrize(
    ("code", "options", "given"),
    [
        (b"Net(4)\n", b"", False),
        (b"Net(4, fused=False)\n", b"", False),
        (b"Net(4, fused=True)\n", b"", True),
        (b"Net(4, fused=has_kernels())\n", b"", True),
        (b"Net(4, fused=args.fused)\n", b"", False),
        (b'parser.add_argument("--fused")\nNet(4, fused=args.fused)\n', b"", True),
        (b"Net(4)\n", b"model:\n  fused: yes\n", True),
        (b"net.fused = width > 4\n", b"", True),
        (b'Net(4, **{"fused": True})\n', b"", True),
        (b"def make(fast=False):\n    return Net(4, fused=fast)\n", b"", False),
        (b"def make(fast=False):\n    return Net(4, fused=fast)\n\nmake(fast=True)\n", b"", True),
        (b"def make(fast):\n    return Net(4, fused=fast)\n", b"", True),
        (b"def sums(x):\n    fused = 2 * x\n    return x, fused\n", b"", False),
        (b"def make(x):\n    fused = 2 * x\n    return Net(4, fused)\n", b"", True),
        (b"Net(\n    4,\n    fused=2 * x,\n)\n", b"", True),
    ],
)
def test_what_gives_a_flag(code, options, given):
    givens = Givens()
    givens.take(NET, is_code=True)
    givens.take(code, is_code=True)
    givens.take(options, is_code=False)
    assert givens.is_given("fused") is given


def test_an_attribute_of_another_name():
    givens = Givens()
    givens.take(NET.replace(b"self.fused", b"self._fused"), is_code=True)
    assert not givens.is_given("_fused")
    givens.take(b"net._fused = width > 4\n", is_code=True)
    assert givens.is_given("_fused")


def test_a_name_that_is_off_nowhere_is_given():
    givens = Givens()
    givens.take(NET, is_code=True)
    assert givens.is_given("width")
