"""The parameters of PyTorch's functions and methods, by position: what a positional argument may be called.

Read off torch's stub files (`torch/_C/*.pyi`), Python signatures, the first line of docstrings, and the overrides that
torch tests itself with, in this order. Overloads are put together: what `torch.max` takes second is `dim` or `other`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from operator_mends import PARAMETERS
from torch.overrides import get_testing_overrides

STUBS = Path(torch.__file__).parent / "_C"


@dataclass(frozen=True)
class Parameter:
    """One parameter of one overload."""

    name: str
    # What the stub says that it is; empty where nothing is said.
    annotation: str = ""
    # One of "" (by position or by keyword), "*" (takes the rest), "keyword" (by keyword only).
    sort: str = ""

    @property
    def may_hold_tensors(self) -> bool:
        return not self.annotation or "Tensor" in self.annotation or self.annotation == "Any"


Overload = tuple[Parameter, ...]


@cache
def overloads(name: str) -> tuple[Overload, ...]:
    """The overloads of a function or method by its qualified name; a method's without `self`."""
    last = name.rsplit(".", 1)[1]
    if name in PARAMETERS:
        return (tuple(_read(PARAMETERS[name])),)
    if name.startswith("torch.Tensor."):
        written = _stub("__init__.pyi", "TensorBase").get(last, []) or _stub("__init__.pyi", "TensorBase").get(
            last.rstrip("_"), []
        )
        live = getattr(torch.Tensor, last, None)
        found = _plain(written) or [o[1:] for o in _python(live)] or _documented(live, last)
        return tuple(tuple(p for p in o if p.name != "self") for o in found)
    live = lookup(name)
    written = _stub("_VariableFunctions.pyi", "").get(last, []) if name == f"torch.{last}" else []
    found = _plain(written) or _python(live) or _documented(live, last) or _overridden(live)
    return tuple(tuple(_public(p) for p in o) for o in found)


def params(name: str) -> str:
    """The parameters as text: `input dim|other keepdim * out`; `*size` takes the rest, after `*` come keywords."""
    positions: list[list[str]] = []
    keywords: list[str] = []
    for overload in overloads(name):
        position = 0
        for parameter in overload:
            if parameter.sort == "keyword":
                keywords.append(parameter.name)
                continue
            if position == len(positions):
                positions.append([])
            text = ("*" if parameter.sort == "*" else "") + parameter.name
            if text not in positions[position]:
                positions[position].append(text)
            position += 1
    placed = {p.lstrip("*") for options in positions for p in options}
    rest = [k for k in dict.fromkeys(keywords) if k not in placed]
    return " ".join(["|".join(options) for options in positions] + (["*", *rest] if rest else []))


def bind(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(parameter, argument) of a call, in order. `self` is a method's own tensor; "?" what has no name."""
    method = name.startswith("torch.Tensor.")
    found: list[tuple[str, Any]] = [("self", args[0])] if method else []
    given = args[1:] if method else args
    fitting = _best(overloads(name), given, kwargs)
    for position, value in enumerate(given):
        found.append((_name_at(fitting, position), value))
    return [*found, *kwargs.items()]


def lookup(name: str) -> Any:
    """The live object of a qualified name (`torch.linalg.solve`); None where there is none."""
    owner: Any = torch
    for part in name.split(".")[1:]:
        owner = getattr(owner, part, None)
    return owner


def _best(found: tuple[Overload, ...], given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Overload:
    """The first overload that takes these arguments."""

    def fits(overload: Overload) -> bool:
        names = {p.name for p in overload}
        placed = [p for p in overload if p.sort != "keyword"]
        if not set(kwargs) <= names or (len(given) > len(placed) and not any(p.sort == "*" for p in placed)):
            return False
        return all(_suits(p, value) for p, value in zip(placed, given, strict=False))

    return next((o for o in found if fits(o)), found[0] if found else ())


def _read(text: str) -> Iterator[Parameter]:
    """The inverse of `params`, for one overload."""
    sort = ""
    for word in text.split():
        if word == "*":
            sort = "keyword"
        else:
            yield Parameter(word.lstrip("*"), "", "*" if word[0] == "*" else sort)


def _suits(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not parameter.annotation or "Tensor" in parameter.annotation
    if _has_tensor(value):
        return parameter.may_hold_tensors
    return not (isinstance(value, int | float) and parameter.annotation == "Tensor")


def _has_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, list | tuple) and any(map(_has_tensor, value)))


def _name_at(overload: Overload, position: int) -> str:
    for i, parameter in enumerate(overload):
        if parameter.sort == "*" or (i == position and parameter.sort != "keyword"):
            return parameter.name
    return "?"


def _public(parameter: Parameter) -> Parameter:
    return Parameter("input", parameter.annotation, parameter.sort) if parameter.name == "self" else parameter


@cache
def _stub(file: str, owner: str) -> dict[str, list[Overload]]:
    """The overloads of the functions of a stub file, or of a class in it."""
    tree = ast.parse((STUBS / file).read_text())
    body = tree.body
    if owner:
        body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner).body
    found: dict[str, list[Overload]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(tuple(_written(node.args)))
    return found


def _written(args: ast.arguments) -> Iterator[Parameter]:
    def told(node: ast.arg) -> str:
        return ast.unparse(node.annotation) if node.annotation else ""

    for node in (*args.posonlyargs, *args.args):
        yield Parameter(node.arg, told(node))
    if args.vararg:
        yield Parameter(args.vararg.arg, told(args.vararg), "*")
    for node in args.kwonlyargs:
        yield Parameter(node.arg, told(node), "keyword")


def _plain(found: list[Overload]) -> list[Overload]:
    """Without the deprecated overloads that take `alpha` or `beta` before a tensor."""
    plain = [o for o in found if not any(p.name in ("alpha", "beta") and not p.sort for p in o)]
    return plain or found


def _python(live: Any) -> list[Overload]:
    try:
        signature = inspect.signature(live)
    except (TypeError, ValueError):
        return []
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            if any(p.sort == "*" for p in found):
                # A wrapper that hands on what it is given.
                return []
            continue
        sort = {parameter.VAR_POSITIONAL: "*", parameter.KEYWORD_ONLY: "keyword"}.get(parameter.kind, "")
        found.append(Parameter(parameter.name, "", sort))
    return [tuple(found)]


def _overridden(live: Any) -> list[Overload]:
    stand_in = get_testing_overrides().get(live) if callable(live) else None
    return _python(stand_in) if stand_in is not None else []


def _documented(live: Any, last: str) -> list[Overload]:
    """What stands in the docstring's `name(parameters)`."""
    match = re.search(
        rf"(?:^|[\s.]){re.escape(last)}\(([^()]*|[^\n]*?)\)(?:\s*->|\s*$)", live.__doc__ or "", re.MULTILINE
    )
    if match is None:
        return []
    text = re.sub(r":\s*[\w.\[\], ]+?(?=[,=)]|$)", "", match[1])
    try:
        node = ast.parse(f"def f({text}): ...").body[0]
    except SyntaxError:
        return []
    assert isinstance(node, ast.FunctionDef)
    return [tuple(_written(node.args))]
