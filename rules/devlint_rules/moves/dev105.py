"""DEV105: a tensor that is made on the host and moved at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from devlint.facts import HOST, calls_in, is_test_file, own_nodes, place_of_device, walk
from devlint.findings import Edit, Safety, Span
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.beside import differs_by_move_alone, is_never_read
from devlint_rules.moves import factories
from devlint_rules.moves.partners import device_of_partners, is_beside_a_failure
from devlint_rules.moves.small import is_small
from devlint_rules.moves.twins import moves_like

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit

MOVES = ("to", "cuda", "xpu", "hpu", "npu")


class CreatedThenMoved(Rule):
    """A tensor made on the host and moved at once, where `device=` would make it in its place.

    ## What it does
    Flags `torch.zeros(n).to(device)`, `torch.randn(2, 3).cuda()` and their like, in what runs at each step: in `forward`, in
    steps and in hot loops. It is a move on the call of a factory that takes `device=`, with no more between than a change of
    shape or type. So is the move of what a function of the project has just made with such a factory and returned: the
    function can take the device. Left alone are tensors without elements (`torch.empty(0)`), factories that may share the host's data (`torch.as_tensor`, `torch.from_numpy`), pinned
    memory, a generator, and arguments that may be something else than a device. What is made once (`if self.kernel is None:`), or in a test
    (`test_*.py`, `*_test.py`), is told by DEV107, and so is `torch.tensor(data).to(device)`: with `device=` it is filled on
    the host and copied just the same. Told where it is selected by its code: what is made once in a step,
    and isn't surely many numbers (`torch.zeros(n, classes)`, `torch.arange(n)`): to copy that costs little. Told in any case are many numbers
    (`torch.zeros(n, 3, 256, 256)`), what a loop in the step makes again and again, and random numbers that are as many as in another tensor
    (`torch.randn(x.shape)`), for which the host takes long.

    ## Why is this bad
    The tensor is allocated and filled on the host, allocated again on the device, and copied over. The host waits for
    that copy, since its memory isn't pinned.

    ## Example
    ```python
    import torch

    net = torch.nn.Linear(4, 4).to("cuda")
    for step in range(3):
        x = torch.ones(8, 4).to("cuda")
        net(x).sum().backward()
    ```

    ## Use instead
    ```python
    import torch

    net = torch.nn.Linear(4, 4).to("cuda")
    for step in range(3):
        x = torch.ones(8, 4, device="cuda")
        net(x).sum().backward()
    ```

    ## Fix safety
    Safe for factories whose result is the same on every device. Unsafe for those that compute in floating point
    (`linspace`, `logspace`, windows, `arange` with fractions), whose last bit may differ; and with `requires_grad`, where the
    tensor becomes a leaf. A suggestion where the device would be spelt out (`device="cuda"`) in a module's method, or in a function
    that moves nothing else so: that of an input is the better name. Not offered for random ones, which would draw from the device's own generator, and where the
    tensor is as large as another one of which nobody knows where it is, where another branch says the same without the move, where
    the function fails there anyway (it meets what stays on the host), and for what nothing reads. What a function moves so is all mended, with what is spelt alike elsewhere in the file, or none of it is.

    ## References
    - [Performance Tuning Guide: create tensors directly on the target device](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [Tensor creation](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "DEV105"
    name = "created-then-moved"
    severity = "warning"
    trigger = r"\.\s*(?:to|cuda|xpu|hpu|npu)\s*\("
    effect = Effect(syncs=3, counts="transfer")
    mends_minor = True
    seen_as = ("sync", "transfer")
    fix = "S/U/D"

    # What runs at each step is told by this rule, the rest by DEV107.
    of_each_step: ClassVar[bool] = True

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        made = list(factories.moved_at_once(unit.node))
        if made:
            model.ensure(unit.scope)
        if any(model.qualified(call.func) in factories.ALL | factories.LIKE for call in made):
            return True
        return any(call in model.uploads for call in calls_in(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))

    def like(self, node: ast.AST, model: PlacementModel) -> Iterator[ast.expr | ast.stmt]:
        return moves_like(node, model) if self.of_each_step else iter(())

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        if _is_thrown_away(node, facts):
            return
        upload = facts.upload(node)
        if upload is not None and _runs_each_step(node, facts) is self.of_each_step:
            maker = upload.maker.name
            yield Report(
                node,
                f"`{maker}` makes its result on cpu, and it is moved at once: two allocations and a copy, where a "
                f"device that `{maker}` hands to its factories needs one allocation",
                "likely",
                facts.notes([upload.made]),
                minor=_is_evaluated(node, facts)
                or upload.made.message.endswith("`torch.arange`")
                or _OF_MASKS.search(maker) is not None,
            )
        if not m.matches(node.func, m.Attribute(value=m.Call())):
            return
        chain = factories.root_of(cst.ensure_type(cst.ensure_type(node.func, cst.Attribute).value, cst.Call))
        if chain is None:
            return
        made, between = chain
        name = factories.factory(made, facts) or factories.like_another(made, facts)
        move = factories.move(node, facts) if name is not None else None
        if name is None or move is None:
            return
        if name in factories.LIKE:
            # Where the other one is there, nothing is copied: it is mended beside what is told.
            if self.of_each_step and node.args:
                yield Report(node, "", change=_made_there(node, made, name, between, move, facts), aside=True)
            return
        # What is read from Python's data is filled on the host in either spelling: to say so is left to the opt-in rule.
        costs_each_step = _runs_each_step(node, facts) and name not in factories.OF_DATA
        if costs_each_step < self.of_each_step and name not in factories.RANDOM:
            yield Report(node, "", change=_made_there(node, made, name, between, move, facts), aside=True)
        if costs_each_step is not self.of_each_step:
            return
        if _goes_where_batch_was_left(move, facts) or _is_host_of_makers(move, facts):
            return
        at_random = name in factories.RANDOM or bool(between & factories.FILLING)
        # Random numbers may be drawn on the host on purpose: the same ones on every machine.
        likely = at_random or not factories.names_device(node, facts)
        yield Report(
            node,
            f"`{facts.name_of(made)}` is made on cpu and moved at once: {_told(name)}",
            "likely" if likely else "certain",
            change=_made_there(node, made, name, between, move, facts),
            minor=_is_evaluated(node, facts) or is_small(node, made, name, between, facts),
        )


# A mask is as large as a sentence, or as its square.
_OF_MASKS = regex(r"(?i)mask")


def _is_evaluated(node: cst.Call, facts: Facts) -> bool:
    """Whether it is made in a loop that trains nothing."""
    hot = facts.hot_loop(node)
    return hot is not None and hot.evaluates


def _goes_where_batch_was_left(move: factories.Move, facts: Facts) -> bool:
    """`.to(y.device)` for a `y` that a loop over a loader takes, and leaves where it is: on the host most likely."""
    device = facts.node(move.device)
    if not isinstance(device, ast.Attribute) or device.attr != "device" or not isinstance(device.value, ast.Name):
        return False
    name = device.value.id
    hot = facts.hot_loop(move.device)
    loop = hot.node if hot is not None and hot.kind == "batch" else None
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or facts.on_accelerator(
        cst.ensure_type(move.device, cst.Attribute).value
    ):
        return False
    if not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(loop.target)):
        return False
    given = [v for v in facts.model.assigned_values(device.value) if loop.lineno <= v.lineno <= (loop.end_lineno or 0)]
    return not any(isinstance(n, ast.Attribute) and n.attr in ("to", "cuda") for v in given for n in ast.walk(v))


def _is_host_of_makers(move: factories.Move, facts: Facts) -> bool:
    """Whether `self.device` is what the constructor was given, and all who make such an object say that it is the host."""
    device = facts.node(move.device)
    cls = facts.model.class_around(device) if device is not None else None
    constructor = cls.node.body if cls is not None else ()
    for method in constructor:
        match device, method:
            case (
                ast.Attribute(value=ast.Name(id="self"), attr=attr),
                ast.FunctionDef(name="__init__", body=body),
            ):
                given = [_stored(statement, attr) for statement in body]
                names = [name for name in given if name]
                makers = facts.model.calls_in_sight(method) if names else []
                return bool(makers) and all(_says_host(file, call, names[-1]) for file, call in makers)
    return False


def _stored(statement: ast.stmt, attribute: str) -> str:
    """`device` of `self.device = device`; "" for other statements."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)], value=ast.Name(id=name)) if (
            attr == attribute
        ):
            return name
    return ""


def _says_host(file: PlacementModel, call: ast.Call, parameter: str) -> bool:
    called = file.callee(call)
    given = called.given(call).get(parameter) if called is not None else None
    if given is None:
        return False
    places = [place_of_device(value, given) for _, value in file.value(given).alternatives()]
    return bool(places) and all(place is not None and place[0] == HOST for place in places)


def _told(name: str) -> str:
    """What a factory's move costs."""
    if name in factories.OF_DATA:
        return "`device=` says so in one call"
    return "two allocations and a copy, where `device=` needs one allocation"


def _runs_each_step(node: cst.Call, facts: Facts) -> bool:
    """Whether it is made at each step: in `forward`, in a step that a framework calls, or in a hot loop; never in a test, which nobody waits for."""
    found = facts.node(node)
    if is_test_file(Path(facts.path)):
        return False
    if found is not None and (facts.model.is_guarded(_of_default(found, facts)) or _is_always_given(found, facts)):
        return False
    scope = facts.scope
    while scope is not None:
        if scope.cls is not None and (scope.name == "forward" or facts.model.is_step_method(scope.node)):
            return True
        scope = scope.parent
    return facts.hot_loop(node) is not None


def _of_default(node: ast.AST, facts: Facts) -> ast.AST:
    """A node, or the test around it where that runs either way for its sake.

    It makes what a caller of the function hasn't given (`if prior is None: prior = ...`), or its other branch binds the same name.
    """
    # What has to be given is hardly given as None.
    parameters = set(facts.scope.defaults) if facts.scope is not None else set()
    bound = _bound_by(facts.statement)
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)])
            ):
                return parent if name in parameters else node
            case ast.If(body=body, orelse=orelse) if bound:
                other = orelse if facts.statement in body else body
                return parent if any(_bound_by(statement) == bound for statement in other) else node
            case ast.stmt() if not isinstance(parent, ast.Assign):
                return node
    return node


