"""Whether anybody calls the objects of a class, told from texts: a module may be there for a method of its own alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from devlint.regexes import regex

# Calls that give the object itself.
_SAME = r"(?:\.(?:to|eval|cuda|half|train|requires_grad_)\([^()\n]{0,80}\))*"
# Texts of several lines, which documents mostly are.
_PROSE = regex(r"\"{3}.{0,20000}?\"{3}|'{3}.{0,20000}?'{3}", re.DOTALL)
# Aliases of aliases are followed so far.
MAX_NAMES = 12


def may_be_called(cls: str, methods: Iterable[str], naming: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether an object of a class may be called, going by its names.

    `methods` are its own that call it, `naming` the texts that name the class, and `texts` all of the project's: code and settings. What is
    kept in a list, derived from, or handed on under a name that isn't told, may be called.
    """
    keys: list[str] = []
    names = _names_in(cls, naming, keys)
    if names is None:
        return True
    everything = list(texts)
    if any(_is_chosen(key, everything, keys.count(key)) for key in set(keys)):
        return True
    if not names:
        return not keys
    made = _with_what_is_made(cls, names, everything)
    if made is None or len(made) > MAX_NAMES:
        return True
    names = made
    either = "|".join(map(re.escape, sorted(names)))
    own = "|".join(map(re.escape, ("forward", *methods)))
    used = re.compile(rf"(?<!def )\b(?:{either})(?:\(|\[|\.(?:{own})\b)")
    if any(used.search(text) for text in everything):
        return True
    return not all(_is_parameter(name, everything) for name in _handed_on(names, everything))


def kept_as(cls: str, naming: Iterable[str], texts: Iterable[str]) -> frozenset[str] | None:
    """The names under which the objects of a class are kept, where nothing else is done with them: none is handed on, or put in a list.

    `naming` and `texts` are those of `may_be_called`. None where that can't be told.
    """
    keys: list[str] = []
    names = _names_in(cls, naming, keys)
    everything = list(texts)
    made = _with_what_is_made(cls, names, everything) if names and not keys else None
    if made is None or len(made) > MAX_NAMES or _handed_on(made, everything):
        return None
    return frozenset(made)


def _names_in(cls: str, texts: Iterable[str], keys: list[str]) -> set[str] | None:
    names: set[str] = set()
    for text in texts:
        told = _holders(cls, text, keys)
        if told is None:
            return None
        names |= told
    return names


def _handed_on(names: Iterable[str], texts: Iterable[str]) -> set[str]:
    """The names of objects that stand where others get hold of them: `fit(net)`, `[self.encoder]`."""
    either = "|".join(map(re.escape, sorted(names)))
    handed = re.compile(rf"(?:[(,\[{{=][ \t\n]*|\*)(?:self\.)?({either})\b{_SAME}[ \t\n]*(?=[,)\]}}\n])")
    return {match[1] for text in texts for match in handed.finditer(_RETURN.sub("", text))}


def _is_chosen(key: str, texts: Iterable[str], tables: int) -> bool:
    """Whether something asks for what tables have under a key: the word stands elsewhere too."""
    word = re.compile(rf"\b{re.escape(key)}\b")
    return sum(len(word.findall(text)) for text in texts) > tables


# What a table of classes has under a key: `"rel_pos": RelPosEncoding,`.
_ENTRY = regex(r"[ \t]*[\"'](\w+)[\"'][ \t]*:[ \t]*(?:\w+\.)*")


def _holders(cls: str, text: str, keys: list[str]) -> set[str] | None:
    """The names under which a text keeps objects of a class that it makes; None where it does anything else with it.

    `keys` takes those under which tables have it.
    """
    found: set[str] = set()
    text = _PROSE.sub('""', text)
    for match in re.finditer(rf"\b{re.escape(cls)}\b", text):
        start = text.rfind("\n", 0, match.start()) + 1
        before, after = text[start : match.start()], text[match.end() : match.end() + 1]
        if re.match(r"[ \t]*(?:from|import|class|#|super)\b", before) or "import" in before or "#" in before:
            if re.match(r"[ \t]*class\b", before) and "(" in before:
                # A class that is derived from it.
                return None
            continue
        entry = _ENTRY.fullmatch(before)
        if entry is not None and after in ",\n}":
            keys.append(entry[1])
            continue
        if (
            re.search(r"(?:\bisinstance\([^()]*|super\(|->[ \t]*[\"']?|\w[ \t]*:[ \t]*(?:Optional\[)?[\"']?)$", before)
            and after != "("
        ):
            continue
        held = re.fullmatch(r"[ \t]*(?:\w+\.)*(\w+)[ \t]*(?::[^=\n]{0,80})?=[ \t]*(?:\w+\.)*", before)
        if held is None or after != "(":
            if before.count('"') % 2 or before.count("'") % 2:
                # In a message.
                continue
            return None
        found.add(held[1])
    return found


