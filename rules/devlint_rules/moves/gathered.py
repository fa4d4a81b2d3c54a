"""Lists and dicts that a constructor fills with modules: what is put into them, and whether anyone else knows of it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import MOVES, NONE, FunctionModel, Kind, access_path, calls_in, last_name, own_nodes, walk
from devlint_rules.moves.attributes import Kept, is_parameter, overrides

if TYPE_CHECKING:
    from devlint.facts import ClassModel, Facts, PlacementModel

MAKERS = {"list": "list", "tuple": "tuple", "set": "set", "dict": "dict", "OrderedDict": "dict", "defaultdict": "dict"}
BUILTINS = frozenset(dir(builtins))
# Calls that look at a list and keep nothing of it.
LOOKING = frozenset(
    {"len", "enumerate", "zip", "reversed", "print", "iter", "range", "isinstance", "sum", "any", "all", "max", "min", "str"}
)  # fmt: skip
# Methods of a module by which it gets to know others.
REGISTERING = frozenset({"add_module", "register_module", "__setattr__", "_modules"})
# A class that defines one of these looks after its parts by itself.
OWN_WAYS = (
    "parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "_apply", "to", "cuda",
)  # fmt: skip


# A module that has gone through more names than this is no plain case.
MAX_NAMES = 8


class Gathering(NamedTuple):
    """What a constructor puts into a list or dict."""

    elements: list[ast.expr]
    keys: list[ast.expr | None]
    # There are lists in the list.
    nested: bool
    # The name under which it was filled, and the lines on which something is added under that name.
    alias: str
    added_to_alias: list[int]


def may_gather(value: ast.expr, constructor: FunctionModel | None) -> bool:
    """Whether an expression may be a list, tuple or dict that a constructor fills, by its look."""
    match value:
        case ast.Name(id=name):
            return not is_parameter(name, constructor)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in MAKERS
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.List() | ast.Tuple() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return _may_hold_modules(value, constructor)
    return False


def _may_hold_modules(display: ast.expr, constructor: FunctionModel | None) -> bool:
    """Whether something that isn't a builtin is called in a display or comprehension, or was kept in a name before."""
    called = {id(n.func): n.func for n in calls_in(display)}
    if any(not (isinstance(func, ast.Name) and func.id in BUILTINS) for func in called.values()):
        return True
    if isinstance(display, (ast.ListComp, ast.DictComp)):
        return False
    names = [n for n in ast.walk(display) if isinstance(n, ast.Name) and id(n) not in called]
    return any(not is_parameter(n.id, constructor) for n in names if n.id != "self")


def is_filled(found: Kept, constructor: FunctionModel) -> bool:
    """Whether there may be modules in a list: as it is made, or by what the constructor adds to it."""
    match found.value:
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]) | ast.Call(args=[], keywords=[]):
            return any(_may_hold_modules(a, constructor) for a in _added(found.name, constructor))
        case ast.Name(id=name):
            return any(not isinstance(v, ast.Name) and may_gather(v, constructor) for v in _assigned(name, constructor))
    return True


def _added(attribute: str, constructor: FunctionModel) -> Iterator[ast.expr]:
    """What a constructor adds to a list or dict in an attribute, by its look."""
    for node in constructor.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name)), args=args) if name == attribute:
                yield from args
            case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(attr=name))], value=value) if name == attribute:
                yield value
            case ast.AugAssign(target=ast.Attribute(attr=name), value=value) if name == attribute:
                yield value


def kind_of(value: ast.expr) -> str:
    """What to call it."""
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return MAKERS.get(name, "list")
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.Tuple():
            return "tuple"
    return "list"


def gathering(found: Kept, constructor: FunctionModel, model: PlacementModel) -> Gathering | None:
    """What a constructor puts into an attribute's list; None where some of it isn't a module that is made for it."""
    parts = _Parts()
    alias = found.value.id if isinstance(found.value, ast.Name) else ""
    made = found.value
    added_to_alias: list[int] = []
    if alias:
        values = list(_assigned(alias, constructor))
        if len(values) != 1 or isinstance(values[0], ast.Name) or not may_gather(values[0], constructor):
            return None
        made = values[0]
        added_to_alias = parts.add_additions(alias, constructor)
    parts.add_all(made)
    parts.add_additions(f"self.{found.name}", constructor)
    single = isinstance(made, (ast.List, ast.Tuple)) and len(parts.elements) == 1 == len(made.elts)
    # One module in a list of its own is hidden on purpose.
    if not parts.elements or single or any(_is_of_builtin(e, constructor) for e in parts.elements):
        return None
    model.ensure(constructor)
    if not all(_is_made_here(e, parts.elements, constructor, model) for e in parts.elements):
        return None
    return Gathering(parts.elements, parts.keys, parts.nested, alias, added_to_alias)