def _is_always_given(node: ast.AST, facts: Facts) -> bool:
    """Whether it makes what no call of a function inside of another leaves out: `if weight is None: weight = ...`."""
    scope = facts.scope
    tests = (p.test for p in facts.model.ancestors(node) if isinstance(p, ast.If))
    match next(tests, None):
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            pass
        case _:
            return False
    if scope is None or scope.parent is None or name not in scope.defaults:
        return False
    optional = {key for key, value in scope.parent.defaults.items() if ast.unparse(value) == "None"}
    place = [a.arg for a in scope.parameters].index(name)
    given = [
        next((k.value for k in call.keywords if k.arg == name), call.args[place] if place < len(call.args) else None)
        for _, call in facts.model.calls_in_sight(scope.node)
    ]
    return bool(given) and not any(
        g is None or isinstance(g, ast.Constant) or (isinstance(g, ast.Name) and g.id in optional) for g in given
    )


def _bound_by(statement: ast.stmt) -> str:
    """The one name that a statement binds; "" for other statements."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _is_thrown_away(node: cst.Call, facts: Facts) -> bool:
    """`torch.zeros(1).cuda()` wakes the accelerator up; where its result was wanted, DEV101 tells of it."""
    return isinstance(facts.statement, ast.Expr) and facts.statement.value is facts.node(node)


def _made_there(
    node: cst.Call, made: cst.Call, name: str, between: frozenset[str], move: factories.Move, facts: Facts
) -> Change | None:
    """The factory's call with `device=`, and with `dtype=` where the move changes the type too."""
    moving, making = facts.node(node), facts.node(made)
    assert isinstance(moving, ast.Call)
    assert isinstance(making, ast.Call)
    if factories.may_be_none(moving, facts) or _is_made_of_none(making, facts):
        return None
    others = [pair for pair in factories.alike(making, moving, facts) if pair[0] is not making]
    if differs_by_move_alone(moving, facts) or _is_spoken_of(facts) or is_beside_a_failure(moving, facts):
        return None
    if is_never_read(facts.statement, facts) and all(
        is_never_read(facts.model.source.statement_of(other), facts) for other, _ in others
    ):
        # Beside what is read, and moved with the same words, it is mended too: a reader wants one form for all.
        return None
    sized_by = factories.sized_by(making, moving, facts)
    if sized_by and factories.has_plain_sister(making, moving, facts):
        # The same words for what stands side by side.
        sized_by = ""
    if sized_by is None or _hangs_on_another(moving, facts) or name in factories.RANDOM or between & factories.FILLING:
        # Where the tensor is that it goes by, the reader knows better; and other random numbers are drawn on another device.
        return None
    if between <= factories.SHAPING and (by_tensor := _made_by_tensor(node, made, name, move, facts)) is not None:
        return by_tensor
    device = sized_by or device_of_partners(moving, others, facts) or factories.code_of(move.device)
    arguments = [f"device={device}"]
    if move.rest and not between and factories.takes_type(name, made, move, facts):
        arguments.insert(0, f"dtype={factories.code_of(move.rest[0].value)}")
    if move.rest and len(arguments) == 1 and len([*moving.args, *moving.keywords]) == 1:
        # `.to(x)` says both in one word: to say one here and one there is no gain in what is read.
        return None
    if move.rest and len(arguments) == 1:
        edits = _without_device(moving, move, facts)
    else:
        edit = facts.without_method(moving)
        edits = (edit, *_without_brackets(moving, facts)) if edit is not None else None
    if edits is None:
        return None
    cast = factories.cast_around(making, moving, name, facts) if not move.rest else None
    if cast is not None and (gone := facts.without_method(cast[0])) is not None:
        if not factories.makes_floats(name, cast[1], facts):
            arguments.insert(0, f"dtype={cast[1]}")
        edits = (*edits, gone)
    if any(_is_left(*pair, facts) for pair in ((making, moving), *others)):
        return None
    same = factories.is_exact(name, made) and not between & (factories.FILLING | {"requires_grad_"})
    safety: Safety = "display" if _may_be_named(device, moving, facts) else "safe" if same else "unsafe"
    edits = (_as_like(making, name, arguments, facts) or facts.with_argument(making, *arguments), *edits)
    return Change("make it on the device", safety, edits=edits if sized_by else _in_sister_methods(edits, facts))


