"""DEV301: torch.load without map_location."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import calls_in, is_test, last_name, own_nodes
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.checkpoints.contents import asks_for_numbers, is_of_checkpoint, is_of_data, speaks_of_model
from devlint_rules.checkpoints.hopeless import (
    brings_scripts,
    is_of_pattern,
    is_whole_model,
    loads_what_wraps,
    may_be_refused,
)
from devlint_rules.checkpoints.origins import DOWNLOADS, is_own
from devlint_rules.checkpoints.provided import is_provided_for, is_tried_again, was_tried_there
from devlint_rules.checkpoints.readers import has_device
from devlint_rules.checkpoints.refused import is_refused
from devlint_rules.checkpoints.savers import comes_from_no_mover
from devlint_rules.checkpoints.together import in_other_branches, loads_of_same, may_be_mended, stays_half_done
from devlint_rules.checkpoints.trials import is_of_trial
from devlint_rules.checkpoints.uncalled import is_of_no_call, is_of_no_program
from devlint_rules.checkpoints.uses import (
    goes_into_load_state_dict,
    holds_arrays,
    is_host_data,
    is_object_of_arrays,
    uses_of,
)
from devlint_rules.checkpoints.wrapped import fills_itself, is_of_pickled_wrapper, is_of_wrapped

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit
    from devlint.findings import Edit


class LoadWithoutMapLocation(Rule):
    """A checkpoint loaded without `map_location`, which needs a device like the one that it was saved from.

    ## What it does
    Flags `torch.load`, `torch.hub.load_state_dict_from_url` and `torch.utils.model_zoo.load_url` without `map_location`,
    under any name that they were imported or assigned to, and
    `functools.partial(torch.load, ...)`; and a call of a function of the project that hands its own parameter on as
    `map_location`, where the call leaves that at None. A call with `*args` or `**kwargs` may hold it and is left alone, and so is
    one that reads back a buffer or a cache that the program itself filled, or the best of a run that it has just
    trained or had written (`checkpoint.best_model_path` behind a `fit`), what it trains and saves where it isn't found, the keys of what frameworks write from the host, a file that ships beside the code, what the project saves from the host, to the same file or under the
    keys that are asked for (`torch.save(net.cpu().state_dict(), ...)`), weights that are published under their hash
    (`https://download.pytorch.org/...`, `.../resnet18-5c106cde.pth`), which everybody loads, what a dataset reads
    (a class or a file that is called so), what is kept under a name for data (`train_data = torch.load(path)`), or the state of a scheduler, a gradient scaler or a random
    generator, which holds nothing of a device. So are tests (`test_*.py`, `*_test.py`), which load what they saved, but for programs of such names that take options. What goes straight into `load_state_dict` is certain to be tensors, in a file that speaks of another place than the host; of anything else the finding is `likely`.

    Told where it is selected by its code, as in `--select DEV301`:

    - what isn't said to be a model, a state or a checkpoint: not by the name of what is loaded, of its file or of a key that is asked of
      it, by a function that takes one up (`load_net`) or a class that keeps some, nor by a `load_state_dict` or `eval()` behind it; and
      what is asked for numbers alone;
    - what a program loads that can't run without an accelerator anyway. The same function, its class, what it calls and the modules that it
      makes, each function that calls it, or each program that imports the file moves something there under no condition
      (`model.cuda()`), on each way, or ends without one (`assert torch.cuda.is_available()`); or its file imports, also by way of
      others of the project, what has kernels for CUDA alone (`flash_attn`), or what calls `.cuda()` at once;
    - what the same run has just trained: the snapshot of a trainer (`trainer.snapshot_path`), what callers that have all just trained
      load (`exp.train(...)`), what stands behind the loop that trains and saves it, or what an object saved that was called before
      (`stopping(loss, net)`);
    - in a project of ten files of code and more, what nobody moves: no file that saves anything calls `.cuda()` and its like, nor does one that
      imports such a file, nor is that left to a framework; and what such a project reads that saves nothing at all;
    - methods that nothing calls, parameters that no call gives, what no program beside its file imports, what is downloaded, and a path that
      begins where one machine alone has it (`"/data/net.pth"`).

    ## Why is this bad
    Tensors are restored to the device that they were saved from. On a machine without that GPU the load fails with
    `RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False`; on a
    machine with others, each process of a distributed program puts its copy on GPU 0.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(2, 2)
    model.load_state_dict(torch.load("checkpoint.pt"))
    ```

    ## Use instead
    ```python
    import torch

    model = torch.nn.Linear(2, 2)
    model.load_state_dict(torch.load("checkpoint.pt", map_location="cpu"))
    ```

    ## Fix safety
    Safe where the result goes straight into `load_state_dict`, which copies it to wherever the parameters are.
    Unsafe otherwise: what was loaded to a GPU before is then on the host. Offered where all that becomes of it is seen, also in
    functions that it is handed to: it is copied by `load_state_dict`, moved, or read as a number. What is given is
    `"cpu"`, or the `device` that the code around has chosen and uses itself. Not offered for a
    `load_state_dict` that keeps what it is given, as that of a moving average may, for a best result that may be a tensor, nor where
    the function fails in any case, where a library's modules load what they hold in their own way (e3nn's), or where the file's name still has its placeholder (`"net_%d.pth"`). All loads of a function, a class or a program are mended, and the
    same load in other functions, or none is. A suggestion where a module itself is loaded, or the project writes an object beside
    the states (`{"args": args}` of a parser, an array of NumPy), and no `weights_only` is given: since PyTorch
    2.6 such a load is refused, wherever it goes, unless the project says that it is for older releases. So it is for what is moved
    itself (`torch.load(path).to(device)`): that is data mostly, which was written on the host.

    ## References
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    - [pytorch/pytorch 23138](https://github.com/pytorch/pytorch/issues/23138)
    """

    code = "DEV301"
    name = "load-without-map-location"
    trigger = r"\bload(?:_state_dict_from_url|_url)?\b|load(?!_state_dict\b|ers?\b)\w{0,60}\s*\("
    alias = r"\bload\s+as\s+(\w+)|\b(\w+)\s*=\s*[\w.]*\bload\b(?!\s*\()"
    effect = Effect(
        raises="RuntimeError",
        words="torch.cuda.is_available() is False",
        before='import torch\ntorch.save(torch.nn.Linear(2, 2).to("cuda").state_dict(), "checkpoint.pt")\n',
        without_accelerator=True,
    )
    fix = "S/U/D"
    mends_minor = True

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        calls = calls_in(unit.node)
        if calls:
            model.ensure(unit.scope)
        return any(model.qualified(call.func) in _LOADING or model.map_location_of(call) for call in calls)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def like(self, node: ast.AST, model: PlacementModel) -> Iterator[ast.expr | ast.stmt]:
        """The loads of the same file in other functions: of one name, of what each is given, or with the same words before and after."""
        scope, said, ways = model.enclosing_scope(node), ast.dump(node), _ways_of(node, model)
        return (
            n
            for n in calls_in(model.source.tree)
            if ast.dump(n) == said and model.enclosing_scope(n) is not scope and not ways.isdisjoint(_ways_of(n, model))
        )

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        if is_test(Path(facts.path)) and not _is_run_with_options(facts):
            return
        first, location = _file_argument(node, facts), "map_location"
        if first is None:
            location = _left_to_helper(node, facts)
            first = 0
        elif _is_given(node.args[first:], 3 if facts.qualified(node.func) in DOWNLOADS else 2):
            return
        found = facts.node(node)
        if not location:
            return
        if not isinstance(found, ast.Call) or is_own(found, first, facts) or is_provided_for(found, facts):
            return
        uses = uses_of(found, facts)
        if any(holds_arrays(use, facts) for use in uses) or is_object_of_arrays(found, facts):
            return
        if uses and all(is_host_data(u, facts) for u in uses) and not loads_of_same(found, facts):
            return
        straight = not first and goes_into_load_state_dict(found, facts)
        if not straight and is_of_data(found, facts):
            return
        may_be_model = first > 0 or (is_of_checkpoint(found, facts) and not asks_for_numbers(found, facts))
        is_told = straight or (may_be_model and speaks_of_model(found, facts))
        bound = facts.model.is_bound_before("device", found)
        is_whole = not straight and not first and is_whole_model(found, facts)
        is_out_of_reach = is_whole and brings_scripts(facts)
        fixed = first or (
            may_be_mended(found, facts)
            and not is_tried_again(found, facts)
            and not is_of_pattern(found)
            and not loads_what_wraps(found, facts)
            and not stays_half_done(found, facts)
            and not _is_of_optimizer(found, facts)
            and not is_out_of_reach
        )
        refused = is_refused(found, facts) if fixed and not first else ""
        moving = _moved_at_once(found, facts) if not first else None
        where = "device" if bound and _is_chosen_here(found, facts) and not _is_made_smaller(found, facts) else '"cpu"'
        hints = [f"`{location}=device` loads straight to it"] if bound else []
        if moving is not None:
            # What moves it is said by the load itself.
            where, hints = ast.unparse(moving.args[0]), []
        elif bound and fixed:
            hints = [f'`{location}="cpu"` works on every machine; `{location}=device` also saves a copy on the host']
        if refused:
            hints.append(
                f"since PyTorch 2.6 it is refused everywhere without `weights_only=False`: `{refused}` is an object of its own class"
            )
        if "torch.distributed" in facts.text.text:
            hints.append("in a distributed program, each rank wants its own device")
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` without `{location}` restores tensors to the device that they were saved from, and fails where that device is missing",
            "certain"
            if straight and facts.qualified(node.func) not in DOWNLOADS and _speaks_of_places(facts)
            else "likely",
            hint="; ".join(hints) or None,
            change=None
            if not fixed
            else Change(
                f"add `{location}={where}`",
                "display"
                # What is moved itself is data mostly, which the host wrote, or a module.
                if refused or _is_moved_itself(found, facts) or (is_whole and may_be_refused(found))
                else "safe"
                if straight
                else "unsafe",
                edits=(
                    *(
                        facts.with_argument(load, f"{location}={where}")
                        for load in (found, *(() if first or moving else in_other_branches(found, facts)))
                    ),
                    *_without(moving, facts),
                ),
            ),
            # Of what nothing at all is known may be anything: whoever asks for this rule is told.
            minor=not is_told
            or is_out_of_reach
            or has_device(found, facts)
            or facts.model.is_unused(found)
            or was_tried_there(found, facts)
            or is_of_no_program(found, facts)
            or is_of_no_call(found, facts)
            or facts.model.choices.is_never_made(found)
            or fills_itself(found, facts)
            or is_of_trial(found, facts)
            or is_of_pickled_wrapper(found, facts)
            or is_of_wrapped(found, facts)
            or comes_from_no_mover(facts.model),
        )


