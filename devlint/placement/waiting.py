"""Waits in hot code, as the signatures and the roles of functions tell of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.placement.cold import ColdCode
from devlint.signatures.answers.hot import HotCode
from devlint.signatures.answers.waits import Stall, in_order, stalls

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel


def stalls_of(model: PlacementModel) -> list[Stall]:
    """The stalls of a file's hot code, in reading order."""
    reader = model.reader
    reader.whole(model.source)
    guards = Guards(model)
    hot = HotCode(reader, model.source, (), guards.is_cold)
    found = [s for s in stalls(reader, model.source) if _is_hot(model, hot, guards, s)]
    return list(in_order(found))


def _is_hot(model: PlacementModel, hot: HotCode, guards: Guards, stall: Stall) -> bool:
    if hot.of(stall.function) is not None:
        return not guards.is_cold(stall.node)
    return model.hot_loop(stall.node) is not None


class Guards:
    """What keeps a node from running on each call of its function."""

    def __init__(self, model: PlacementModel) -> None:
        self._model = model
        self._cold = ColdCode(model)

    def is_cold(self, node: ast.AST) -> bool:
        """Whether a node runs on some calls only: under a step guard, for a cache, on an error path."""
        child = node
        for parent in self._model.ancestors(node):
            if self._cold.is_cold(parent, child):
                return True
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            child = parent
        return False