def _without_brackets(moving: ast.Call, facts: Facts) -> Iterator[Edit]:
    """The edits that take away what held a call together for its move: `-(torch.ones(n).float()).to(device)`."""
    assert isinstance(moving.func, ast.Attribute)
    text, span = facts.text, facts.text.span_of(moving.func.value)
    start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
    if not isinstance(moving.func.value, ast.Call) or start == 0 or text.text[start - 1] + text.text[end] != "()":
        return
    before = text.text[start - 2 : start - 1]
    if text.text[end + 1] == "." and not before.isalnum() and before not in ("_", ")", "]"):
        yield Edit(Span(*text.position(start - 1), span.line, span.column), "")
        yield Edit(Span(span.end_line, span.end_column, *text.position(end + 1)), "")


def _in_sister_methods(edits: tuple[Edit, ...], facts: Facts) -> tuple[Edit, ...]:
    """The edits of a statement, and the same in statements of other methods of the class that are spelt like it: a reader wants one form for all."""
    here = facts.text.span_of(facts.statement)
    said = facts.text.slice(here)
    found = list(edits)
    for statement in _of_sister_methods(facts):
        there = facts.text.span_of(statement)
        if there.column == here.column and facts.text.slice(there) == said:
            lines = there.line - here.line
            found += [
                replace(edit, span=replace(edit.span, line=edit.span.line + lines, end_line=edit.span.end_line + lines))
                for edit in edits
            ]
    return tuple(sorted(found))


