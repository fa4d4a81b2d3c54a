"""DEV609: a function that is named where it should be called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, own_nodes, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts

BACKENDS = ("cuda", "xpu", "mps", "hpu", "npu", "mtia", "accelerator")
# Functions without required arguments, whose answer is used and not they themselves.
QUESTIONS = ("is_available", "is_initialized", "is_bf16_supported", "is_built", "device_count", "current_device")
ACTIONS = ("synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
MOVES = ("cuda", "cpu", "xpu", "mps", "hpu", "npu")
_MODULES = frozenset(
    {*(f"torch.{b}" for b in BACKENDS), "torch.distributed", "torch.backends.mps", "torch.backends.cuda", "torch.backends.cudnn"}
)  # fmt: skip
# Functions that ask for a value and never call what they are given.
_TAKES_VALUES = frozenset(
    f"builtins.{n}" for n in ("print", "bool", "int", "str", "range", "len", "min", "max", "format")
)


class MissingCall(Rule):
    """A function that is named but not called, such as `torch.cuda.is_available`.

    ## What it does
    Flags `torch.cuda.is_available`, `device_count`, `synchronize` and their like, and the `.cuda`, `.cpu` and their
    like of a tensor or module, without `()`: in a condition or comparison, in an f-string, as a statement, returned,
    assigned and then used as a value. A function that is handed on or stored to be called later is left alone.

    ## Why is this bad
    A function object is always true, whatever calling it would return: the program takes the GPU's path on machines without one. A move
    that isn't called leaves a bound method in place of the tensor, or does nothing at all.

    ## Example
    ```python
    import torch

    x = torch.ones(3)
    if torch.cuda.is_available:
        x = x.cuda
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(3)
    if torch.cuda.is_available():
        x = x.cuda()
    ```

    ## Fix safety
    Safe: `()` is added.

    ## References
    - [torch.cuda.is_available](https://docs.pytorch.org/docs/stable/generated/torch.cuda.is_available.html)
    - [torch.Tensor.cuda](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cuda.html)
    """

    code = "DEV609"
    name = "missing-call"
    # `args.cuda`, `torch.version.cuda` and the modules are no methods.
    trigger = (
        rf"\b(?:{'|'.join((*QUESTIONS, *ACTIONS))})\b(?!\s*[(=\"'])"
        rf"|\.(?<!torch\.)(?<!args\.)(?<!opt\.)(?<!version\.)(?<!backends\.)\s*(?:{'|'.join(MOVES)})\b(?!\s*[(=])"
        r"|default\s*=\s*[\w.]*is_available\b(?!\s*\()"
    )
    effect = Effect(holds="callable(x)")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        asked = m.MatchRegex("|".join((*QUESTIONS, *ACTIONS)))
        return m.Attribute(attr=m.Name(m.MatchRegex("|".join((*QUESTIONS, *ACTIONS, *MOVES))))) | m.Name(asked)

    def judge(self, node: cst.Attribute | cst.Name, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        likely = _never_called(node, facts)
        if found is None or likely is None or _is_probed(found, facts) or _is_given(found, facts):
            return
        told = _told(found, facts)
        if told is None:
            return
        yield Report(
            node,
            f"`{facts.name_of(node)}` isn't called: {told}",
            "likely" if likely else "certain",
            change=None if _mends_nothing(found, facts) else Change("call it", "safe", ((node, cst.Call(node)),)),
        )


def _is_given(found: ast.expr, facts: Facts) -> bool:
    """Whether the project gives its own objects an attribute of that name: `self.cuda = use_cuda`."""
    if not isinstance(found, ast.Attribute) or found.attr not in MOVES:
        return False
    return facts.model.texts_match(rf"\.{found.attr}[ \t]{{0,9}}=(?!=)")


def _mends_nothing(found: ast.expr, facts: Facts) -> bool:
    """Whether the call would change nothing: its number is compared with a device, or what the test decides is put anew right behind it."""
    match next(facts.model.ancestors(found), None):
        case ast.Compare(left=left, comparators=others):
            return any(isinstance(n, ast.Attribute) and n.attr == "device" for n in (left, *others))
        case ast.If(test=test, body=[ast.Assign(targets=[ast.Name(id=name)])], orelse=[]) as branch if test is found:
            return any(_always_binds(s, name) for s in facts.model.source.after(branch)[:1])
    return False


def _always_binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a name a new value on each way through it, and doesn't ask for the old one."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=bound)], value=value):
            return bound == name and not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value))
        case ast.If(test=test, body=[*_, first], orelse=[*_, second]):
            asked = any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(test))
            return not asked and _always_binds(first, name) and _always_binds(second, name)
    return False


def _never_called(node: cst.Attribute | cst.Name, facts: Facts) -> bool | None:
    """Whether it is only likely one of the functions or methods; None where it isn't one."""
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value
    if name in QUESTIONS or name in ACTIONS:
        module, _, function = (facts.qualified(node) or "").rpartition(".")
        return False if module in _MODULES and function == name else None
    if name not in MOVES or not isinstance(node, cst.Attribute):
        return None
    likely = False
    for _, owner in facts.value(node.value).alternatives():
        if owner.kind not in (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER):
            return None
        if owner.cls is not None and owner.cls.defines(name):
            return None
        likely = likely or owner.likely or bool(owner.cls and "" in owner.cls.outside_bases)
    return likely


def _is_probed(found: ast.expr, facts: Facts) -> bool:
    """`try: torch.xpu.is_available` asks whether there is such a function."""
    return any(
        isinstance(parent, ast.Try)
        and any(h.type is None or "AttributeError" in ast.unparse(h.type) for h in parent.handlers)
        for parent in facts.model.ancestors(found)
    )


# What a test asks a mock that stands for a tensor.
_OF_MOCKS = regex(r"call_\w+|called\w*|assert_\w+|return_value|side_effect|mock_calls|method_calls")


def _told(found: ast.expr, facts: Facts) -> str | None:
    """What comes of not calling it; None where it may be called later."""
    child, parent = _out_of_choices(found, facts)
    match parent:
        case ast.Expr():
            return "the statement does nothing"
        case ast.Attribute(attr=attr) if attr in QUESTIONS or attr in ACTIONS:
            # `th.cuda.is_available()`: PyTorch by whatever name.
            return None
        case ast.Attribute(attr=attr):
            return f"a method has no `{attr}`" if _is_move(found) and not _OF_MOCKS.fullmatch(attr) else None
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return None
        case ast.Compare() | ast.BinOp():
            return "the function itself is compared" if isinstance(parent, ast.Compare) else "it is no number"
        case ast.FormattedValue():
            return "the text shows the function itself"
        case ast.Return():
            return _told_of_return(found, parent, facts)
        case (
            ast.Assign(targets=[ast.Name() | ast.Attribute() as target])
            | ast.AnnAssign(target=ast.Name() | ast.Attribute() as target)
        ):
            return _told_of_assigned(found, target, facts)
        case ast.Call(func=func, args=args) if child in args and facts.model.value(func).name in _TAKES_VALUES:
            return "the function itself is passed"
        case ast.keyword(arg="default") if _is_option(parent, facts):
            return "the option's default is the function itself, which is always true"
    return "a function is always true" if _is_condition(child, parent) else None


def _out_of_choices(found: ast.AST, facts: Facts) -> tuple[ast.AST, ast.AST | None]:
    """The expression that may come out as the function, and what stands around it: `a or f`, `f if a else b`."""
    child = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.BoolOp(values=values) if child is values[-1]:
                child = parent
            case _:
                return child, parent
    return child, None


def _is_condition(child: ast.AST, parent: ast.AST | None) -> bool:
    match parent:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return child is test
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BoolOp(values=values):
            return child is not values[-1]
        case ast.comprehension(ifs=tests):
            return child in tests
    return False


def _is_move(found: ast.expr) -> bool:
    return isinstance(found, ast.Attribute) and found.attr in MOVES


def _told_of_return(found: ast.expr, statement: ast.Return, facts: Facts) -> str | None:
    if _is_move(found):
        return "the caller gets the method, and nothing was moved"
    scope = facts.model.enclosing_scope(statement)
    if isinstance(scope, ast.Module):
        return None
    promises = isinstance(scope.returns, ast.Name) and scope.returns.id in ("bool", "int")
    if promises or scope.name.lstrip("_").startswith(("is_", "has_", "use_")):
        return "the caller gets the function itself, which is always true"
    return None


def _told_of_assigned(found: ast.expr, target: ast.expr, facts: Facts) -> str | None:
    """A function that is stored may be called by that name; it isn't where every use takes it for a value."""
    if isinstance(found, ast.Attribute) and _is_move(found) and ast.unparse(target) == ast.unparse(found.value):
        return f"`{ast.unparse(target)}` is a method from here on, and nothing was moved"
    uses = _uses(target, facts)
    told = [_told_of_use(use, facts) for use in uses]
    if not told or None in told:
        return None
    return told[0]


def _told_of_use(use: ast.expr, facts: Facts) -> str | None:
    child, parent = _out_of_choices(use, facts)
    if _is_condition(child, parent):
        return f"`{ast.unparse(use)}` is a function, which is always true"
    if isinstance(parent, (ast.BinOp, ast.FormattedValue)):
        return f"`{ast.unparse(use)}` is the function itself"
    return None


def _uses(target: ast.expr, facts: Facts) -> list[ast.expr]:
    """Where what was assigned is read: a name in its scope, an attribute anywhere in the file."""
    if isinstance(target, ast.Name):
        scope = facts.model.enclosing_scope(target)
        nodes = ast.walk(scope) if isinstance(scope, ast.Module) else own_nodes(scope)
        return [n for n in nodes if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)]
    assert isinstance(target, ast.Attribute)
    return [
        n
        for n in walk(facts.model.source.tree)
        if isinstance(n, ast.Attribute) and n.attr == target.attr and isinstance(n.ctx, ast.Load)
    ]


def _is_option(keyword: ast.keyword, facts: Facts) -> bool:
    """A command line's option: argparse doesn't call its default."""
    call = next(facts.model.ancestors(keyword), None)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
