"""What runs in the replicas of a DataParallel, and what of it is bound to one device.

Each replica runs `forward` on a GPU of its own, with parameters and inputs there. A device with a number, written into
`forward` or kept as an attribute, is the same one in all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.placement.devices import place_of_device
from devlint.placement.values import UNKNOWN, Value
from devlint.signatures.state.objects import class_of
from devlint.source.kinds import Kind

if TYPE_CHECKING:
    from devlint.placement.readings import Readings, Wrapping
    from devlint.signatures.state.classes import ClassInfo
    from devlint.source.modules import FunctionModel
    from devlint.source.project import Project

DATA_PARALLEL = "torch.nn.DataParallel"


class Pinned(NamedTuple):
    """A call that names one device, and the wrapper in whose replicas it runs."""

    call: ast.Call
    argument: ast.expr
    device: str
    function: FunctionModel
    wrapper: Value


def pinned_calls(readings: Readings, project: Project) -> dict[ast.Call, Pinned]:
    """Call -> what pins it: calls of this file in replicas, and wraps of classes whose pinned calls are elsewhere."""
    found: dict[ast.Call, Pinned] = {}
    # A caller in another file has its own view of what it wraps.
    callers = {str(path) for path in project.importers_of(readings.source.file)}
    seen: set[tuple[object, str]] = set()
    for wrapping in readings.wrappings:
        option = wrapping.wrapper
        key = (option.inner.cls if option.inner is not None else None, option.site)
        if not _has_replicas(option) or key in seen:
            continue
        seen.add(key)
        for function, call, argument, device in _named_in_replicas(readings, wrapping):
            pinned = Pinned(call, argument, device, function, option)
            if function.source is readings.source:
                found.setdefault(call, pinned)
            elif function.source.path not in callers:
                found.setdefault(wrapping.node, pinned)
    return found


def _named_in_replicas(
    readings: Readings, wrapping: Wrapping
) -> Iterator[tuple[FunctionModel, ast.Call, ast.expr, str]]:
    """(function, call, device argument, device) of what the replicas of a wrapper run."""
    for module in readings.modules_in(wrapping):
        cls = class_of(module)
        for function in _methods_run(cls) if cls is not None else ():
            calls = [n for n in function.nodes if isinstance(n, ast.Call) and _device_argument(n) is not None]
            values = readings.supposing(function, module, wrapping.things) if calls else None
            for call in calls:
                argument = _device_argument(call)
                if argument is None or _is_of_local(argument, function):
                    continue
                told = values.value(argument) if values is not None else None
                device = numbered_device(told or UNKNOWN, argument)
                if device is not None:
                    yield function, call, argument, device


def _is_of_local(argument: ast.expr, function: FunctionModel) -> bool:
    """Whether a device is that of something that a replica has made, or was given: where that is pinned, it is told there."""
    match argument:
        case ast.Attribute(value=ast.Name(id=name), attr="device"):
            return name in function.local_names and name not in [a.arg for a in function.parameters[:1]]
    return False


def _methods_run(cls: ClassInfo) -> list[FunctionModel]:
    """`forward` and the methods of the same object that it calls."""
    found: dict[FunctionModel, None] = {}
    waiting = [cls.method("forward")]
    while waiting:
        function = waiting.pop()
        if function is not None and function not in found:
            found[function] = None
            for node in function.nodes:
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        waiting.append(cls.method(name))
    return list(found)


def _has_replicas(value: Value) -> bool:
    if value.kind is not Kind.WRAPPER or value.name != DATA_PARALLEL or value.cls is not None or not value.elements:
        return False
    ids = value.elements[0]
    return ids.elements is None or len(ids.elements) > 1


def _device_argument(call: ast.Call) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == "device":
            return keyword.value
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda") and call.args:
        return call.args[0]
    return None


def numbered_device(value: Value, node: ast.expr) -> str | None:
    """`cuda:0` where a value is that device if there are any; None for devices without a number."""
    options = [option for _, option in value.alternatives()]
    if any(option.kind not in (Kind.DEVICE, Kind.CONSTANT) for option in options):
        # A number among other things, as in `*sizes, device = *x.shape, x.device`, isn't a device's.
        return None
    for option in options:
        found = place_of_device(option, node)
        if option.kind is Kind.DEVICE and isinstance(option.constant, str):
            return option.constant
        if found is not None and found[0].off_host and ":" in found[0].name:
            return found[0].name
    return None
