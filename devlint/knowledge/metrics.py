"""How often one update of a metric makes the host wait, by the options that it is made with, and where it works.

`metrics.json` is measured on the installed libraries by tools/metric_waits.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from devlint.knowledge.files import text_of
from devlint.records import record

# The packages that the tables are of. Metrics of the first are modules, and move as modules do.
PACKAGES = ("torchmetrics", "torcheval", "ignite", "monai")
# Classes that update the metrics they are given.
COLLECTIONS = frozenset({"MetricCollection", "ClasswiseWrapper", "MinMaxMetric", "MetricTracker"})
_PREFIXES = tuple(f"{package}." for package in PACKAGES)


# The value of an option that is given something, but not known what.
UNSETTLED: Final = object()


@record(frozen=True)
class Option:
    """One thing that decides how often a metric waits: a parameter, how it is called, or what the predictions are."""

    name: str
    # The values that were tried; the first is the default, where there is one.
    values: tuple[object, ...]
    has_default: bool
    # The parameter's place among the positional ones; None where it is no parameter.
    position: int | None

    def agreeing(self, given: Mapping[str, object]) -> frozenset[int]:
        """The places of the values that may be the one that is given."""
        everything = frozenset(range(len(self.values)))
        chosen = given.get(self.name, self.values[0] if self.has_default else UNSETTLED)
        if chosen is UNSETTLED:
            return everything
        same = [i for i, value in enumerate(self.values) if (value, type(value)) == (chosen, type(chosen))]
        # Whatever wasn't tried isn't the default.
        return frozenset(same) or (everything - {0} if self.has_default else everything)


@record(frozen=True)
class WaitTable:
    """The waits of a metric: a count for each choice of its options, in the order of `itertools.product`."""

    options: tuple[Option, ...]
    counts: tuple[int | None, ...]

    def waits(self, given: Mapping[str, object]) -> int:
        """The least number of times that the host waits in an update, for all that is known of the options.

        `given` has what is known to be given, `UNSETTLED` where the value isn't known; a parameter that is left out
        has its default.
        """
        agreeing = [option.agreeing(given) for option in self.options]
        rows = product(*(range(len(option.values)) for option in self.options))
        counts = [
            count
            for row, count in zip(rows, self.counts, strict=True)
            if count is not None and all(i in allowed for i, allowed in zip(row, agreeing, strict=True))
        ]
        return min(counts, default=0)


@cache
def wait_table(name: str) -> WaitTable | None:
    """The table of a metric by its qualified name (`torchmetrics.classification.Accuracy`); None where it never waits."""
    index = _tables()["metrics"].get(_short(name)) if name.startswith(_PREFIXES) else None
    if index is None:
        return None
    raw = _tables()["tables"][index]
    options = (Option(name, tuple(o["values"]), o["default"], o["position"]) for name, o in raw["options"].items())
    return WaitTable(tuple(options), tuple(raw["waits"]))


@cache
def needs_one_device(name: str) -> bool:
    """Whether a metric, while it is on the host, refuses inputs that are on an accelerator."""
    return name.startswith(_PREFIXES) and _short(name) in _tables()["one_device"]


@cache
def is_metric(name: str) -> bool:
    """Whether a name is that of a class of a metric of which anything is known, or of a collection of them."""
    last = name.rpartition(".")[2]
    return (
        name.startswith(_PREFIXES)
        and last[:1].isupper()
        and (last in COLLECTIONS or wait_table(name) is not None or needs_one_device(name))
    )


def _short(name: str) -> str:
    """The package and the class, wherever in the package that is imported from."""
    return f"{name.partition('.')[0]}.{name.rpartition('.')[2]}"


@cache
def _tables() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text_of("metrics.json"))
    return loaded
