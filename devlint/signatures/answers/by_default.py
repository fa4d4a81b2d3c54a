"""Which contradictions are told by default: those for which more speaks than has been wrong, more often than right, in programs that somebody ran.

The rest is told where a rule is selected by its code.
"""

from __future__ import annotations

import ast

from devlint.signatures.answers.left_open import hangs_on_a_flag, hangs_on_words, meets_own_parts
from devlint.signatures.answers.silence import says_nothing_of_devices
from devlint.signatures.answers.witnesses import is_of_models
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import KEPT, OF_TENSORS
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import BATCH, MODULE, Value, steps_to
from devlint.source.devices import is_device_name
from devlint.source.trees import walk


def is_weak(reader: Reader, frame: Frame, need: Need, host: tuple[Value, Condition], other: Value) -> bool:
    """Whether what speaks for two operands that are apart is wrong more often than right in programs that somebody has run."""
    value, when = host
    if value.kind is BATCH and (value.step is None or other.place.sort == "input"):
        # Going by a name alone it is what a loader gives, or nobody says whether it meets an accelerator's.
        return True
    if _is_of_something(value) or _is_of_something(other):
        return True
    if _hangs_on_a_flag(reader, frame, need, when):
        return True
    in_plain_class = is_kept(value) and other.place.sort == "input" and _is_of_plain_class(frame)
    if in_plain_class and not (need.sense == "index" and _knows_of_devices(frame)):
        # What an object that is no module keeps on the host may be meant to stay there: it counts and adds up. So is what it looks
        # things up in, unless it knows of devices.
        return True
    if _is_kept_in_an_object(other):
        # It has its own places: modules don't move what their objects keep.
        return True
    around = frame.reader.class_around(frame)
    in_module = around is not None and around.is_module
    if other.place.sort == "input" and not in_module and says_nothing_of_devices(reader.project, frame.source):
        # That is about the host: of a dozen such findings in code that nobody here had seen, none was acted on.
        return True
    is_input = other.place.sort == "input" and other.kind is not MODULE and need.sense != "index"
    if is_input and not is_of_models(reader, frame.function, other.place):
        # In a function for the host, all is as it should be: somebody else has to say that it isn't.
        return True
    if reader.atoms.forgets(need.path):
        # Of a choice of many, with more tests than are kept, nobody knows what was moved on the way there.
        return True
    if other.place.off_host and not reader.atoms.implies(need.path, when):
        # What leaves the one on the host on some paths decides of the other as well, most likely.
        return True
    if other.place.off_host and len({source for source, _ in need.via}) > 1:
        # From file to file there is more that nobody has read than what was.
        return True
    cls = frame.reader.class_around(frame)
    # In a function, a part of something that holds more than tensors: where all that is, its makers know.
    return cls is None and other.place.sort == "input" and len(other.place.name) > 1 and not need.via


def _is_of_plain_class(frame: Frame) -> bool:
    cls = frame.reader.class_around(frame)
    return cls is not None and not cls.is_module and cls.method("forward") is None


def _knows_of_devices(frame: Frame) -> bool:
    """Whether a name in the class around is called what people call devices."""
    cls = frame.reader.class_around(frame)
    return cls is not None and any(isinstance(n, ast.Name) and is_device_name(n) for n in walk(cls.node))


def _is_kept_in_an_object(value: Value) -> bool:
    """`self.encoder.low`, of an object that is no module, for the places of modules are those of whatever has them."""
    name = value.place.name if value.place.sort == "input" else ()
    return len(name) > 2 and all(str(part).startswith(".") for part in name[1:])


def _is_of_something(value: Value) -> bool:
    """Whether a value is an attribute of what an unknown call gave: what an object of an unknown class keeps elsewhere, only that knows."""
    return value.path is not None and is_part_of_something_made(value.path)


def _hangs_on_a_flag(reader: Reader, frame: Frame, need: Need, when: Condition) -> bool:
    """Whether a need, or what is at its place, hangs on a flag that nobody turns."""
    return hangs_on_a_flag(reader, frame, need.path) or hangs_on_a_flag(reader, frame, when)


def is_weak_for_host(
    reader: Reader, frame: Frame, need: Need, there: tuple[Value, Condition], *, inside: bool, certain: bool
) -> bool:
    """Whether what speaks for something on an accelerator that is to be on the host is wrong more often than right."""
    value, when = there
    if not certain and _hangs_on_a_flag(reader, frame, need, when):
        return True
    if not value.place.is_open:
        return _is_given_by_anything(value)
    if inside or (hangs_on_words(frame, value) and not meets_own_parts(frame, value)):
        return True
    if _is_kept_by_a_part(value.place.name):
        return True
    return value.place.sort == "input" and not is_of_models(reader, frame.function, value.place)


def _is_given_by_anything(value: Value) -> bool:
    """Whether a value is a part of what an unknown call gave: on an object, what it is asked for; else nothing says that a model gave it."""
    path = value.path
    if path is None or len(path) < 2 or not str(path[0]).startswith("#"):
        return False
    return "computed" not in value.tags or is_part_of_something_made(path)


def is_part_of_something_made(path: tuple[object, ...]) -> bool:
    """Whether a path leads to an attribute of what an unknown call gave, which isn't one that tensors have."""
    match path:
        case (str() as root, str() as step, *_):
            return root.startswith("#") and step.startswith(".") and step[1:] not in OF_TENSORS
    return False


def _is_kept_by_a_part(path: tuple[object, ...]) -> bool:
    """Whether a path leads to what a part of an object keeps, and is no parameter by its name: `self.layers[0].inputs`, which it may keep on the host."""
    *parts, last = [step[1:] for step in path if isinstance(step, str) and step.startswith(".")] or [""]
    return bool(parts) and last not in OF_TENSORS | _PARAMETERS


_PARAMETERS = frozenset({"weight", "bias", "running_mean", "running_var"})


def is_kept(value: Value) -> bool:
    """Whether a tensor is a plain attribute, which stays where it was made."""
    return KEPT in value.tags or any(s.message.startswith("kept in") for s in steps_to(value.step))