def _of_sister_methods(facts: Facts) -> Iterator[ast.stmt]:
    """The statements of the same kind in the other methods of a class."""
    cls = facts.model.class_around(facts.model.enclosing_scope(facts.statement))
    for method in cls.node.body if cls is not None else ():
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and not (
            method.lineno <= facts.statement.lineno <= (method.end_lineno or 0)
        ):
            yield from (n for n in walk(method) if isinstance(n, ast.stmt) and type(n) is type(facts.statement))


def _may_be_named(device: str, moving: ast.Call, facts: Facts) -> bool:
    """Whether a device is spelt out where somebody would name that of an input: in a module, or in a function that moves nothing else so."""
    given = facts.scope.parameters if facts.scope is not None else []
    if _SPELT_OUT.fullmatch(device) is None or not any(a.arg not in ("self", "cls") for a in given):
        return False
    scope = facts.model.enclosing_scope(moving)
    cls = facts.model.class_around(scope)
    made = {outer for _, outer in factories.alike(moving, moving, facts)}
    return (cls is not None and "forward" in cls.methods) or not any(
        isinstance(n, ast.Call) and n not in made and n is not moving and _moves_there(n) for n in own_nodes(scope)
    )


def _moves_there(call: ast.Call) -> bool:
    """`x.cuda()`, `x.to("cuda")`"""
    match call.func:
        case ast.Attribute(attr=name) if name in MOVES:
            return name != "to" or any(_SPELT_OUT.fullmatch(ast.unparse(a)) for a in call.args[:1])
    return False


