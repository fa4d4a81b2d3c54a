"""Who saves in a project, and whether it has anything on an accelerator: what nobody moves is saved from the host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import PlacementModel


# Each load of a file asks that.
@lru_cache(maxsize=2)
def comes_from_no_mover(model: PlacementModel) -> bool:
    """Whether no file of a project that saves anything moves anything, nor does one that imports such a file, by way of others too.

    Where nothing saves at all, what is read was published by others, who have mostly moved it to the host; what frameworks save for a project isn't seen.
    """
    if not model.has_files_beside(_A_PROJECT):
        return False
    saving = [*([model] if _SAVES.search(model.source.text) else ()), *model.files_matching(_SAVES.pattern)]
    if not saving:
        return not model.texts_match(rf"{_SAVES.pattern}|{_FRAMEWORKS}")
    return not any(user is None or _MOVES.search(user.source.text) for user in _with_users(saving))


def _with_users(saving: list[PlacementModel]) -> Iterator[PlacementModel | None]:
    """Files, and those that import them by their names, or by those of their packages; None where these are many."""
    ahead, seen = list(saving), {file.source.path for file in saving}
    for file in ahead:
        yield file
        name = file.source.file.stem
        for user in file.files_naming(file.source.file.parent.name if name == "__init__" else name):
            if user.source.path not in seen:
                seen.add(user.source.path)
                ahead.append(user)
        if len(ahead) > _MOST_USERS:
            yield None
            return


_MOST_USERS = 40
# In so many files of code somebody would save, if anybody did.
_A_PROJECT = 10
_SAVES = regex(r"\b(?:torch|th|pt)\.save\b")
_FRAMEWORKS = r"(?i:lightning|\bignite\b|\bfastai\b|\bskorch\b|save_state\b|save_pretrained|save_checkpoint|\bTrainer\(|accelerat|deepspeed|\bmm(?:cv|engine)\b|detectron2|fairseq)"
# What brings something elsewhere, or leaves that to a framework.
_MOVES = regex(
    r"(?i)\.cuda\(|\.to\((?!['\"]cpu['\"]\)|[\w.]{1,60}\.(?:device|dtype)\)|dtype|(?:torch\.)?(?:u?int|b?float|double|half|long|bool|complex)\d{0,3}\))"
    r"|accelerat|lightning|\bignite\b|device_map|DataParallel|deepspeed|\bTrainer\(|set_default_device"
)
