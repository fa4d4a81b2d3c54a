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
    UNKNOWN_PLACE,
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
            elif _is_loader(argument.arg) and not function.is_generator and not _has_iterators(frame):
                # What hands its batches on, each call tells of.
                value = loader_of(function.source).but(path=path)
                if _has_loaders_of_its_own(frame):
                    value = value.but(place=UNKNOWN_PLACE)
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


def _has_iterators(frame: Frame) -> bool:
    """Whether the project takes its batches from torchtext's iterators, which put them where they were told."""
    return _is_said(frame, _OF_ITERATORS)


def _has_loaders_of_its_own(frame: Frame) -> bool:
    """Whether the project has loaders that make their batches in a way of their own, and may put them anywhere."""
    return _is_said(frame, _OWN_LOADER)


def _is_said(frame: Frame, pattern: str) -> bool:
    source = frame.source
    return re.search(pattern, source.text) is not None or frame.reader.project_uses(source, pattern)


_OF_ITERATORS = r"\.init_epoch\("
# A class that is derived from PyTorch's, and gives what it makes of each batch.
_OWN_LOADER = (
    r"(?m)^class \w{0,60}\([^)\n]{0,100}DataLoader\)[^\n]*(?:\n(?:[ \t][^\n]*|\r)?){0,80}?"
    r"\n[ \t]{1,8}def __iter__\b(?:[^\n]*\n){1,12}?[ \t]{1,40}yield (?!next\b)(?:[\[({]|[\w.]{1,60}\()"
)


def _is_loader(name: str) -> bool:
    lowered = name.lower()
    return lowered.endswith(("loader", "dataloader", "_dl")) or "data_loader" in lowered