_SPELT_OUT = regex(r"['\"](?:cuda|xpu|hpu|npu)(?::\d+)?['\"]")


# Factories that have a sister which takes size, type and place from a tensor, and what they are told beside the size.
_WITH_SISTERS = {"torch.zeros": 0, "torch.ones": 0, "torch.empty": 0, "torch.full": 1}


def _as_like(making: ast.Call, name: str, arguments: list[str], facts: Facts) -> Edit | None:
    """`torch.zeros_like(x)`, where a call would be given size, type and place of one tensor; None else."""
    told = {k.arg: ast.unparse(k.value) for k in making.keywords} | dict(a.split("=", 1) for a in arguments)
    match making.args:
        case [ast.Attribute(value=tensor, attr="shape"), *rest] | [
            ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[], keywords=[]),
            *rest,
        ]:
            pass
        case _:
            return None
    text = facts.code_of(tensor)
    if told != {"dtype": f"{text}.dtype", "device": f"{text}.device"} or len(rest) != _WITH_SISTERS.get(name):
        return None
    if "#" in facts.code_of(making) or _OTHER_LAYOUTS.search(facts.text.text):
        return None
    given = ", ".join((text, *map(facts.code_of, rest)))
    return facts.replaced(making, f"{facts.code_of(making.func)}_like({given})")


# Factories of which a tensor has one of its own, that are told sizes alone.
_OF_TENSORS = {"torch.zeros": "new_zeros", "torch.ones": "new_ones", "torch.empty": "new_empty"}


def _made_by_tensor(node: cst.Call, made: cst.Call, name: str, move: factories.Move, facts: Facts) -> Change | None:
    """`x.new_zeros(n)` of `torch.zeros(n).to(x)`: as short, and of the same type as well."""
    moving, making = facts.node(node), facts.node(made)
    assert isinstance(moving, ast.Call)
    assert isinstance(making, ast.Call)
    owner = facts.code_of(moving.args[0]) if len(moving.args) == 1 and not moving.keywords else ""
    is_like = factories.code_of(move.device) == f"{owner}.device"
    gone = facts.without_method(moving) if name in _OF_TENSORS and is_like and not making.keywords else None
    if gone is None or _leaves_short_chain(making, moving, facts) or _OTHER_LAYOUTS.search(facts.text.text):
        return None
    like = _as_like(making, name, [f"dtype={owner}.dtype", f"device={owner}.device"], facts)
    new = (*_on_one_line(making, facts), facts.replaced(making.func, f"{owner}.{_OF_TENSORS[name]}"))
    edits = (like, gone) if like is not None else (*new, gone)
    return Change("make it on the device", "safe", edits=_in_sister_methods(edits, facts))


# A comment on a move that is still to be left out.
_ON_MOVE = regex(r"\.(?:to|cuda)\b")


