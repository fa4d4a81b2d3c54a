"""Why hardly anybody would act on what a rule tells, in words: such things are told where the rule is selected by its code."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from devlint.knowledge.releases import BEFORE_0_4, PYTHON_2, PYTHON_3, SAYS_BEFORE_0_4, SINCE_0_4
from devlint.regexes import regex
from devlint.source.modules import last_name
from devlint.source.receivers import may_be_called_in, may_call_its_own
from devlint.source.trees import walk

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.waiting import HotStall
    from devlint.rule import Report, Rule
    from devlint.source.modules import FunctionModel, SourceModule
    from devlint.source.project import Project


# Events of tensors that meet others elsewhere.
ABOUT_MIXING = ("mixing", "unplaced-factory")

# What a project says that runs on an accelerator, or may.
_GOES_SOMEWHERE = r"\bcuda|(?:\b|_)gpus?(?:\b|_)|\bdevice ?=(?! ?\w+\.device| ?['\"]cpu)|\.to\((?!['\"]cpu['\"]\)|dtype|\w+\.device|torch\.(?:u?int|float|long|bool|half|double|bfloat|complex))|\b[aA]ccelerators?\b|\b(?:import|from) accelerate\b|\bmps\b|\bxpu\b|\bhpu\b|\b[lL]ightning\b|\bpl\."

# Files of what is done with the pictures of a data set; what a library has of these is given pictures anywhere.
_TRANSFORMS = regex(r"(?i)(?:^|/)\w{0,40}(?:transforms?|augment(?:ations?|ers?)?)\.py$")

_BEFORE_0_4 = regex(BEFORE_0_4)
_SAYS_BEFORE_0_4 = regex(SAYS_BEFORE_0_4)
_SINCE_0_4 = regex(SINCE_0_4)
_PYTHON_3 = regex(PYTHON_3)


def why_minor(rule: Rule, report: Report, facts: Facts, project: Project, stall: HotStall | None = None) -> str:
    """Why hardly anybody would act on a report, of a `stall` that it is about, in words; "" where somebody may.

    So it is with what stands in a function or class that nobody uses, or behind an option that nobody gives, with what is likely to mix in one that only code for the host
    uses, with a wait at each step for which there is no fix, with what costs in a loop that trains nothing, or in a program that
    measures or tests, and with what a warning says of code that somebody else keeps, that nobody goes on with, that the
    project has left behind, or by which a module of a package tests itself.
    """
    from devlint.signatures.answers.hot import is_unused
    from devlint.signatures.answers.roles import (
        is_aside,
        is_generated,
        is_of_others,
        is_of_tool,
        is_retired,
        is_said_to_be_copied,
    )

    if rule.code.startswith(("DEV1", "DEV2", "DEV4", "DEV5")) and _hides_accelerators(facts.model.source):
        return "the program sees no accelerator"
    if report.minor or (stall is not None and stall.minor):
        return "few act on it"
    if stall is None and rule.only_amid_step and report.change is None:
        # Of such waits that were told in code that nobody here had seen, hardly one was acted on. Asked before what searches the project.
        return "there is no fix for a wait at each step"
    if (stall is not None or rule.only_amid_step) and _looks_for_anomalies(facts):
        return "each step looks for anomalies, and waits more for that"
    if facts.model.never_runs(facts.statement):
        return "it never runs"
    if project.is_broken(facts.model.source.file):
        return "the file can't be run: it imports what the project hasn't got"
    if _is_expected(facts.node(report.node) or facts.statement, facts):
        return "an error is expected there"
    fails_elsewhere = rule.effect is not None and rule.effect.without_accelerator
    costs = rule.severity == "warning" or fails_elsewhere
    is_mixing = (rule.event in ABOUT_MIXING or rule.meets_elsewhere) and report.confidence == "likely"
    source = facts.model.source
    if is_generated(source):
        return "the file is generated, and what it is made of is to be mended"
    copied = rule.severity == "warning" and is_said_to_be_copied(source)
    if copied or (
        (costs or is_mixing) and (is_of_others(project.place_of(source.file)) or project.is_copied_in(source.file))
    ):
        return "somebody else keeps this code"
    if costs and _is_at_home(facts.model.source):
        return "the program starts on its author's machine alone"
    if (costs or is_mixing) and is_retired(facts.path):
        return "nobody goes on with what a folder or file of that name holds"
    if report.confidence == "likely" and _is_for_python_2(source, project):
        return "the project is written for Python 2, and releases of PyTorch that do otherwise"
    if (costs or report.confidence == "likely") and _is_for_old_releases(facts, project):
        return "the project is written for releases of PyTorch before 0.4, and fails with later ones"
    if (costs or is_mixing) and facts.model.comes_to_nothing(facts.node(report.node) or facts.statement):
        return "what stands beside it always fails"
    scope = facts.scope
    if scope is not None and _is_replaced(scope):
        return f"another `{scope.name}` takes its place"
    # Tests of a library are of what others use.
    if scope is not None and is_unused(project, scope, but_by_tests=project.is_only_run(source.file)):
        return f"nothing in the project leads to `{scope.name}`"
    if scope is not None and fails_elsewhere and _is_called_on_others(scope, project):
        return f"nothing in the project calls this `{scope.name}`"
    if scope is not None and facts.model.is_forward_of_nobody(scope):
        return "nothing in the project calls this module"
    if is_mixing and _TRANSFORMS.search(source.path) is not None and _is_of_program(source, project):
        return "transforms prepare what a loader's workers load, on the host"
    if is_mixing and scope is not None and scope.cls is not None and _is_composed(scope.cls.name, source):
        return "transforms prepare what a loader's workers load, on the host"
    if (is_mixing and _stays_on_host(facts, project)) or (fails_elsewhere and _is_for_host(facts, project)):
        return "nothing moves anything here"
    if facts.model.is_never_chosen(facts.node(report.node) or facts.statement):
        return "nobody asks for what leads there"
    if is_mixing and scope is not None:
        by_host = facts.model.is_called_by_host(scope, facts.node(report.node))
        return f"code for the host calls `{scope.name}`" if by_host else ""
    if ((costs or is_mixing) and _tests_itself(report, facts, project)) or (
        rule.event in ABOUT_MIXING and _is_tried_by_itself(report, facts, project)
    ):
        return "so a module that others import tries itself"
    by_role = stall is not None and stall.by_role
    hot = facts.hot_loop(report.node) if rule.only_training and not by_role else None
    if hot is None:
        return ""
    if hot.is_minor or is_of_tool(facts.model.source.path) or is_aside(facts.model.source.path):
        costs_little = rule.only_amid_step or report.change is None
        return "nothing is trained here, or it is tried or measured" if costs_little else ""
    return ""


def _is_composed(cls: str, source: SourceModule) -> bool:
    """`Compose([Resize(8), PackPathway()])`: whether a file has an object of a class among its transforms, and gives these nothing that it moves."""
    if "Compose" not in source.text:
        return False
    nodes = list(walk(source.tree))
    composed = [n for n in nodes if isinstance(n, ast.Call) and last_name(n.func) == "Compose"]
    named = [
        t.id
        for n in nodes
        if isinstance(n, ast.Assign) and n.value in composed
        for t in n.targets
        if isinstance(t, ast.Name)
    ]
    moved = rf"\b(?:{'|'.join(named)})\([^)\n]{{0,100}}\.(?:cuda|to)\(" if named else ""
    if moved and re.search(moved, source.text):
        return False
    listed = (n.args[0].elts for n in composed if n.args and isinstance(n.args[0], (ast.List, ast.Tuple)))
    return any(isinstance(part, ast.Call) and last_name(part.func) == cls for parts in listed for part in parts)


def _is_of_program(source: SourceModule, project: Project) -> bool:
    """Whether transforms are those of a program, which nobody installs, or of its data, by the folder."""
    return _OF_DATA.search(source.path) is not None or project.is_only_run(source.file)


_OF_DATA = regex(r"(?:^|/)(?:data|datasets?|dataload(?:er|ers|ing)?)/(?:\w{1,40}/){0,3}\w{1,60}\.py$")


def _stays_on_host(facts: Facts, project: Project) -> bool:
    """Whether a notebook, or a project of programs that nobody installs, says nothing of accelerators."""
    source = facts.model.source
    if source.file.suffix == ".ipynb":
        return re.search(_GOES_SOMEWHERE, source.text) is None
    return _is_for_host(facts, project)


def _is_for_host(facts: Facts, project: Project) -> bool:
    """Whether a project of programs that nobody installs says nothing of accelerators."""
    return project.is_only_run(facts.model.source.file) and not facts.model.texts_match(_GOES_SOMEWHERE)


def _is_at_home(source: SourceModule) -> bool:
    """Whether a program opens a file of somebody's home whatever it is told: `load("/home/jane/data")` at its top level."""
    if "/home/" not in source.text and "/Users/" not in source.text:
        return False
    run = [*source.tree.body]
    for statement in source.tree.body:
        if _asks_for_main(statement):
            run += statement.body
    own = {s.name: s for s in source.tree.body if isinstance(s, ast.FunctionDef)}
    called = {last_name(s.value.func) for s in run if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)}
    run += [s for name in own if name in called for s in own[name].body]
    plain = [s for s in run if isinstance(s, (ast.Expr, ast.Assign))]
    named = {
        t.id
        for s in plain
        if isinstance(s, ast.Assign) and _is_of_home(s.value)
        for t in s.targets
        if isinstance(t, ast.Name)
    }
    opened = (item.context_expr for s in run if isinstance(s, ast.With) for item in s.items)
    calls = (n for s in (*plain, *opened) for n in walk(s) if isinstance(n, ast.Call))
    return any(_opens_home(call, named) for call in calls)