def _is_of_builtin(element: ast.expr, constructor: FunctionModel) -> bool:
    """`dict(channels=64)`, which is no module: that is told without asking what anything is."""
    func = element.func if isinstance(element, ast.Call) else None
    if not isinstance(func, ast.Name) or func.id not in BUILTINS:
        return False
    return func.id not in constructor.local_names and func.id not in constructor.source.bindings


def _assigned(name: str, constructor: FunctionModel) -> Iterator[ast.expr]:
    for node in constructor.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                yield value


class _Parts:
    """The elements of a list or dict as its parts are come by."""

    def __init__(self) -> None:
        self.elements: list[ast.expr] = []
        self.keys: list[ast.expr | None] = []
        self.nested = False

    def add_all(self, node: ast.expr) -> None:
        """Everything in a display, a comprehension, or a call such as `list(...)`."""
        match node:
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                for element in elts:
                    self._add(element)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self.keys.append(key)
                    self._add(value)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.SetComp(elt=elt):
                self._add(elt)
            case ast.DictComp(key=key, value=value):
                self.keys.append(key)
                self._add(value)
            case ast.Call(args=args, keywords=keywords):
                for argument in args:
                    self.add_all(argument)
                for keyword in keywords:
                    self.keys.append(ast.Constant(keyword.arg) if keyword.arg else None)
                    self._add(keyword.value)
            case ast.BinOp(left=left, right=right):
                self.add_all(left)
                self.add_all(right)
            case _:
                # Something that isn't looked into: it isn't a module, and that ends it.
                self.elements.append(node)

    def _add(self, element: ast.expr) -> None:
        if isinstance(element, ast.Starred):
            self.add_all(element.value)
        elif isinstance(element, (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)):
            self.nested = True
            self.add_all(element)
        elif isinstance(element, ast.IfExp):
            self._add(element.body)
            self._add(element.orelse)
        else:
            self.elements.append(element)

    def add_additions(self, path: str, constructor: FunctionModel) -> list[int]:
        """What is added under a name or attribute, and the lines on which that is done."""
        lines = []
        for node in constructor.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[*_, argument]) if access_path(
                    owner
                ) == path and name in ("append", "insert", "extend", "update", "setdefault"):
                    if name in ("extend", "update"):
                        self.add_all(argument)
                    else:
                        self._add(argument)
                case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value) if (
                    access_path(owner) == path
                ):
                    self.keys.append(key)
                    self._add(value)
                case ast.AugAssign(target=target, value=value) if access_path(target) == path:
                    self.add_all(value)
                case _:
                    continue
            lines.append(node.lineno)
        return lines


def _is_made_here(
    element: ast.expr,
    elements: list[ast.expr],
    constructor: FunctionModel,
    model: PlacementModel,
    seen: frozenset[str] = frozenset(),
) -> bool:
    """Whether an element is a module that is made in the constructor, for this list alone (or None).

    `seen` are the names that it was come to by: what is made from itself isn't made here.
    """
    if isinstance(element, ast.Constant) and element.value is None:
        return True
    if isinstance(element, ast.Name):
        values = list(_assigned(element.id, constructor))
        return (
            bool(values)
            and element.id not in seen
            and len(seen) < MAX_NAMES
            and all(_is_made_here(v, elements, constructor, model, seen | {element.id}) for v in values)
            and not _is_used_elsewhere(element.id, elements, constructor, model)
        )
    if not isinstance(element, ast.Call):
        return False
    made = [v for _, v in model.value(element).alternatives()]
    if not all(v.kind is Kind.MODULE or v == NONE for v in made) or all(v == NONE for v in made):
        return False
    return _makes(_first_of_chain(element, model), elements, constructor, model, seen)


def _first_of_chain(call: ast.Call, model: PlacementModel) -> ast.Call:
    """`nn.Linear(2, 2)` of `nn.Linear(2, 2).to(device).half()`."""
    while (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Call)
        and model.value(call.func.value).kind is Kind.MODULE
    ):
        call = call.func.value
    return call


