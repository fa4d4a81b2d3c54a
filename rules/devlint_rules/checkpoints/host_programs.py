"""Programs that know of no other place than the host: what they read by an option, they or their like have written there."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from devlint.knowledge.ecosystem import MOVING_FRAMEWORKS
from devlint.lazy import regex
from devlint_rules.checkpoints.starts import MAX_FILES, imported_with, is_started

if TYPE_CHECKING:
    from devlint.facts import PlacementModel, SourceModule


class HostProgram(NamedTuple):
    """The paths of a program's files of code, and whether one of them saves anything."""

    files: frozenset[str] = frozenset()
    saves: bool = False


# Each load of a program asks that, of those that write what it may read as well.
@lru_cache(maxsize=8)
def host_program(model: PlacementModel) -> HostProgram:
    """The program that a file is, with all that it imports, if that trains something and nothing of it says where else anything could be.

    A function that moves what it is given to a device that it is given says nothing of that: someone has to have one.
    """
    if not is_started(model.source.tree):
        return HostProgram()
    files = [file.source for file in imported_with(model)]
    if len(files) >= MAX_FILES or any(map(_may_lead_elsewhere, files)):
        return HostProgram()
    if not any(".backward(" in file.text for file in files):
        return HostProgram()
    return HostProgram(frozenset(file.path for file in files), any("torch.save(" in file.text for file in files))


def _may_lead_elsewhere(file: SourceModule) -> bool:
    frameworks = file.imported_packages & (MOVING_FRAMEWORKS | _FRAMEWORKS)
    return bool(frameworks) or _OTHER_PLACES.search(_TEXTS.sub("", file.without_comments)) is not None


# More that choose a place themselves.
_FRAMEWORKS = frozenset({"fastai", "ignite", "skorch", "stable_baselines3", "transformers", "trl", "ultralytics"})
# Texts of several lines, which documents mostly are.
_TEXTS = regex(r"\"{3}[\s\S]{0,20000}?\"{3}|'{3}[\s\S]{0,20000}?'{3}")
# What is or may be another place.
_OTHER_PLACES = regex(
    r"(?i)cuda|(?:\b|_)[gtx]pus?(?:\b|_)|\b(?:mps|[hnx]pu)\b|accelerat|\bfabric\b|from_pretrained|\bpretrained ?="
    r"|\b(?:args?|opts?|options|flags|cfg|conf|config|params|hparams|settings)\.\w{0,30}device|['\"][\w-]{0,30}device['\"]"
    r"|\bdevice\((?!['\"]cpu['\"])|set_default_(?:device|tensor_type)"
)