def _opens_home(call: ast.Call, named: set[str]) -> bool:
    given = (*call.args, *(k.value for k in call.keywords))
    if last_name(call.func) in _JOINING:
        # `join(root, "model.pt")`
        return any(isinstance(a, ast.Name) and a.id in named for a in given)
    return last_name(call.func) not in _NOT_OPENING and any(
        _is_of_home(a) or (isinstance(begun := _begun_by(a), ast.Name) and begun.id in named) for a in given
    )


def _is_of_home(path: ast.expr) -> bool:
    path = _begun_by(path)
    return isinstance(path, ast.Constant) and isinstance(path.value, str) and _OF_HOME.match(path.value) is not None


def _begun_by(path: ast.expr) -> ast.expr:
    """What a path begins with: `root` of `root + "net.pth"`, and of `f"{root}/net.pth"`."""
    match path:
        case ast.BinOp(left=left, op=ast.Add() | ast.Div()):
            return _begun_by(left)
        case ast.JoinedStr(values=[ast.FormattedValue(value=first) | (ast.Constant() as first), *_]):
            return first
    return path


_JOINING = frozenset({"join", "Path"})


_OF_HOME = regex(r"(?:file://)?/(?:home|Users)/[\w.-]{1,60}/[\w.-]")
# What is told a path that may be another one, or missing.
_NOT_OPENING = frozenset(
    {"add_argument", "add_option", "append", "insert", "extend", "setdefault", "get", "exists", "isfile", "isdir", "print", "expanduser"}
)  # fmt: skip


