"""Whether a program starts without an accelerator at all: what its file of code imports, and what that runs when it is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import own_nodes
from devlint.knowledge.ecosystem import OF_CUDA_ALONE
from devlint_rules.guards import asks_for_main

if TYPE_CHECKING:
    from devlint.facts import PlacementModel

# So many files are looked at.
MAX_FILES = 40


def starts_with_cuda_alone(model: PlacementModel) -> bool:
    """Whether a file imports, under no condition and by way of others too, what has kernels for CUDA alone or calls `.cuda()` as it is imported."""
    return any(
        any(map(_is_of_cuda_alone, file.source.tree.body))
        or (file is not model and any(map(_moves_when_imported, file.source.tree.body)))
        for file in imported_with(model)
    )


def imported_with(model: PlacementModel) -> Iterator[PlacementModel]:
    """A file, and those of the project that are imported with it, the nearest ones first."""
    ahead, seen = [model], {model.source.path}
    for file in ahead:
        yield file
        # What is imported doesn't run what a program does by itself.
        run = file.source.tree.body if file is not model else _run_by(file.source.tree)
        imports = (s for s in run if isinstance(s, (ast.Import, ast.ImportFrom)))
        for source in (found for statement in imports for found in file.imported_modules(statement)):
            if source.path not in seen and len(seen) < MAX_FILES:
                seen.add(source.path)
                ahead += [other] if (other := model.file_of(source)) is not None else []


def is_started(tree: ast.Module) -> bool:
    """Whether a file is a program: it does something of its own where it is run."""
    return bool(_started_alone(tree))


def _run_by(tree: ast.Module) -> list[ast.stmt]:
    """What stands at the top of a program, and what it does when it is started itself."""
    return [*tree.body, *(s for block in _started_alone(tree) for s in block.body)]


def _started_alone(tree: ast.Module) -> list[ast.If]:
    """`if __name__ == "__main__":`, at the top of a file."""
    return [s for s in tree.body if isinstance(s, ast.If) and asks_for_main(s.test)]


def _is_of_cuda_alone(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return any(name.name.partition(".")[0] in OF_CUDA_ALONE for name in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] in OF_CUDA_ALONE
    return False


def _moves_when_imported(statement: ast.stmt) -> bool:
    """`grid = torch.ones(4).cuda()` at the top level, `def f(x, grid=torch.ones(4).cuda())`."""
    match statement:
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            run: list[ast.AST] = [d for d in (*args.defaults, *args.kw_defaults) if d is not None]
        case ast.Expr() | ast.Assign():
            run = [statement]
        case _:
            return False
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "cuda"
        for part in run
        for n in (part, *own_nodes(part))
    )