def _speaks_of_places(facts: Facts) -> bool:
    """Whether a file says a word of another place than the host; of those that don't, half read what was written on it."""
    return _PLACES.search(facts.model.source.without_comments) is not None


_PLACES = regex(
    r"(?i)\bcuda|[gx]pus?\b|device|\.to\(|\bmap_location|accelerat|lightning|\bmps\b|\bfabric\b|trainer|parallel|distributed"
)


# A program that evaluates is often called `test_depth.py`: it takes options, and holds nothing that a runner of tests looks for.
_OPTIONS = regex(r"\bArgumentParser\(|\bsys\.argv\b")
_TESTS = regex(r"(?m)^[ \t]*(?:async )?def test_|^class Test|\b(?:pytest|unittest)\b")


def _is_run_with_options(facts: Facts) -> bool:
    """Whether a file that is called a test is a program, which people run on files of theirs."""
    return _OPTIONS.search(facts.text.text) is not None and _TESTS.search(facts.text.text) is None


def _ways_of(call: ast.AST, model: PlacementModel) -> set[str]:
    """What a load is known again by: the name of its file, and the statement that it stands in, with the one behind that or of what a function is given."""
    assert isinstance(call, ast.Call)
    path: ast.expr | None = call.args[0] if call.args else None
    scope, of_parameter = model.enclosing_scope(call), set[str]()
    statement = model.source.statement_of(call)
    if isinstance(path, ast.Name):
        is_given = not isinstance(scope, ast.Module) and any(
            a.arg == path.id for a in model.source.function_at(scope).parameters
        )
        if is_given and isinstance(next(model.ancestors(call), None), (ast.Assign, ast.Call)):
            of_parameter = {ast.dump(statement)}
        given = model.assigned_values(path)
        path = given[0] if len(given) == 1 else None
    is_named = path is not None and any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(path)
    )
    after = next(iter(model.source.after(statement)), None)
    found = {ast.dump(path)} if path is not None and is_named else set()
    return found | of_parameter | ({ast.dump(statement) + ast.dump(after)} if after is not None else set())


