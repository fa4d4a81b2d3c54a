"""What the functions of `torch.cuda` ask of the machine, each by its name there.

`cuda.json` is found by calling them without an accelerator, by tools/cuda_functions.py.
"""

from __future__ import annotations

import json
from functools import cache

from devlint.knowledge.files import text_of


def asking() -> frozenset[str]:
    """Those that ask the driver, which looks at the environment no more from then on."""
    return _those("asks")


def raising() -> frozenset[str]:
    """Those that raise without an accelerator; others do nothing then, or give 0."""
    return _those("raises")


def taking_device() -> frozenset[str]:
    """Those whose first argument is a device."""
    return _those("takes_device")


@cache
def _those(fact: str) -> frozenset[str]:
    functions = json.loads(text_of("cuda.json"))["functions"]
    return frozenset(name for name, facts in functions.items() if facts[fact])
