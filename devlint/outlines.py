"""What a run asks of all rules, as plain data that is read without loading the modules that the rules are in.

Most runs need few rules, and to load the modules of all of them takes longer than to lint a small file. What an installed
pack would answer stands beside it in a file, which is written when devlint's wheel is built; where there is none, as in a
checkout, the modules are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from devlint import words

FILE = "outlines.json"

# The attributes that are asked for before any file is suspected of holding one of a rule's findings, and what makes them
# of what JSON has.
ASKED: Mapping[str, Any] = {
    "code": str,
    "name": str,
    "trigger": str,
    "event": str,
    "needs": tuple,
    "only_hot": bool,
    "senses": frozenset,
    "hears": str,
    "severity": str,
    "default": bool,
    "seen_as": tuple,
    "for_any_accelerator": bool,
    "url": str,
}


def outlines_of(pack: ModuleType) -> list[dict[str, Any]] | None:
    """What a pack tells of each of its rules: attributes, and where it is; None where it tells nothing."""
    try:
        text = Path(pack.__file__ or "").with_name(FILE).read_text("utf-8")
    except OSError:
        return None
    import json

    told = json.loads(text)
    words.learn(told["words"])
    return [each | {name: made(each[name]) for name, made in ASKED.items()} for each in told["rules"]]


def told_of(rules: Iterable[Any]) -> str:
    """What the file is to hold of some rules."""
    import json

    chosen = sorted(rules, key=lambda rule: rule.code)
    spelt = (pattern for rule in chosen for pattern in (rule.trigger, rule.hears, *rule.needs))
    patterns = sorted({words.NOWHERE, *filter(None, spelt)})
    told = {"rules": list(map(_told_of, chosen)), "words": words.told_of(patterns)}
    return json.dumps(told, indent=0, separators=(",", ":"), sort_keys=True, default=sorted) + "\n"


def _told_of(rule: Any) -> dict[str, Any]:
    place = {"__module__": rule.__module__, "__qualname__": rule.__qualname__}
    return {name: getattr(rule, name) for name in ASKED} | {"_hears_only": rule.hears_only()} | place