def _is_made_smaller(found: ast.Call, facts: Facts) -> bool:
    """Whether what is loaded gets half as large afterwards: then it had better not be on the accelerator before."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("half", "bfloat16")
        and n.lineno >= found.lineno
        for n in own_nodes(facts.model.enclosing_scope(found))
    )


def _moved_at_once(found: ast.Call, facts: Facts) -> ast.Call | None:
    """The move of `torch.load(path).to(args.device)`: a device that goes by that name alone is one that `map_location` takes."""
    attribute, call = islice((*facts.model.ancestors(found), None, None), 2)
    match call:
        case ast.Call(
            func=ast.Attribute(attr="to") as func, args=[ast.Name() | ast.Attribute() as device], keywords=[]
        ):
            return call if func is attribute and last_name(device) == "device" else None
    return None


def _is_moved_itself(found: ast.Call, facts: Facts) -> bool:
    """`torch.load(path).to(device)`, `torch.load(path).cuda()`: a tensor or a module, and no dict of states."""
    match next(facts.model.ancestors(found), None):
        case ast.Attribute(attr="to" | "cuda"):
            return True
    return False


def _without(moving: ast.Call | None, facts: Facts) -> list[Edit]:
    """The edit that takes a move away."""
    edit = facts.without_method(moving) if moving is not None else None
    return [edit] if edit is not None else []


def _is_chosen_here(found: ast.Call, facts: Facts) -> bool:
    """Whether the scope of a load uses `device`, which it or its file has set to what was chosen for this machine."""
    scope = facts.model.enclosing_scope(found)
    if any(_loads_optimizer(n) for n in own_nodes(scope)):
        # Its `step` stays where it was loaded, and Adam would read it from there at each step
        # (`Optimizer._process_value_according_to_param_policy`).
        return False
    if not _is_moved_before(found, scope):
        return False
    if isinstance(scope, ast.Module):
        chosen = _given_to_device(scope)
    elif any(a.arg == "device" for a in facts.model.source.function_at(scope).parameters):
        # Whatever a caller means by it.
        return False
    else:
        chosen = _given_to_device(scope) or _given_to_device(facts.model.source.tree)
    uses = (n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == "device" and isinstance(n.ctx, ast.Load))
    ready = [_is_choice(value) and value.lineno < found.lineno for value in chosen]
    return bool(ready) and all(ready) and next(uses, None) is not None


def _is_moved_before(found: ast.Call, scope: ast.AST) -> bool:
    """Whether what loads was moved before the load, `net = Net().to(device)`: else it is on the host."""
    owners = {
        ast.dump(n.func.value)
        for n in own_nodes(scope)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "load_state_dict"
    }
    return any(_moved_by(n, owners) for n in own_nodes(scope) if getattr(n, "lineno", found.lineno) < found.lineno)


def _moved_by(node: ast.AST, owners: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="to" | "cuda")):
            return ast.dump(owner) in owners
        case ast.Assign(targets=[target], value=value):
            stored = ast.dump(target).replace("Store()", "Load()")
            return stored in owners and any(
                isinstance(n, ast.Attribute) and n.attr in ("to", "cuda") for n in ast.walk(value)
            )
    return False


def _is_of_optimizer(found: ast.Call, facts: Facts) -> bool:
    """Whether a method of an optimizer loads: what it keeps beside the state of parameters stays where it was loaded."""
    return any(
        isinstance(parent, ast.ClassDef) and any(last_name(base).endswith("Optimizer") for base in parent.bases)
        for parent in facts.model.ancestors(found)
    )


def _loads_optimizer(node: ast.AST) -> bool:
    """`optimizer.load_state_dict(...)`, going by the name."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict")):
            return _OPTIMIZER.search(ast.unparse(owner)) is not None
    return False