def _is_for_python_2(source: SourceModule, project: Project) -> bool:
    """Whether a project is written for Python 2, as far as a file of it that Python 3 reads may be."""
    return project.uses(PYTHON_2, source.file) and _PYTHON_3.search(source.without_comments) is None


def _is_for_old_releases(facts: Facts, project: Project) -> bool:
    """Whether a file says what releases before 0.4 alone can do, and takes no number as later ones do, and nobody says for which it is.

    Or the project's page says that it is for one of those, and another file says such things, and this one nothing that came later.
    """
    text = facts.model.source.without_comments
    if facts.surroundings.oldest_torch is not None or ".item()" in text:
        return False
    if _BEFORE_0_4.search(text) is not None:
        return True
    if _SINCE_0_4.search(text) is not None:
        return False
    path = facts.model.source.file
    return any(_SAYS_BEFORE_0_4.search(page) for page in project.papers(path)) and project.uses(BEFORE_0_4, path)


def _is_expected(node: ast.AST, facts: Facts) -> bool:
    """Whether a test says that what it does raises: `with pytest.raises(RuntimeError):`."""
    return any(
        isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) in _RAISING
        for parent in facts.model.ancestors(node)
        if isinstance(parent, (ast.With, ast.AsyncWith))
        for item in parent.items
    )


def _looks_for_anomalies(facts: Facts) -> bool:
    """Whether a program has each gradient checked for what is no number, on the host, whatever it is told: `set_detect_anomaly(True)`."""
    if "set_detect_anomaly" not in facts.model.source.text:
        return False
    return any(
        isinstance(n, ast.Call)
        and last_name(n.func) == "set_detect_anomaly"
        and any(isinstance(a, ast.Constant) and a.value is True for a in n.args[:1])
        and all(_asks_for_main(p) for p in facts.model.ancestors(n) if isinstance(p, ast.If))
        for n in walk(facts.model.source.tree)
    )


