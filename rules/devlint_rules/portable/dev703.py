"""DEV703: tests that any accelerator could run, and that are skipped without CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import dotted, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.portable import guards

if TYPE_CHECKING:
    from devlint.facts import Facts

# Marks that skip without CUDA, whatever they are defined by, and those whose definition is looked at.
_NEEDS_CUDA = regex(
    r"^(?:requires?|needs?|skip_?[iI]f_?[nN]o|skip_?[uU]nless|only)_?(?:torch_)?(?:cuda|nvidia)|^cuda_?only|^only_?CUDA|^requires?CUDA",
    re.IGNORECASE,
)
_NEEDS_GPU = regex(r"^(?:requires?|needs?|skip_?if_?no)_?(?:torch_)?(?:multi_?)?gpus?", re.IGNORECASE)
_SKIPS = regex(r"skip", re.IGNORECASE)
_AVAILABLE = regex(
    r"torch\.cuda\.(?:is_available|device_count)\b|(?:^|[._])(?:has|HAS|TEST|test)_(?:CUDA|cuda)\b|^(?:CUDA|cuda)_AVAILABLE$",
    re.IGNORECASE,
)


# Tests may want what distributed code only names.
_OWN = regex(rf"{guards.OWN.pattern}|nccl|NCCL")


class CudaOnlyTest(Rule):
    """A test that is skipped without CUDA, and needs nothing that only CUDA has.

    ## What it does
    Flags `skipif(not torch.cuda.is_available())` and its like on a test, a class or a module of tests, `pytest.skip` and
    `skipTest` under such a condition, and marks such as `@requires_cuda`, where the test uses nothing that only CUDA has:
    no kernel (Triton, CUTLASS, an extension), no CUDA graph, no NCCL, no compute capability. Whether a mark of the project's
    own asks for CUDA is told by its definition.

    A condition that this rule reports, `cuda-only-api` (DEV701) doesn't report again.

    ## Why is this bad
    On a machine with another accelerator the test is skipped, and nothing looks wrong, though it never ran.

    ## Example
    ```python
    import unittest
    from unittest import mock

    import torch

    # As on a machine with another accelerator.
    with mock.patch("torch.cuda.is_available", return_value=False):

        @unittest.skipIf(not torch.cuda.is_available(), "needs an accelerator")
        class TestNorm(unittest.TestCase):
            def test_norm(self):
                x = torch.ones(3, device=torch.accelerator.current_accelerator())
                assert x.norm() > 1
    ```

    ## Use instead
    ```python
    import unittest
    from unittest import mock

    import torch

    # As on a machine with another accelerator.
    with mock.patch("torch.cuda.is_available", return_value=False):

        @unittest.skipIf(not torch.accelerator.is_available(), "needs an accelerator")
        class TestNorm(unittest.TestCase):
            def test_norm(self):
                x = torch.ones(3, device=torch.accelerator.current_accelerator())
                assert x.norm() > 1
    ```

    ## Fix safety
    Unsafe: with `torch.accelerator.is_available()`, the test runs on machines where it was skipped before. If the test also names CUDA,
    `cuda-literal` (DEV702) mends that. There is no fix for a project's own marks.

    ## References
    - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
    """

    code = "DEV703"
    name = "cuda-only-test"
    trigger = r"torch\.cuda\.(?:is_available|device_count)|(?i:@[^\n]{0,200}(?:cuda|gpu))|(?i:\b(?:has|test)_cuda\b|cuda_available)"
    severity = "warning"
    default = False
    effect = Effect(holds="getattr(TestNorm, '__unittest_skip__', False)", devices=0)
    fix = "U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute() | m.Name()

    def judge(self, node: cst.Attribute | cst.Name, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if found is None or guards.is_cuda_only(found, facts):
            return
        name = dotted(found) or ""
        around = next(facts.model.ancestors(found), None)
        if isinstance(around, ast.Attribute):
            return
        if _AVAILABLE.search(name):
            test = _skipped_test(found, facts)
            if test is None or _is_ours(test, facts) or not _is_negated(found, facts):
                return
            yield Report(node, _message(test), change=_change(found, name, facts))
            return
        marked = _marked(found, facts)
        if marked is not None and _asks_for_cuda(found, name, facts) and not _is_ours(marked, facts):
            yield Report(node, _message(marked), "likely", hint="mark it for any accelerator, and let it use that one")


def _message(test: ast.AST) -> str:
    what = {ast.ClassDef: "these tests are", ast.Module: "these tests are"}.get(type(test), "this test is")
    name = f"`{test.name}` is" if isinstance(test, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else what
    return f"{name} skipped without CUDA, and uses nothing that only CUDA has"


def _is_ours(test: ast.AST, facts: Facts) -> bool:
    """Whether a test, or one of the definitions that it uses by name, is CUDA's own."""
    if guards.is_of_kernels(facts):
        return True
    if isinstance(test, ast.Module):
        return _OWN.search(facts.text.text) is not None
    # The reason that a mark gives counts as well.
    return _OWN.search(guards.text_of(test, facts)) is not None or any(guards.is_own(d) for d in _used(test, facts))


