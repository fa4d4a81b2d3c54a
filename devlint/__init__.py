"""devlint finds device-placement bugs in PyTorch code."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    """The version, which is git's tag: what this was installed as, and 0.0.0 where it wasn't installed."""
    if name != "__version__":
        raise AttributeError(f"module 'devlint' has no attribute {name!r}")
    from devlint.installed import version

    try:
        return version("devlint")
    except ModuleNotFoundError:
        return "0.0.0"
