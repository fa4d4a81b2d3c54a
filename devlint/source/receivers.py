"""On what a method is called, going by the text of the file that calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator


def may_be_called_in(text: str, method: str, cls: str, module: str) -> bool:
    """Whether a file may call a method of a class of another module.

    It doesn't where it names neither the class nor the module, and calls methods of that name only on modules, and on what it
    makes itself of other classes.
    """
    if _names(text, cls, module):
        return not all(_is_imported(receiver, text) for receiver in _called_on(text, method))
    return any(_is_open(receiver, text) for receiver in _called_on(text, method) if receiver != "self")


def _names(text: str, cls: str, module: str) -> bool:
    """Whether a file names a class or its module; a class of that name which it has from another module, or defines, is another one."""
    if re.search(rf"\b{re.escape(module)}\b", text):
        return True
    other = rf"^[ \t]{{0,40}}(?:from[ \t]+[\w.]{{1,200}}[ \t]+import\b[^\n#]{{0,500}}|class[ \t]+)\b{re.escape(cls)}\b"
    return re.search(other, text, re.MULTILINE) is None and re.search(rf"\b{re.escape(cls)}\b", text) is not None


def may_call_its_own(text: str, method: str, cls: str) -> bool:
    """Whether the file of a class may call its method: on itself, by the class, or on what may be an object of it."""
    for receiver in _called_on(text, method):
        if receiver in ("self", "cls", cls) or _is_open(receiver, text) or cls in _makers_of(receiver, text):
            return True
    return re.search(rf"\b(?:super\(\)|{re.escape(cls)}\([^\n]{{0,200}}\))\.{re.escape(method)}\b", text) is not None


def _called_on(text: str, method: str) -> Iterator[str]:
    """What a method of that name is read of, each once; whatever isn't a plain chain of names ends in a bracket."""
    yield from dict.fromkeys(re.findall(rf"([\w.\])\"']{{0,200}})\.{re.escape(method)}\b", text))


def _is_open(receiver: str, text: str) -> bool:
    """Whether something may be of any class: it is no imported module, and not made here by constructors alone."""
    if not re.fullmatch(r"[A-Za-z_][\w.]*", receiver):
        return True
    root = re.escape(receiver.partition(".")[0])
    if _is_imported(receiver, text):
        return False
    makers = _makers_of(receiver, text)
    assigned = re.findall(rf"(?<![\w.]){re.escape(receiver)}[ \t]{{0,9}}(?::[^=\n]{{1,80}})?=(?!=)", text)
    is_parameter = re.search(rf"\bdef \w{{1,80}}\([^)]{{0,500}}\b{root}\b", text) is not None and root != "self"
    return not makers or len(makers) != len(assigned) or is_parameter or not all(map(_is_class, makers))


def _is_imported(receiver: str, text: str) -> bool:
    """Whether something is a module, or what an import brings: `np`, `torch.serialization`."""
    root = re.escape(receiver.partition(".")[0])
    return (
        re.search(
            rf"^[ \t]{{0,40}}(?:from[ \t]+[\w.]{{1,200}}[ \t]+)?import\b[^\n#]{{0,500}}\b{root}\b", text, re.MULTILINE
        )
        is not None
    )


def _makers_of(receiver: str, text: str) -> list[str]:
    """What something is made by: `Agent` of `agent = Agent(state)`."""
    found = re.findall(
        rf"(?<![\w.]){re.escape(receiver)}[ \t]{{0,9}}(?::[^=\n]{{1,80}})?=[ \t]{{0,9}}([\w.]{{1,80}})\(", text
    )
    return [name.rpartition(".")[2] for name in found]


def _is_class(name: str) -> bool:
    return name[:1].isupper()