def _used(test: ast.AST, facts: Facts) -> Iterator[ast.stmt]:
    """The definitions of the file that a test calls or names."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    for node in walk(facts.model.source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name in names:
            yield node


def _skipped_test(found: ast.expr, facts: Facts) -> ast.AST | None:
    """The test, or class or module of tests, that is skipped by a condition; None for what decides something else."""
    child: ast.AST = found
    skips = False
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.Call(func=func):
                skips = skips or _SKIPS.search(ast.unparse(func)) is not None
            case (
                ast.FunctionDef(decorator_list=marks)
                | ast.AsyncFunctionDef(decorator_list=marks)
                | ast.ClassDef(decorator_list=marks)
            ):
                return parent if skips and child in marks else None
            case ast.Assign(targets=[ast.Name(id="pytestmark")]) if skips:
                return next(
                    (p for p in facts.model.ancestors(parent) if isinstance(p, (ast.ClassDef, ast.Module))), None
                )
            case ast.If(test=test, body=[ast.Expr(value=ast.Call(func=func))]) if child is test:
                # `if not torch.cuda.is_available(): pytest.skip(...)`
                return _function(parent, facts) if _SKIPS.search(ast.unparse(func)) else None
            case ast.If(test=test, body=[ast.Raise() as raised]) if child is test:
                return _function(parent, facts) if _SKIPS.search(ast.unparse(raised)) else None
            case ast.stmt():
                return None
        child = parent
    return None


def _function(node: ast.AST, facts: Facts) -> ast.AST | None:
    around = facts.model.enclosing_scope(node)
    return around if isinstance(around, ast.Module) or around.name.startswith(("test", "setUp", "setup")) else None


def _is_negated(found: ast.expr, facts: Facts) -> bool:
    """Whether it is for CUDA that is missing that the test is skipped, and not for CUDA that is there."""
    call: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Eq()]):
                return True
            case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.NotEq()]):
                return _unless(parent, facts)
            case ast.Call(func=func) if call is not found or found is not func:
                return "unless" in ast.unparse(func).lower()
            case ast.stmt():
                return False
        call = parent
    return False


def _unless(node: ast.AST, facts: Facts) -> bool:
    calls = (p for p in facts.model.ancestors(node) if isinstance(p, ast.Call))
    return any("unless" in ast.unparse(c.func).lower() for c in calls)


def _change(found: ast.expr, name: str, facts: Facts) -> Change | None:
    if not name.startswith("torch.cuda."):
        return None
    new = name.replace("torch.cuda.", "torch.accelerator.")
    return Change(f"use `{new}`", "unsafe", edits=(facts.replaced(found, new),))


# Marks with names


def _marked(found: ast.expr, facts: Facts) -> ast.AST | None:
    """The test, or class of tests, that an expression is a mark of."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        if isinstance(parent, guards.Definition):
            return parent if child in parent.decorator_list else None
        if not (isinstance(parent, ast.Call) and parent.func is child):
            return None
        child = parent
    return None


def _asks_for_cuda(found: ast.expr, name: str, facts: Facts) -> bool:
    last = name.rpartition(".")[2]
    defined = facts.model.value(found).function
    if not (_NEEDS_CUDA.search(last) or _NEEDS_GPU.search(last)):
        return False
    if defined is not None:
        return re.search(r"cuda", defined.text.replace(defined.name, "")) is not None
    return _NEEDS_CUDA.search(last) is not None
