"""Finds what stands in for `torch.cuda` on any accelerator, for devlint/knowledge/counterparts.json.

Names come from the installed torch: what `torch.accelerator` has under the same name, and the few below that were
renamed. What both do is found by calling both, with virtual CUDA and, in a process of its own, without an accelerator.
Since which release a name is there is read off the wheels of older releases, and kept in the file from then on:

    python tools/counterparts.py torch-2.6.0-*.whl torch-2.7.0-*.whl ...

`tools/generate_knowledge.py` writes and checks the rest.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from devlint.runtime import virtual_cuda

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "counterparts.json"

# Under other names.
RENAMED = {
    "current_device": "torch.accelerator.current_device_index",
    "set_device": "torch.accelerator.set_device_index",
    "device": "torch.accelerator.device_index",
    "mem_get_info": "torch.accelerator.get_memory_info",
    "Stream": "torch.Stream",
    "Event": "torch.Event",
    "amp.GradScaler": "torch.amp.GradScaler",
    "amp.autocast": "torch.amp.autocast",
    "amp.custom_fwd": "torch.amp.custom_fwd",
    "amp.custom_bwd": "torch.amp.custom_bwd",
}
# What virtual CUDA can't show, since its streams and events are CUDA's: on a GPU these give the class of any accelerator's.
WIDER = frozenset({"Stream", "Event", "current_stream", "set_stream"})
# The first argument, in each form that it is given in.
FORMS: dict[str, tuple[Any, ...]] = {
    "nothing": (),
    "index": (1,),
    "text": ("cuda:1",),
    "device": (torch.device("cuda:1"),),
    "none": (None,),
}
# What a form is called in an annotation.
ANNOTATED = {
    "index": r"\bint\b",
    "text": r"\bstr\b",
    "device": r"torch\.device|_device_t|Device",
    "none": r"None|Optional",
}


def pairs() -> dict[str, str]:
    """A name in `torch.cuda` -> the name of its counterpart."""
    same = {n: f"torch.accelerator.{n}" for n in torch.accelerator.__all__ if callable(getattr(torch.cuda, n, None))}
    return dict(sorted((same | RENAMED).items()))


def named(path: str) -> Any:
    """What a dotted name stands for."""
    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def outcome(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """What a call comes to: ("raises", None) or ("gives", what can be compared)."""
    here = torch.cuda.current_device() if torch.cuda.is_available() else None
    try:
        given = call(*arguments)
        if hasattr(given, "__enter__"):
            with given:
                given = torch.cuda.current_device()
        moved = torch.cuda.current_device() if here is not None else None
    except Exception:
        return "raises", None
    finally:
        if here is not None:
            torch.cuda.set_device(here)
    if isinstance(given, dict):
        given = sorted(given)
    return "gives", (given if isinstance(given, (bool, int, tuple, list, type(None))) else type(given).__name__, moved)


def outcomes(name: str) -> dict[str, tuple[str, Any]]:
    """What calling something comes to, by the form of its first argument."""
    return {form: outcome(named(name), arguments) for form, arguments in FORMS.items()}


def without_accelerator() -> dict[str, Any]:
    """Counterparts and what they stand in for -> what calling them comes to with no accelerator, by form."""
    both = [name for pair in pairs().items() for name in (f"torch.cuda.{pair[0]}", pair[1])]
    code = f"import counterparts as c; print(__import__('json').dumps({{n: c.outcomes(n) for n in {both!r}}}))"
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def first_parameter(name: str) -> inspect.Parameter | None:
    """The first parameter of a function or class; None where it takes none."""
    return next(iter(inspect.signature(named(name)).parameters.values()), None)


def takes(name: str) -> frozenset[str]:
    """The forms of its first argument that a counterpart is documented to take."""
    parameter = first_parameter(name)
    if parameter is None:
        return frozenset({"nothing"})
    found = {form for form, words in ANNOTATED.items() if re.search(words, str(parameter.annotation))}
    return frozenset(found if parameter.default is parameter.empty else found | {"nothing"})


def compared(short: str, name: str, alone: dict[str, Any]) -> dict[str, Any] | None:
    """The facts about one counterpart; None where it does something else under the same name."""
    cuda = f"torch.cuda.{short}"
    facts: dict[str, Any] = {"name": name, "since": since(name)}
    if short.startswith("amp."):
        # They are told the type of the device first.
        return facts | {"of_type": True, "forms": [], "exact": False, "without": "alike"}
    if short in WIDER:
        return facts | {"forms": ["nothing"], "exact": False, "without": "alike"}
    with virtual_cuda(2):
        torch.ones(1000, device="cuda")
        left, right = outcomes(cuda), outcomes(name)
    forms = [f for f in FORMS if f in takes(name) and left[f] == right[f] and left[f][0] == "gives"]
    if not forms:
        return None
    raising = any(alone[cuda][f][0] == "gives" and alone[name][f][0] == "raises" for f in forms)
    alike = all(alone[cuda][f] == alone[name][f] for f in forms)
    parameter = first_parameter(name)
    return facts | {
        "forms": forms,
        "exact": True,
        "by_position": parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY,
        "without": "raises" if raising else "alike" if alike else "differs",
    }


def collect() -> dict[str, Any]:
    """Everything that the file holds."""
    alone = without_accelerator()
    found = {f"torch.cuda.{short}": compared(short, name, alone) for short, name in pairs().items()}
    return {
        "torch": torch.__version__.split("+")[0],
        "releases": recorded(),
        "counterparts": {name: facts for name, facts in found.items() if facts is not None},
    }


# Releases


def recorded() -> dict[str, str]:
    """Names of torch -> the first release that has them, as the file has it from the wheels."""
    return dict(json.loads(OUTPUT.read_text())["releases"]) if OUTPUT.exists() else {}


def since(name: str) -> str | None:
    """The first release with a name; None where the oldest that was looked at had it."""
    if not name.startswith("torch.accelerator."):
        return None
    return recorded().get(name, ".".join(torch.__version__.split(".")[:2]))


def names_in(wheel: Path) -> frozenset[str]:
    """What `torch.accelerator` offers in a release."""
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for file in ("__init__.py", "memory.py"):
            path = f"torch/accelerator/{file}"
            tree = ast.parse(archive.read(path)) if path in archive.namelist() else ast.Module([], [])
            for node in tree.body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    found |= set(ast.literal_eval(node.value))
    return frozenset(f"torch.accelerator.{name}" for name in found)


def releases(wheels: Iterable[Path]) -> dict[str, str]:
    """Names of `torch.accelerator` -> the first of the wheels' releases that has them."""
    by_release = {}
    for wheel in wheels:
        version = re.match(r"torch-(\d+)\.(\d+)", wheel.name)
        assert version, wheel
        by_release[int(version[1]), int(version[2])] = names_in(wheel)
    found: dict[str, str] = {}
    for (major, minor), names in sorted(by_release.items()):
        found |= {name: f"{major}.{minor}" for name in names if name not in found}
    return dict(sorted(found.items()))


def put(output: Path, facts: dict[str, Any], *, check: bool) -> int:
    """Writes a file of facts, or says whether it is as it would be written (0: yes)."""
    text = json.dumps(facts, indent=1, sort_keys=True) + "\n"
    if not check:
        output.write_text(text)
    elif output.read_text() != text:
        print(f"{output} is out of date: run python tools/generate_knowledge.py")
        return 1
    return 0


def main(*, check: bool) -> int:
    """Writes the file, or says whether it is as it would be written (0: yes)."""
    return put(OUTPUT, collect(), check=check)


if __name__ == "__main__":
    OUTPUT.write_text(json.dumps({"releases": releases(map(Path, sys.argv[1:]))}))
    sys.exit(main(check=False))