def _with_aliases(names: set[str], texts: Iterable[str]) -> set[str]:
    """The same with other names of what they stand for: `net = self.encoder.eval()`."""
    found = set(names)
    for name in names:
        alias = re.compile(
            rf"^[ \t]*(?:self\.)?(\w+)[ \t]*=[ \t]*(?:\w+\.)*{re.escape(name)}{_SAME}[ \t]*$", re.MULTILINE
        )
        found |= {match[1] for text in texts if name in text for match in alias.finditer(text)}
    return found


def _with_what_is_made(cls: str, names: set[str], texts: list[str]) -> set[str] | None:
    """The same with the names of what functions give that make one: `net = build_net(cfg)`. None where that isn't all that is done with it."""
    found, makers = _with_aliases(names, texts), set[str]()
    while len(found) <= MAX_NAMES:
        either = "|".join(map(re.escape, sorted(found)))
        returned = re.compile(rf"^[ \t]+return[ \t]+([^\n]*\b(?:{either})\b[^\n]*?)[ \t]*$", re.MULTILINE)
        new = set[str]()
        # The same name stands for other things in files that know nothing of the class.
        for text in (t for t in texts if cls in t or any(maker in t for maker in makers)):
            for match in returned.finditer(text):
                if not _NAMES.fullmatch(match[1]) and not re.fullmatch(rf"(?:self\.)?(?:{either}){_SAME}", match[1]):
                    if re.search(rf"(?:^|[(,\[{{=][ \t]*)(?:self\.)?(?:{either})\b(?![.(\[])", match[1]):
                        return None
                    # A part of it, or what it gives.
                    continue
                defined = list(_MAKER.finditer(text, 0, match.start()))
                if not defined:
                    return None
                new.add(defined[-1][1])
        if not new - makers:
            return found
        makers |= new
        for maker in new:
            held = _made_by(maker, texts)
            if held is None:
                return None
            found |= held
        found = _with_aliases(found, texts)
    return found


# One name or several: `encoder, self.decoder`.
_NAMES = regex(r"(?:self\.)?\w+(?:[ \t]*,[ \t]*(?:self\.)?\w+)*")
_RETURN = regex(r"^[ \t]{1,80}return[ \t](?:self\.)?\w+(?:[ \t]*,[ \t]*(?:self\.)?\w+)*[ \t]{0,9}$", re.MULTILINE)
_MAKER = regex(r"^[ \t]*def (\w+)", re.MULTILINE)


def _made_by(maker: str, texts: Iterable[str]) -> set[str] | None:
    """The names under which what a function gives is kept; None where anything else is done with it."""
    found: set[str] = set()
    for text in texts:
        for match in re.finditer(rf"\b{re.escape(maker)}\b", text):
            start = text.rfind("\n", 0, match.start()) + 1
            before, after = text[start : match.start()], text[match.end() : match.end() + 1]
            if re.search(r"\b(?:def|import)\b|#", before) or (not before.strip() and after in ",\n"):
                continue
            held, _, owner = before.partition("=")
            if after != "(" or not _NAMES.fullmatch(held.strip()) or not re.fullmatch(r"[ \t]*(?:\w+\.)*", owner):
                return None
            found |= {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", held)}
    return found


def _is_parameter(name: str, texts: Iterable[str]) -> bool:
    """Whether some function takes a thing by that name."""
    taking = re.compile(rf"\bdef \w+\([^()]{{0,600}}\b{re.escape(name)}\b")
    return any(taking.search(text) for text in texts)
