"""What the project's functions write to a file that a call tells them: `train(net, save_as="runs/net")`, and there `torch.save(state, save_as + ".pth")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import calls_in, walk
from devlint_rules.checkpoints.values import given_to
from devlint_rules.checkpoints.writers import FILE_NAME, is_from_host, writes_in

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel
    from devlint_rules.checkpoints.written import Write

# A name is handed on from function to function so far.
_MAX_DEPTH = 3


def is_told_to_host(texts: list[str], facts: Facts) -> bool:
    """Whether functions write the file whose name stands in some texts, being told it, and all of them from the host."""
    names = {text.rpartition("/")[2] for text in texts if FILE_NAME.search(text)}
    written = _writes_told(names, facts)
    return bool(written) and all(map(is_from_host, written))


def _writes_told(names: set[str], facts: Facts) -> list[Write]:
    """The writes of functions that somebody tells a file of one of these names, or that name without its ending."""
    stems = {stem for name in names for stem in (name, name.rpartition(".")[0]) if stem}
    if not stems:
        return []
    pattern = rf"['\"/](?:{'|'.join(map(re.escape, sorted(stems)))})['\"]"
    found = []
    for model in (facts.model, *facts.model.files_matching(pattern)):
        if re.search(pattern, model.source.text) is not None:
            for call in calls_in(model.source.tree):
                told = [n for n in given_to(call) if _says(n, stems, model)]
                found += [w for n in told for w in _writes_of(call, n, model, _MAX_DEPTH)]
    return found


def _says(given: ast.expr, stems: set[str], model: PlacementModel) -> bool:
    """Whether what is given is a path that ends in one of these names, or a name of one."""
    values = [given]
    if isinstance(given, ast.Name):
        values = [*model.assigned_values(given), *model.source.top_level_values(given.id)]
    return any(
        isinstance(v, ast.Constant) and isinstance(v.value, str) and v.value.rpartition("/")[2] in stems for v in values
    )


def _writes_of(call: ast.Call, told: ast.expr, model: PlacementModel, depth: int) -> Iterator[Write]:
    """What the function that a call calls writes to the file that it is told, itself or by way of others."""
    called = model.callee(call)
    there = model.file_of(called.function.source) if called is not None and depth else None
    if called is None or there is None:
        return
    parameters = {name for name, given in called.given(call).items() if given is told}
    function = called.function
    for write in writes_in(there):
        if there.enclosing_scope(write.call) is function.node and _stands_in(write.file, parameters):
            yield write
    for node in function.nodes:
        if isinstance(node, ast.Call):
            for given in given_to(node):
                if isinstance(given, ast.Name) and given.id in parameters:
                    yield from _writes_of(node, given, there, depth - 1)


def _stands_in(file: ast.expr, names: set[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in walk(file))