_OPTIMIZER = regex(r"(?i)optim|opt\b|solver|engine")


def _given_to_device(scope: ast.AST) -> list[ast.expr]:
    return [
        n.value
        for n in own_nodes(scope)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "device" for t in n.targets)
    ]


def _is_choice(value: ast.expr) -> bool:
    """`torch.device(name)`, `"cuda" if torch.cuda.is_available() else "cpu"`: a device, and not always the same."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return all(isinstance(v, ast.Constant) or _is_choice(v) or last_name(v) == "device" for v in (body, orelse))
        case ast.Call(func=func, args=[named, *_]):
            return last_name(func) == "device" and not isinstance(named, ast.Constant)
    return False


# What loads, or stands for what does.
_LOADING = frozenset({"torch.load", "functools.partial", *DOWNLOADS})


def _file_argument(node: cst.Call, facts: Facts) -> int | None:
    """Where torch.load's own arguments start in the call; None for other calls."""
    called = facts.qualified(node.func)
    if called == "torch.load" or called in DOWNLOADS:
        return 0
    if called == "functools.partial" and node.args and facts.qualified(node.args[0].value) == "torch.load":
        return None if _given_later(node, facts) else 1
    return None


def _left_to_helper(node: cst.Call, facts: Facts) -> str:
    """The `map_location` of a function of the project, whatever it is called there, where a call of it gives none; "" for other calls."""
    found = facts.node(node)
    return (facts.model.map_location_of(found) or "") if isinstance(found, ast.Call) else ""


def _given_later(node: cst.Call, facts: Facts) -> bool:
    """`load = partial(torch.load, ...)`, called with map_location somewhere."""
    found = facts.node(node)
    parent = next(facts.model.ancestors(found), None) if found is not None else None
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    calls = (n for n in calls_in(facts.model.source.tree) if isinstance(n.func, ast.Name) and n.func.id == name)
    return any(k.arg in ("map_location", None) for call in calls for k in call.keywords)


def _is_given(args: Sequence[cst.Arg], position: int) -> bool:
    positional = [a for a in args if a.keyword is None and not a.star]
    return len(positional) >= position or any(
        a.star or (a.keyword is not None and a.keyword.value == "map_location") for a in args
    )
