"""Where the batches of a loader are, by its dataset and its collate function."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.libraries import torch_calls
from devlint.signatures.reading import calls
from devlint.signatures.state import containers
from devlint.signatures.state.frame import CONTENTS, Call, Frame
from devlint.signatures.state.objects import class_of
from devlint.signatures.values.values import (
    BATCH,
    EITHER,
    FUNCTION,
    HOST,
    TENSOR,
    UNKNOWN,
    Cell,
    Value,
    leaves,
)
from devlint.source.modules import last_name
from devlint.source.trees import kept_on_node, walk

# What a dataset says that moves what it holds.
_PLACES = regex(r"cuda|device|\.to\((?!torch\.\w|dtype)")


def collated(frame: Frame, collate: Value) -> Value | None:
    """What a loader's collate function gives, where it may be elsewhere than on the host; None where that isn't known."""
    if collate.kind is not FUNCTION or collate.data is None:
        return None
    function, closure, _ = collate.data
    signature = frame.reader.signature(function, closure)
    if signature is None:
        return None
    if not _gives_host(frame, signature.gives, signature.cells):
        node = ast.copy_location(ast.Call(ast.Name("collate"), [], []), function.node)
        ast.copy_location(node.func, function.node)
        call = Call(frame, node)
        call.given = [(node, call.fresh())]
        return calls.call_value(call, collate)
    return Value(BATCH, HOST, rank="ranked", data="item", likely=True)


def _gives_host(frame: Frame, value: Value, cells: dict[Cell, dict[str, Value]], depth: int = 4) -> bool:
    """Whether what a function gives is on the host, as far as is known."""
    for _, leaf in leaves(value, frame.atoms):
        if leaf.kind in (TENSOR, BATCH) and leaf.place != HOST:
            return False
        if leaf.kind is UNKNOWN and leaf.place.sort in ("accelerator", "told"):
            return False
        held = cells.get(leaf.cell, {}).get(CONTENTS) if leaf.cell is not None else None
        for _, contents in held.options() if held is not None and depth else ():
            if not all(_gives_host(frame, p, cells, depth - 1) for p in contents.parts if isinstance(p, Value)):
                return False
    return True


def stays_on_host(frame: Frame, dataset: Value) -> bool:
    """Whether a dataset gives tensors on the host, as far as is known."""
    if frame.source.sets_default_device:
        # What it makes without a word of a place may be anywhere.
        return False
    if dataset.kind is EITHER:
        return not any(_may_move(frame, option) for _, option in dataset.options())
    if dataset.kind in (TENSOR, UNKNOWN) and dataset.place.sort in ("accelerator", "told"):
        return False
    if dataset.place.is_open and (dataset.kind is TENSOR or dataset.place.name != dataset.path):
        # Its rows are where it is, or what it was made of.
        return False
    if dataset.path is not None and dataset.path in frame.tensors:
        # An input that is used as a tensor is: `DataLoader(x, batch_size=16)`.
        return False
    if dataset.place == torch_calls.SCATTERED:
        return False
    cls = class_of(dataset)
    if cls is not None:
        held = [v for k, v in frame.env.items() if isinstance(k, tuple) and k[0] == dataset.identity]
        placed = any(o.place.sort not in ("host", "unknown") for v in held for _, o in leaves(v, frame.atoms))
        return not placed and not cls.says(_PLACES)
    contents = containers.contents_of(frame, dataset)
    if contents is not None:
        parts = containers.all_parts(contents, frame)
        return all(leaf.place.sort in ("host", "unknown") for _, leaf in leaves(parts, frame.atoms))
    return not _may_move(frame, dataset)


def _may_move(frame: Frame, dataset: Value) -> bool:
    """Whether a dataset is of a class that moves what it gives, or one that isn't known is made where there is such a class."""
    cls = class_of(dataset)
    if cls is not None:
        return cls.says(_PLACES)
    tree = frame.source.tree
    return dataset.kind is UNKNOWN and (_defines_dataset_that_moves(tree) or _moves_parts_of_data(tree))


@kept_on_node
def _defines_dataset_that_moves(tree: ast.Module) -> bool:
    """Whether a file defines a dataset that moves what it gives: a loader of one that isn't known may be of that."""
    return any(
        isinstance(part, ast.FunctionDef) and part.name == "__getitem__" and any(map(_moves, ast.walk(part)))
        for statement in tree.body
        if isinstance(statement, ast.ClassDef)
        for part in statement.body
    )


@kept_on_node
def _moves_parts_of_data(tree: ast.Module) -> bool:
    """Whether a file moves what some dataset holds, where it is: `dataset.x = dataset.x.to(device)`."""
    nodes = list(walk(tree))
    moved = {
        target.value.id
        for node in nodes
        if isinstance(node, ast.Assign) and any(map(_moves, ast.walk(node.value)))
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
    }
    # `train_set = dataset`
    moved |= {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in moved
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return any(
        isinstance(node, ast.Call)
        and (last_name(node.func) in ("random_split", "Subset") or last_name(node.func).endswith("Loader"))
        and any(isinstance(a, ast.Name) and a.id in moved for a in node.args)
        for node in nodes
    )


def _moves(node: ast.AST) -> bool:
    """`.cuda()`, `.to(device)`, and what names a device."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")) | ast.keyword(arg="device"):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name) | ast.Attribute(attr=name), *_]):
            return "device" in name
    return False
