"""Where code speaks of CUDA on purpose: under a test for it, in what is CUDA's own, or where the project says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.facts import kept_on_node
from devlint.lazy import regex
from devlint.portable import marks_cuda_only

if TYPE_CHECKING:
    from devlint.facts import Facts

# Tests that hold on CUDA alone; that it is available isn't one: the code below is often meant for any accelerator.
_FOR_CUDA = (
    r"==\s{0,3}\(?['\"]cuda|['\"]cuda\b[^'\"]{0,40}['\"]\s{0,3}==|\bin\s+[\[({]\s{0,3}['\"]cuda['\"]\s{0,3},?\s{0,3}[\])}]|startswith\(['\"]cuda"
    r"|['\"]cuda['\"]\s+in\b|isinstance\([^()]{0,80},\s{0,3}torch\.cuda\.\w+Tensor"
    r"|version\.cuda|\.is_cuda\b|\bis_cuda(?:_alike|_platform)?\(|get_device_capability|\bis_nvidia|['\"][nm]ccl['\"]|\bsm_?\d\d"
)
_NOT_FOR_CUDA = regex(r"!=\s*['\"]cuda")
# What ROCm's builds of torch answer to, where the project counts them in.
_FOR_ROCM = r"version\.hip|\bis_rocm|\bis_hip|\bis_amd"
# Names of other backends: code that speaks of several maps one to another.
_OTHERS = regex(
    r"['\"](?:xpu|npu|hpu|mps|mtia|musa|mlu|hip|rocm|tpu|privateuseone|gcu|sdaa|maia)\b|\.(?:xpu|npu|hpu|mps|mtia|musa|mlu)\b"
)
# What only CUDA (and what answers to its name) has.
OWN = regex(
    r"CUDAGraph|cuda\.graph|graph_pool_handle|make_graphed|capture_begin|cudnn|cublas|cutlass|CUTLASS|backends\.cuda|nvtx|nvml"
    r"|get_device_capability|compute_capability|\bsm_?\d\d|SM\d\d|cudart|version\.cuda|cpp_extension|load_inline"
    r"|[tT]riton|\btl\.|flash_attn|FlashAttention|[hH]elion|cuda_kernel|symm_mem|[sS]ymmetric memory|[sS]ymmetricMemory"
    r"|nvshmem|cuda_ipc|_share_cuda_|CUDAPluggable|MemPool|is_current_stream_capturing|jiterator|[dD]eep_?[eE][pP]\b|CUDA-only|CUDA only"
)
# Files that are about kernels, by their names and by the modules that they import.
_KERNEL = regex(
    r"triton|helion|cutlass|kernels?\b|_kernel|flash_attn|deep_?ep\b|hybrid_?ep|cupy|pynvml|evoformer|nvshmem|symm_mem|fused_",
    re.IGNORECASE,
)
# Flags of CUDA's libraries, which do nothing on other machines.
_FLAGS = regex(r"\btorch\.backends\.(?:cuda|cudnn)\.[\w.]{1,80}(?= = )")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_meant(found: ast.AST, facts: Facts) -> bool:
    """Whether somebody says of what stands here that it is for CUDA: a setting, a comment, or a test for CUDA."""
    return facts.surroundings.is_cuda_only or _is_said(found, facts) or _is_tested(found, facts)


def is_about_cuda(found: ast.AST, facts: Facts) -> bool:
    """The same, or the function around uses what only CUDA has."""
    if is_meant(found, facts) or is_of_kernels(facts):
        return True
    child = found
    for parent in facts.model.ancestors(found):
        # The mark of a class of tests.
        if isinstance(parent, ast.ClassDef) and child in parent.decorator_list and is_own(parent):
            return True
        child = parent
    return any(is_own(d) for d in definitions_around(found, facts) if not isinstance(d, ast.ClassDef))


def definitions_around(found: ast.AST, facts: Facts) -> list[Definition]:
    """The functions and classes that a node stands in, or is a decorator of, from the inside out."""
    return [n for n in (found, *facts.model.ancestors(found)) if isinstance(n, Definition)]


def is_own(definition: ast.AST) -> bool:
    """Whether the code of a definition uses what only CUDA has."""
    return OWN.search(_code_of(definition)) is not None


@kept_on_node
def _code_of(definition: ast.AST) -> str:
    """A definition without its comments and documentation, and without the flags that it sets."""
    if not isinstance(definition, Definition):
        return ast.unparse(definition)
    body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    return _FLAGS.sub("", "\n".join(ast.unparse(node) for node in (*definition.decorator_list, *body)))


def text_of(node: ast.AST, facts: Facts) -> str:
    """The source of a statement, with its decorators."""
    assert isinstance(node, ast.stmt)
    marks = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(m.lineno for m in marks)])
    return "".join(facts.text.line(n) + "\n" for n in range(first, (node.end_lineno or node.lineno) + 1))


def is_of_kernels(facts: Facts) -> bool:
    """Whether a file is about kernels for CUDA: by its name, or by what it imports."""
    if _KERNEL.search(facts.path):
        return True
    return _speaks_of_kernels(facts.text.text) and _imports_kernels(facts.model.source.tree)


@lru_cache(maxsize=8)
def _speaks_of_kernels(text: str) -> bool:
    return _KERNEL.search(text) is not None


@kept_on_node
def _imports_kernels(tree: ast.AST) -> bool:
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    names = (
        n for i in imports for n in ([i.module or ""] if isinstance(i, ast.ImportFrom) else [a.name for a in i.names])
    )
    return any(map(_KERNEL.search, names))


def is_in_chain(found: ast.AST, facts: Facts) -> bool:
    """Whether it is one of several tests, each for another backend."""
    for parent in facts.model.ancestors(found):
        if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp)) and _OTHERS.search(ast.unparse(parent)):
            return True
        if isinstance(parent, ast.stmt):
            # An `elif` stands in the one before.
            above = next(facts.model.ancestors(parent), None)
            return (
                isinstance(above, ast.If) and parent in above.orelse and _OTHERS.search(ast.unparse(above)) is not None
            )
    return False


def maps_backends(found: ast.AST, facts: Facts) -> bool:
    """Whether the function around, or the statement at the top level, speaks of other backends as well."""
    nodes = (found, *facts.model.ancestors(found))
    functions = (n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    statements = (n for n in nodes if isinstance(n, ast.stmt) and not isinstance(n, ast.ClassDef))
    around: ast.stmt | None = next(functions, None) or next(statements, None)
    return around is not None and _OTHERS.search(text_of(around, facts)) is not None


def _is_said(found: ast.AST, facts: Facts) -> bool:
    """Whether a comment on a definition around says that it is for CUDA alone."""
    return any(
        marks_cuda_only(facts.text.line(line))
        for d in definitions_around(found, facts)
        for line in range(d.lineno, d.body[0].lineno + 1)
        if line == d.lineno or line < d.body[0].lineno
    )


def _is_tested(found: ast.AST, facts: Facts) -> bool:
    """Whether a test around, or one before that leaves, holds on CUDA alone."""
    child = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if child is not test:
                body = parent.body if isinstance(parent.body, list) else [parent.body]
                if is_for_cuda(test, facts) if child in body else _excludes_cuda(test):
                    return True
            case ast.BoolOp(op=ast.And(), values=values) if any(
                v is not child and is_for_cuda(v, facts) for v in values
            ):
                return True
        if any(_leaves_others(earlier, facts) for earlier in before(parent, child)):
            return True
        child = parent
    return False


def is_for_cuda(test: ast.expr, facts: Facts) -> bool:
    """Whether a test holds on CUDA alone."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(is_for_cuda(value, facts) for value in test.values)
    if isinstance(test, ast.BoolOp):
        return all(is_for_cuda(value, facts) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return False
    pattern = f"{_FOR_CUDA}|{_FOR_ROCM}" if "rocm" in facts.surroundings.portable.accept else _FOR_CUDA
    return re.search(pattern, ast.unparse(test)) is not None


def _excludes_cuda(test: ast.expr) -> bool:
    """Whether CUDA is what is left where a test doesn't hold."""
    text = ast.unparse(test)
    return _NOT_FOR_CUDA.search(text) is not None or (
        text.startswith("not ") and re.search(_FOR_CUDA, text) is not None
    )


def before(parent: ast.AST, child: ast.AST) -> Iterator[ast.stmt]:
    """The statements before another one in its block."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            yield from block[: block.index(child)]


def _leaves_others(statement: ast.stmt, facts: Facts) -> bool:
    match statement:
        case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue()]):
            return _excludes_cuda(test)
        case ast.Assert(test=test):
            # In a test, it may be what is tested.
            return is_for_cuda(test, facts) and not is_in_test(statement, facts)
    return False


def is_in_test(node: ast.AST, facts: Facts) -> bool:
    """Whether a node stands in a test function."""
    return any(d.name.startswith("test") for d in definitions_around(node, facts))


def is_cuda_only(found: ast.AST, facts: Facts) -> bool:
    """Whether the project says of what stands here that it is for CUDA alone."""
    return facts.surroundings.is_cuda_only or _is_said(found, facts)


def has_accelerator(found: ast.expr | ast.stmt, facts: Facts, *, marks: bool = True) -> bool:
    """Whether a test around, or one before that leaves, asks for an accelerator."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test, body=body) if child in body and _asks(test):
                return True
            case ast.IfExp(test=test, body=body) if child is body and _asks(test):
                return True
            case ast.BoolOp(op=ast.And(), values=[first, *_]) if child is not first and _asks(first):
                return True
            case ast.FunctionDef(decorator_list=given) | ast.ClassDef(decorator_list=given):
                if marks and any(_asks(mark, negated=True) for mark in given):
                    return True
        if any(_raises_without(other) for other in _beside(parent, child)):
            return True
        for earlier in before(parent, child):
            match earlier:
                case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test), body=[*_, last]) if _asks(test):
                    if isinstance(last, (ast.Return, ast.Raise)) or "skip" in ast.unparse(last).lower():
                        return True
                case ast.Assert(test=test) if _asks(test):
                    return True
        child = parent
    return False


def _beside(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """The other statements of a block, but for a module's."""
    blocks = (getattr(parent, field, None) for field in ("body", "orelse", "finalbody"))
    found = (block for block in blocks if isinstance(block, list) and child in block)
    return [] if isinstance(parent, ast.Module) else [other for other in next(found, []) if other is not child]


def _raises_without(statement: ast.stmt) -> bool:
    """Whether a statement needs an accelerator itself, so that what stands beside it needs no test for one."""
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return (
                re.fullmatch(
                    r"torch\.(?:cuda|accelerator)\.(?:synchronize|set_device(?:_index)?|reset_peak_memory_stats)",
                    ast.unparse(func),
                )
                is not None
            )
    return False


def _asks(test: ast.expr, *, negated: bool = False) -> bool:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_asks(value, negated=negated) for value in test.values)
    text = ast.unparse(test)
    return re.search(r"(?:cuda|accelerator)\.is_available\(|device_count\(", text) is not None and (
        negated or not text.startswith("not ")
    )
