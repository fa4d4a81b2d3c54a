"""Which names something in a project is given by, told from texts: a flag that is off, and that nobody gives, stays off."""

from __future__ import annotations

from collections import deque

from devlint.regexes import regex

# `name=value` in a call or an assignment; the value, where it is a name that may be off itself.
_GIVING = regex(
    rb"\b(?<![\"'])(self\.|cls\.)?(\w++)[ \t]*+=(?!=)[ \t]*+(?!(?:None|False)\b)"
    rb"(?:(?:(?:self|cls|cfg|config|args|opt|hparams)\.)?([A-Za-z_]\w*)[ \t]*(?=[,)\n\r#]))?"
)
# A statement that gives a name of a function's own: it says nothing of a parameter of that name, unless it is passed on.
_OF_ITS_OWN = regex(rb"(?m)^[ \t]++(\w++)[ \t]++=(?!=)[ \t]*+(?![\w.]++[ \t]*+[,)\n\r#]|[^\n]{0,200}==)")
_PASSED = regex(rb"[(,][ \t\n]*+(\w++)(?=[ \t\n]*+[,)\[.])")
# `name=None`, `name: bool = False`.
_OFF = regex(rb"\b(?<![\"'])(\w++)[ \t]*+(?::[^=,()\n]{0,80}+)?=[ \t]*(?:None|False)\b")
# Names in texts that may be options: `"name"`, `--name`.
_QUOTED = regex(rb"['\"]-{0,2}(\w[\w-]*)['\"]|(?<=--)(\w[\w-]*)")
# `getattr(config, "name", False)`, `config.get("name", False)`: who asks for a name gives none, and has nothing where nobody does.
_READ = regex(
    rb"\bgetattr\([ \t]*[\w.]{1,80}[ \t]*,[ \t]*['\"]\w{1,80}['\"][ \t]*,[ \t]*(?:False|None)[ \t]*\)"
    rb"|\b[\w.]{1,80}\.get\([ \t]*['\"]\w{1,80}['\"][ \t]*,[ \t]*(?:False|None)[ \t]*\)"
)
# `name: value`, `"name": value`, `name = value`.
_KEY = regex(rb"(?<![\w-])([\w-]{1,80})['\"]?[ \t]{0,8}[:=]")
# A name that is given by another one is followed so far.
MAX_FOLLOWED = 40


class Givens:
    """What the texts of a project give names."""

    def __init__(self) -> None:
        # By name: the names that it is given by, and whether it is given anything else.
        self._by: dict[bytes, set[bytes]] = {}
        self._given: set[bytes] = set()
        # Those that functions compute for themselves, and those that are given to others.
        self._own: set[bytes] = set()
        self._passed: set[bytes] = set()
        # Names that are off somewhere: those of parameters and attributes.
        self._off: set[bytes] = set()

    def take(self, raw: bytes, *, is_code: bool) -> None:
        """Takes the text of a file; what is no code gives its keys."""
        if not is_code:
            self._given.update(key.replace(b"-", b"_") for key in _KEY.findall(raw))
            return
        raw = _READ.sub(b"False", raw) if b"get" in raw else raw
        self._off.update(_OFF.findall(raw))
        own = {match.start(1): match[1] for match in _OF_ITS_OWN.finditer(raw)}
        self._own.update(own.values())
        self._passed.update(_PASSED.findall(raw))
        for match in _GIVING.finditer(raw):
            _, name, other = match.groups()
            if other == b"True" or (not other and match.start() not in own):
                self._given.add(name)
            elif other and other != name:
                self._by.setdefault(name, set()).add(other)
        self._given.update((one or other).replace(b"-", b"_") for one, other in _QUOTED.findall(raw))

    def is_given(self, name: str) -> bool:
        """Whether something may be given by that name, by way of others too."""
        seen = {name.encode()}
        waiting = deque(seen)
        while waiting:
            here = waiting.popleft()
            # Parameters that are never off are given by their places; attributes of an object's own aren't.
            may_be_off = here in self._off or (here.startswith(b"_") and here in self._by)
            is_given = here in self._given or (here in self._own and here in self._passed)
            if is_given or not may_be_off or len(seen) > MAX_FOLLOWED:
                return True
            new = self._by.get(here, set()) - seen
            seen |= new
            waiting += new
        return False