def _makes(
    call: ast.Call, elements: list[ast.expr], constructor: FunctionModel, model: PlacementModel, seen: frozenset[str]
) -> bool:
    """Whether a call whose value is a module makes it: a class, a function that returns a new one, a copy."""
    if isinstance(call.func, ast.Attribute) and model.value(call.func.value).kind is Kind.MODULE:
        if access_path(call.func.value) != "self":
            # `layer.to(device)`
            return _is_made_here(call.func.value, elements, constructor, model, seen)
        own = model.value(call.func.value).cls
        method = own.method(call.func.attr) if own is not None else None
        return method is not None and not any(
            isinstance(n, ast.Attribute) and (isinstance(n.ctx, ast.Store) or n.attr in REGISTERING)
            for n in method.nodes
        )
    callee = model.value(call.func)
    return not callee.name.startswith("builtins.")


def _is_used_elsewhere(name: str, elements: list[ast.expr], constructor: FunctionModel, model: PlacementModel) -> bool:
    """Whether a module under a name is handed to anything but the list."""
    for node in constructor.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node not in elements:
            parent = next(model.ancestors(node), None)
            if not isinstance(parent, ast.Attribute):
                return True
    return False


def registered_elsewhere(
    found: Kept, filled: Gathering, cls: ClassModel, constructor: FunctionModel, facts: Facts
) -> bool:
    """Whether someone else knows of the modules too: another container, the class itself, or who trains them."""
    if overrides(cls, OWN_WAYS):
        return True
    for function in (f for c in cls.project_lineage() for f in c.methods.values()):
        # What stands in it may do so as well: `def unit(): self.add_module(...)`.
        for node in walk(function.node):
            if _registers(node) or _hands_on(node, found, function is constructor, filled.alias):
                return True
    return _is_tended(found.name, constructor, facts)


def _registers(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in REGISTERING
        case ast.Call(func=ast.Name(id="setattr")):
            return True
    return False


def _hands_on(node: ast.AST, found: Kept, in_constructor: bool, alias: str) -> bool:
    """Whether a statement or call passes the list, or something out of it, to what may register it."""
    paths = {f"self.{found.name}", *([alias] if alias and in_constructor else [])}
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            name = last_name(func)
            if name in LOOKING or not (in_constructor or name in ("Sequential", "ModuleList", "ModuleDict")):
                return False
            return any(_speaks_of(a, paths) for a in (*args, *(k.value for k in keywords)))
        case ast.Assign(value=value) if in_constructor and node is not found.statement:
            targets = [access_path(t) or "" for t in node.targets]
            return any(t.startswith("self.") for t in targets) and _speaks_of(value, paths)
        case ast.For(iter=iterated) if in_constructor and _speaks_of(iterated, paths):
            each = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
            return any(
                isinstance(n, ast.Delete)
                or (isinstance(n, ast.Assign) and not is_move(n.value))
                or (isinstance(n, ast.Call) and _makes_of(n, each))
                for n in own_nodes(node)
            )
    return False


def _makes_of(call: ast.Call, names: set[str]) -> bool:
    """`Block(layer=layer)`: a class by its name, which keeps what it is given."""
    given = (*call.args, *(k.value for k in call.keywords))
    return last_name(call.func)[:1].isupper() and any(isinstance(a, ast.Name) and a.id in names for a in given)


def is_move(node: ast.expr) -> bool:
    """`layer.to(device)`, which registers nothing."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES


def _speaks_of(node: ast.expr, paths: set[str]) -> bool:
    """Whether a list is in an expression, but for its length and the like."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    if isinstance(node, (ast.Name, ast.Attribute)) and access_path(node) in paths:
        return True
    return any(_speaks_of(child, paths) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)) or any(
        _speaks_of(g.iter, paths) for g in getattr(node, "generators", ())
    )


def _is_tended(attribute: str, constructor: FunctionModel, facts: Facts) -> bool:
    """Whether someone moves or trains the modules one by one; that the constructor moves them trains none."""
    tending = r"\s*\.\s*(?:to|cuda|parameters|named_parameters|state_dict|load_state_dict)\s*\("
    if re.search(rf"\.{attribute}\s*\[[^\]\n]{{0,200}}\]{tending}", facts.text.text):
        return True
    for node in walk(facts.model.source.tree):
        loops = (
            [(node.iter, node.target)]
            if isinstance(node, ast.For)
            else [(g.iter, g.target) for g in getattr(node, "generators", ())]
        )
        for iterated, target in loops:
            if re.search(rf"\.{attribute}\b", ast.unparse(iterated)):
                names = "|".join(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
                only = tending.replace("to|cuda|", "") if node in constructor.nodes else tending
                if names and re.search(rf"\b(?:{names}){only}", ast.unparse(node)):
                    return True
    return False
