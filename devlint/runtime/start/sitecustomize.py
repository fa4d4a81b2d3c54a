"""Carries virtual CUDA into the Python processes that a run starts: spawned workers, `torchrun`, subprocesses.

The folder of this file stands first on PYTHONPATH while virtual CUDA is on, so Python imports it when it starts, before
the program. It waits for torch to be imported, and hands over to the `sitecustomize` that would have been imported
without it. It must not fail, and must cost nothing where torch isn't used: it knows nothing of devlint but a name.
"""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Any


class _Entering(Loader):
    """Loads torch as its own loader does, then switches on."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            from devlint.runtime.virtual import child

            child.enter()
        except Exception as error:
            print(f"devlint: virtual CUDA can't be switched on in this process: {error!r}", file=sys.stderr)


class _WaitsForTorch(MetaPathFinder):
    """The first finder: it finds torch alone, once."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Entering(spec.loader)
        return spec


def _hand_over() -> None:
    """Imports the next `sitecustomize` on the path, under its name."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes long to import
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    following = PathFinder.find_spec("sitecustomize", sys.path)
    if following is not None and following.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(following)
        following.loader.exec_module(module)


if os.environ.get("DEVLINT_CHILDREN"):
    sys.meta_path.insert(0, _WaitsForTorch())
_hand_over()
