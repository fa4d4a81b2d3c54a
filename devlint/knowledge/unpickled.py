"""Which classes `torch.load` unpickles since PyTorch 2.6, where `weights_only` is True unless something else is said.

Found by saving and loading one of each; `tests/test_unpickled.py` does so again.
"""

from __future__ import annotations

# What it refuses, by the name of what makes it.
REFUSED = frozenset(
    {
        "argparse.Namespace", "types.SimpleNamespace", "pathlib.Path", "pathlib.PurePath", "collections.defaultdict",
        "collections.deque", "frozenset", "range", "slice", "functools.partial", "datetime.datetime", "datetime.datetime.now",
        "numpy.array", "numpy.asarray", "numpy.zeros", "numpy.ones", "numpy.mean", "numpy.max", "numpy.min", "numpy.sum", "numpy.std",
        "numpy.float32", "numpy.float64", "numpy.int64", "numpy.random.get_state", "torch.Generator",
    }
)  # fmt: skip
# Packages whose settings are objects of classes of their own.
REFUSED_PACKAGES = ("omegaconf", "hydra", "easydict", "yacs", "ml_collections", "munch", "addict")
# What a project says that runs on releases before 2.6 alone: `torch==1.7.0`, `pytorch=1.13`, `torch<2.6`.
SAYS_BEFORE_2_6 = r"(?i)\b(?:py)?torch[ \t]{0,3}(?:==?|<=?|~=)[ \t]{0,3}(?:[01]\.|1\b|2\.[0-5](?!\d))|\btorch[ \t]{0,3}<[ \t]{0,3}2(?:\.6|\.0|$)"
