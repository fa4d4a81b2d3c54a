"""The inputs of a function, as variables."""

from __future__ import annotations

import re

from devlint.signatures.reading.annotations import Annotations, loader_of
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import (
    CLASS,
    MODULE,
    OBJECT,
    UNKNOWN,
    Place,
    Value,
)
from devlint.source.modules import FunctionModel


def enter(frame: Frame, function: FunctionModel, annotations: Annotations) -> None:
    """The inputs of a function, as variables."""
    reader = frame.reader
    prefix = reader.root_prefix(function)
    evidence = function.evidence
    cls = reader.class_info(function.source, function.cls) if function.cls is not None else None
    for position, argument in enumerate(function.parameters):
        root = f"{argument.arg}{prefix}"
        path = (root,)
        if position == 0 and cls is not None and not function.is_static:
            frame.env[argument.arg] = (
                Value(CLASS, data=cls)
                if "classmethod" in function.decorators or function.name == "__new__"
                else Value(MODULE if cls.is_module else OBJECT, Place("input", path), data=cls, path=path)
            )
            continue
        value = annotations.input(frame, argument, path)
        if value.kind is UNKNOWN:
            kind = evidence.get(argument.arg)
            if kind is not None and kind.value == "module":
                value = value.but(kind=MODULE, likely=True)
            elif kind is not None and kind.value == "tensor":
                frame.tensors.add(path)
            elif _is_loader(argument.arg) and not function.is_generator and not _has_loaders_of_its_own(frame):
                # What hands its batches on, each call tells of.
                value = loader_of(function.source).but(path=path)
        frame.env[argument.arg] = value
    if cls is not None and cls.is_module and function.name == "forward":
        # What a module computes from are tensors, unless their use says otherwise.
        for argument in function.parameters[1:2]:
            held = frame.env[argument.arg]
            if held.kind is UNKNOWN and argument.annotation is None and held.path is not None:
                frame.supposed.add(held.path)
    for extra in (function.node.args.vararg, function.node.args.kwarg):
        if extra is not None:
            path = (f"{extra.arg}{prefix}",)
            frame.env[extra.arg] = Value(UNKNOWN, Place("input", path), path=path)


def _has_loaders_of_its_own(frame: Frame) -> bool:
    """Whether the project takes its batches from torchtext's iterators, which put them where they were told, or from loaders that make them in a way of their own."""
    source = frame.source
    return any(re.search(p, source.text) or frame.reader.project_uses(source, p) for p in (_OF_ITERATORS, _OWN_LOADER))


_OF_ITERATORS = r"\.init_epoch\("
# A class of loaders that says how one goes through them.
_OWN_LOADER = r"(?m)^class \w{0,60}Loader\w{0,20}\b[^\n]*(?:\n(?:[ \t][^\n]*)?){0,80}?\n[ \t]{1,8}def __iter__\b"


def _is_loader(name: str) -> bool:
    lowered = name.lower()
    return lowered.endswith(("loader", "dataloader", "_dl")) or "data_loader" in lowered
