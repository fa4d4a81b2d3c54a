"""The rooms of the code: what imports what."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What rules may import of devlint: their interface, and plain data.
INTERFACE = ("rule", "facts", "findings", "lazy", "knowledge", "portable")

# Rooms of the static half, each of which imports only those before it when it runs.
ROOMS = ("knowledge", "source", "signatures/values", "signatures/state", "signatures/libraries", "signatures/reading",
         "signatures/answers", "placement")  # fmt: skip


def imports(path: Path, *, typing: bool) -> Iterator[str]:
    """The modules and names of devlint that a file imports; `typing` says whether those count that only annotations use."""
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), typing=typing):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("devlint"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("devlint"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _nodes(tree: ast.AST, *, typing: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not typing and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _nodes(child, typing=typing)


def modules() -> dict[str, Path]:
    """The modules of devlint by their names."""
    found = {}
    for path in (ROOT / "devlint").rglob("*.py"):
        found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def test_rules_import_their_interface_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "rules").rglob("*.py")
        for name in imports(path, typing=True)
        if name.startswith("devlint.") and name.split(".")[1] not in INTERFACE
    ]
    assert not wrong


@pytest.mark.parametrize("position", range(len(ROOMS)), ids=lambda position: ROOMS[position])
def test_each_room_imports_only_those_before_it(position: int) -> None:
    later = tuple(f"devlint.{room.replace('/', '.')}." for room in ROOMS[position + 1 :])
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "devlint" / ROOMS[position]).rglob("*.py")
        for name in imports(path, typing=False)
        if name.startswith(later)
    ]
    assert not wrong


def test_nothing_is_imported_in_a_circle() -> None:
    known = modules()

    def module_of(name: str) -> str:
        while name not in known:
            name = name.rpartition(".")[0]
        return name

    graph = {
        module: {module_of(name) for name in imports(path, typing=True)} - {module} for module, path in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
