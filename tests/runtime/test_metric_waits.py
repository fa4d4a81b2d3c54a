"""What the linter knows of metrics is what they do."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

from devlint.knowledge.metrics import UNSETTLED, needs_one_device, wait_table  # noqa: E402
from devlint.runtime import virtual_cuda, watch_devices  # noqa: E402

SCORES = torch.linspace(0.1, 0.9, 24).reshape(8, 3)
CLASSES = torch.arange(8) % 3
INPUTS = {"scores": (SCORES, CLASSES), "labels": (CLASSES, CLASSES), "values": (SCORES,)}


@pytest.mark.parametrize(
    ("name", "options", "inputs"),
    [
        ("Accuracy", {"task": "multiclass"}, "scores"),
        ("Accuracy", {"task": "multiclass"}, "labels"),
        ("Accuracy", {"task": "multiclass", "validate_args": False}, "labels"),
        ("Accuracy", {"task": "multiclass", "average": "macro"}, "scores"),
        ("F1Score", {"task": "multiclass", "average": "weighted", "top_k": 2}, "scores"),
        ("ConfusionMatrix", {"task": "multiclass"}, "labels"),
        ("MeanMetric", {}, "values"),
        ("MeanMetric", {"nan_strategy": "disable"}, "values"),
    ],
)
@pytest.mark.parametrize("how", ["update", "call"])
def test_a_metric_waits_as_the_table_says(name, options, inputs, how):
    made = getattr(torchmetrics, name)(**options, **({"num_classes": 3} if "task" in options else {}))
    with virtual_cuda(1):
        metric = made.to("cuda")
        given = [tensor.cuda() for tensor in INPUTS[inputs]]
        update = metric.update if how == "update" else metric
        update(*given)
        with watch_devices() as watched:
            update(*given)
    table = wait_table(f"torchmetrics.{name}")
    assert table is not None
    assert table.waits(options | {"how": how, "predictions": inputs}) == watched.report().sync_count


def test_what_is_not_known_counts_as_the_least():
    table = wait_table("torchmetrics.classification.Accuracy")
    assert table is not None
    known = {"how": "update", "task": "multiclass", "average": "macro"}
    assert table.waits(known) == min(table.waits(known | {"predictions": form}) for form in ("scores", "labels"))
    assert table.waits(known | {"validate_args": UNSETTLED}) == table.waits(known | {"validate_args": False})
    assert table.waits({"how": "update"}) == 0


def test_metrics_that_never_wait_have_no_table():
    assert wait_table("torchmetrics.MeanSquaredError") is None
    assert wait_table("sklearn.metrics.Accuracy") is None


@pytest.mark.parametrize("name", ["Accuracy", "MeanSquaredError", "MeanMetric", "CatMetric", "AUROC"])
def test_a_metric_on_the_host_refuses_what_the_table_says(name):
    options = {"task": "multiclass", "num_classes": 3} if name in ("Accuracy", "AUROC") else {}
    given = {"MeanSquaredError": (SCORES, SCORES)}.get(name, INPUTS["scores" if options else "values"])
    metric = getattr(torchmetrics, name)(**options)
    with virtual_cuda(1):
        tensors = [tensor.cuda() for tensor in given]
        if needs_one_device(f"torchmetrics.{name}"):
            with pytest.raises(RuntimeError, match="different devices"):
                metric.update(*tensors)
        else:
            metric.update(*tensors)