def _is_called_on_others(scope: FunctionModel, project: Project) -> bool:
    """Whether all that a program calls by a method's name are methods of other classes, and functions of modules."""
    source, cls = scope.source, scope.cls
    if cls is None or scope.parent is not None or cls not in source.tree.body or scope.decorators:
        return False
    called, file = rf"\.{scope.name}\b", source.file
    if (
        _HOOKS.fullmatch(scope.name)
        or not (project.is_only_run(file) or _is_beside_programs(source, project))
        or may_call_its_own(source.text, scope.name, cls.name)
    ):
        return False
    if project.texts_match(rf"[\"']{scope.name}[\"']", file):
        return False
    callers = project.matching(called, file, _MOST_CALLERS)
    if not callers:
        return not project.texts_match(called, file)
    texts = (project.read_quietly(caller, file).decode("utf-8", "replace") for caller in callers)
    return not any(may_be_called_in(text, scope.name, cls.name, file.stem) for text in texts)


def _is_beside_programs(source: SourceModule, project: Project) -> bool:
    return project.is_loose(source.file) and project.texts_match(r"__name__ == ['\"]__main__['\"]", source.file)


# What is called by whoever has the class, without a word in the project.
_HOOKS = regex(
    r"_.*|forward|step|run|main|setup|(?:on|configure|prepare|training|validation|test|predict)_\w+|(?:load_)?state_dict"
)
_MOST_CALLERS = 30


def _is_replaced(scope: FunctionModel) -> bool:
    """Whether a function, or a method, is defined again further down, in the same block."""
    body = scope.cls.body if scope.cls is not None else scope.source.tree.body
    last = next((s for s in reversed(body) if isinstance(s, type(scope.node)) and s.name == scope.name), scope.node)
    # `@x.setter`, `@overload`: both are of use.
    return last is not scope.node and scope.node in body and not scope.decorators and not last.decorator_list


def _hides_accelerators(source: SourceModule) -> bool:
    """Whether a program sets, before it imports torch, that CUDA is to show it no device."""
    found = _HIDDEN.search(source.text)
    return found is not None and _IMPORTS_TORCH.search(source.text, 0, found.start()) is None


# At the file's top level, or in what it runs as a program.
_HIDDEN = regex(
    r"^(?: {4}|\t)?os\.environ\[['\"]CUDA_VISIBLE_DEVICES['\"]\] *= *['\"](?:-1)?['\"] *(?:#|$)", re.MULTILINE
)
_IMPORTS_TORCH = regex(
    r"^[ \t]{0,40}(?:import|from) torch\b|^(?!if __name__)(?:if|else|elif|def|class|for|while|with|try)\b", re.MULTILINE
)
_RAISING = frozenset({"raises", "assertRaises", "assertRaisesRegex"})


def _asks_for_main(statement: ast.stmt) -> TypeGuard[ast.If]:
    """`if __name__ == "__main__":`"""
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _is_tried_by_itself(report: Report, facts: Facts, project: Project) -> bool:
    """Whether it is what a module runs to try itself that leads to what is told."""
    path = facts.model.source.path
    own = [s for s in facts.model.source.tree.body if _asks_for_main(s)]
    calls = [n for n in report.notes if n.path == path and n.message.startswith("called from here")]
    tried = any(s.lineno <= note.line <= (s.end_lineno or 0) for s in own for note in calls)
    return tried and all(map(_is_short, own)) and bool(project.importers_of(Path(path)))


def _tests_itself(report: Report, facts: Facts, project: Project) -> bool:
    """Whether a report is about what a module runs if it is a program, and it is one that others import: of its package, or for all but a few lines."""
    path = facts.model.source.file
    node = facts.node(report.node)
    around = facts.model.ancestors(node) if node is not None else ()
    own = next((p for p in around if isinstance(p, ast.If) and ast.unparse(p.test).startswith("__name__")), None)
    if own is None or not ("." in project.name_of(path)[1] or _is_short(own)):
        return False
    return bool(project.importers_of(path))


def _is_short(block: ast.If) -> bool:
    """Whether what a module runs is no program that people give options."""
    nodes = list(walk(block))
    return sum(isinstance(n, ast.stmt) for n in nodes) <= _FEW_STATEMENTS and not any(
        isinstance(n, ast.Call) and last_name(n.func) in ("parse_args", "ArgumentParser", "main") for n in nodes
    )


_FEW_STATEMENTS = 20