def _on_one_line(making: ast.Call, facts: Facts) -> Iterator[Edit]:
    """The edits that close the brackets around arguments on a line of their own: what broke the line is gone with its move."""
    last = max((facts.text.span_of(a) for a in making.args), key=lambda s: (s.end_line, s.end_column), default=None)
    func, whole = facts.text.span_of(making.func), facts.text.span_of(making)
    if last is None or {last.end_line - func.end_line, whole.end_line - last.end_line} != {1}:
        return
    start = facts.text.span_of(making.args[0])
    before = facts.text.slice(Span(func.end_line, func.end_column, start.line, start.column))
    after = facts.text.slice(Span(last.end_line, last.end_column, whole.end_line, whole.end_column))
    if before.split() == ["("] and after.split() == [")"] and start.line == last.end_line:
        yield Edit(Span(func.end_line, func.end_column, start.line, start.column), "(")
        yield Edit(Span(last.end_line, last.end_column, whole.end_line, whole.end_column), ")")


def _is_spoken_of(facts: Facts) -> bool:
    """Whether the comment above a statement speaks of its move: it would be out of date."""
    line = facts.statement.lineno - 1
    while line > 0 and (comment := facts.text.line(line).strip()).startswith("#"):
        if _ON_MOVE.search(comment):
            return True
        line -= 1
    return False


# Words of files that hold tensors of which `new_zeros` makes others than `zeros` and a move do, or none: found by running it.
_OTHER_LAYOUTS = regex(r"(?i)sparse|nested|mkldnn|masked_?tensor|quantize_per|Uninitialized|\bLazy[A-Z]")


def _is_made_of_none(making: ast.Call, facts: Facts) -> bool:
    """Whether a factory is told what a test around it says is None: `if kind is None: kind = torch.zeros(n, kind)` fails anywhere."""
    child: ast.AST = making
    for parent in facts.model.ancestors(making):
        match parent:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=body,
            ) if child in body:
                return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(making))
        child = parent
    return False


def _is_left(making: ast.Call, moving: ast.Call, facts: Facts) -> bool:
    """Whether a factory stays as it is, for its form, or since nobody knows where what it is as large as is."""
    return factories.sized_by(making, moving, facts) is None or _leaves_short_chain(making, moving, facts)


def _leaves_short_chain(making: ast.Call, moving: ast.Call, facts: Facts) -> bool:
    """Whether a chain gets too short for the lines that it is broken over: somebody's formatter would join them."""
    is_broken = (moving.func.end_lineno or 0) > (making.end_lineno or 0)
    return is_broken and _calls_between(making, moving) < 2 and not _closes_alone(making, moving, facts)


def _calls_between(making: ast.Call, moving: ast.Call) -> int:
    """How many methods stand between a factory and its move."""
    count, node = 0, moving.func
    while isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and node.value is not making:
        count, node = count + 1, node.value.func
    return count


def _closes_alone(making: ast.Call, moving: ast.Call, facts: Facts) -> bool:
    """Whether the bracket of a factory's call closes on a line of its own, behind which the move begins."""
    line = facts.text.text.splitlines()[(making.end_lineno or 1) - 1]
    return making.end_lineno != making.lineno and line.lstrip().startswith(")")


def _hangs_on_another(moving: ast.Call, facts: Facts) -> bool:
    """Whether a test of where another tensor is decides: `torch.ones(3).cuda() if x.is_cuda else ...` wants `x.device`."""
    child: ast.AST = moving
    for parent in facts.model.ancestors(moving):
        if (
            isinstance(parent, (ast.If, ast.IfExp))
            and child is not parent.test
            and "is_cuda" in ast.unparse(parent.test)
        ):
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        child = parent
    return False


def _without_device(moving: ast.Call, move: factories.Move, facts: Facts) -> tuple[Edit, ...] | None:
    """`.to(dtype)` of `.to(device, dtype)`."""
    kept = [factories.code_of(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in move.rest]
    func, whole = facts.text.span_of(moving.func), facts.text.span_of(moving)
    start = facts.text.text.index("(", facts.text.offset(func.end_line, func.end_column)) + 1
    at = Span(*facts.text.position(start), whole.end_line, whole.end_column - 1)
    return None if "#" in facts.text.slice(at) else (Edit(at, ", ".join(kept)),)
