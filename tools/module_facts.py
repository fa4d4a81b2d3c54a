"""What the modules of torch.nn demand of their inputs' devices, found by trying.

The calls are those of PyTorch's module database (`module_db`), and of a few classes that it lacks. A module is called
with its own tensors as one more parameter, so that they can be left on the host, or be alone on the accelerator.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from operator_samples import module_database
from operator_trials import STATE, Call
from torch import nn

SAMPLES = 8
# What constructors take that makes a module hold tensors, and what they take it for.
HOLDING: dict[str, Any] = {"weight": torch.ones(3), "pos_weight": torch.ones(3), "affine": True}
HOLDING["track_running_stats"] = True
# The same, given by default: without all of them it holds none.
DEFAULTS = ("affine", "track_running_stats", "elementwise_affine")
# Constructors that take `*args`.
RECURRENT = "input_size hidden_size num_layers bias batch_first dropout bidirectional"
MADE_WITH = {"torch.nn.RNN": RECURRENT.replace("bias", "nonlinearity bias")}
MADE_WITH |= {"torch.nn.LSTM": f"{RECURRENT} proj_size", "torch.nn.GRU": RECURRENT}
# Classes that the database lacks: (arguments of the constructor, inputs), in words of `_words`.
OWN: dict[str, tuple[str, str]] = {
    "AdaptiveLogSoftmaxWithLoss": ("4, 6, [2]", "x, i"),
    "AlphaDropout": ("", "x"),
    "BCELoss": ("", "u, u"),
    "ChannelShuffle": ("2", "image"),
    "CosineSimilarity": ("", "x, x"),
    "CrossEntropyLoss": ("", "x, i"),
    "Dropout": ("", "x"),
    "Dropout1d": ("", "x"),
    "Dropout2d": ("", "image"),
    "Dropout3d": ("", "image"),
    "FeatureAlphaDropout": ("", "image"),
    "Flatten": ("", "image"),
    "Fold": ("(4, 4), 2", "torch.ones(1, 8, 9)"),
    "FractionalMaxPool2d": ("2, output_size=2", "image"),
    "Identity": ("", "x"),
    "NLLLoss2d": ("", "image, torch.zeros(1, 4, 4, dtype=torch.int64)"),
    "PairwiseDistance": ("", "x, x"),
    "PixelShuffle": ("2", "torch.ones(1, 4, 2, 2)"),
    "PixelUnshuffle": ("2", "image"),
    "RReLU": ("", "x"),
    "Softmax2d": ("", "image"),
    "TripletMarginWithDistanceLoss": ("", "x, x, x"),
    "EmbeddingBag": ("5, 3", "i, torch.tensor([0])"),
    "FractionalMaxPool3d": ("2, output_size=1", "volume"),
    "Hardsigmoid": ("", "x"),
    "MaxUnpool1d": ("2", "torch.ones(1, 2, 2), torch.tensor([[[0, 2], [0, 2]]])"),
    "MaxUnpool2d": ("2", "torch.ones(1, 1, 1, 1), torch.tensor([[[[0]]]])"),
    "MaxUnpool3d": ("2", "torch.ones(1, 1, 1, 1, 1), torch.tensor([[[[[0]]]]])"),
    "Transformer": ("4, 2, 1, 1, 8", "x3, x3, mask, mask, mask"),
    "TransformerDecoder": ("nn.TransformerDecoderLayer(4, 2, 8), 1", "x3, x3, mask, mask"),
    "TransformerDecoderLayer": ("4, 2, 8", "x3, x3, mask, mask"),
    "TransformerEncoder": ("nn.TransformerEncoderLayer(4, 2, 8), 1", "x3, mask"),
    "TransformerEncoderLayer": ("4, 2, 8", "x3, mask"),
    "TripletMarginLoss": ("", "x, x, x"),
    "Unflatten": ("1, (2, 2)", "x"),
    "Unfold": ("2", "image"),
    "Upsample": ("scale_factor=2.0", "image"),
    "UpsamplingBilinear2d": ("scale_factor=2", "image"),
    "UpsamplingNearest2d": ("scale_factor=2", "image"),
}
# Classes that can't be called by `functional_call`, or not on the host: like others, but that they have parameters.
ALIKE = {f"Lazy{name}": name for name in ("Linear", *(f"BatchNorm{i}d" for i in (1, 2, 3)))}
ALIKE |= {f"Lazy{name}{i}d": f"{name}{i}d" for name in ("Conv", "ConvTranspose", "InstanceNorm") for i in (1, 2, 3)}
ALIKE["SyncBatchNorm"] = "BatchNorm2d"
# See operator_mends.py for the same of the function.
MENDED: dict[str, dict[str, Any]] = {
    "torch.nn.CTCLoss": {"together": [], "sometimes": [], "anywhere": ["targets", "input_lengths", "target_lengths"],
                         "waits": "sometimes", "waits_for": ["input_lengths", "target_lengths"]},
    **{f"torch.nn.InstanceNorm{i}d": {"computes_where": ""} for i in (1, 2, 3)},
    # With `momentum=None` it reads how many batches it has seen.
    **{f"torch.nn.{lazy}BatchNorm{i}d": {"waits": ""} for i in (1, 2, 3) for lazy in ("", "Lazy")},
    "torch.nn.SyncBatchNorm": {"waits": ""},
    # `_detect_is_causal_mask` compares the mask with a causal one, unless it is told.
    "torch.nn.Transformer": {"waits_with": [], "waits_for": ["src_mask", "tgt_mask"]},
    "torch.nn.TransformerEncoder": {"waits_with": [], "waits_for": ["mask"], "waits_unless": ["is_causal"]},
    "torch.nn.TransformerDecoder": {"waits": "sometimes", "waits_for": ["tgt_mask"], "waits_unless": ["tgt_is_causal"]},
}  # fmt: skip


def module_calls() -> Iterator[Call]:
    """The calls of all classes, by their qualified names."""
    for info in module_database():
        yield from islice(_of_database(info), SAMPLES)
    torch.manual_seed(0)
    for name, (made, given) in OWN.items():
        args, kwargs = _evaluated(made)
        inputs, named = _evaluated(given)
        module = getattr(nn, name)(*args, **kwargs)
        yield _call(f"torch.nn.{name}", module, inputs, named)


def _of_database(info: Any) -> Iterator[Call]:
    name = f"torch.nn.{info.module_cls.__name__}"
    if getattr(nn, info.module_cls.__name__, None) is not info.module_cls:
        return
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
        for sample in found:
            made, given = sample.constructor_input, sample.forward_input
            if given is None or any(isinstance(v, torch.Tensor) for v in (*made.args, *made.kwargs.values())):
                # With tensors of its own: see `holding`.
                continue
            module = info.module_cls(*made.args, **made.kwargs)
            yield _call(name, module, given.args, given.kwargs)


def _call(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    names = list(inspect.signature(module.forward).parameters)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def run(*given: Any, **named: Any) -> Any:
        *inputs, own = given
        return torch.func.functional_call(module, own, tuple(inputs), named)

    return Call(name, run, (*args, state), kwargs, (*names[: len(args)], STATE))


def forward_parameters(name: str) -> str:
    """The parameters of `forward`, without `self`."""
    forward = inspect.signature(getattr(nn, name.rsplit(".", 1)[1]).forward)
    return " ".join(n for n in list(forward.parameters)[1:])


def construction(name: str) -> dict[str, Any]:
    """What a class's objects hold: its constructor's parameters, and which of them decide that."""
    cls = getattr(nn, name.rsplit(".", 1)[1])
    parameters = inspect.signature(cls).parameters
    text = MADE_WITH.get(name, " ".join(n for n in parameters if n not in ("args", "kwargs")))
    made = next((m for sizes in SIZES if (m := _made(cls, sizes, {})) is not None), None)
    facts: dict[str, Any] = {"made_with": text}
    if made is None:
        return facts
    facts |= {"has_parameters": any(True for _ in made.parameters()), "has_buffers": any(True for _ in made.buffers())}
    sizes = next(s for s in SIZES if _made(cls, s, {}) is not None)
    chosen = [p for p in DEFAULTS if p in parameters and parameters[p].default is True]
    if made.state_dict() and chosen:
        bare = _made(cls, sizes, dict.fromkeys(chosen, False))
        facts["unheld_by"] = chosen if bare is not None and not bare.state_dict() else []
    elif not made.state_dict():
        options = [p for p in HOLDING if p in parameters]
        made_so = {p: _made(cls, sizes, {p: HOLDING[p]}) for p in options}
        facts["holding"] = [p for p, m in made_so.items() if m is not None and len(m.state_dict())]
    return facts


# Arguments that some constructor takes.
SIZES = ((), (1,), (2, 2), (2, 2, 2), (4, 2, 2, 2), (4, 6, [2]), (1, (1, 1)))


def _made(cls: type[nn.Module], sizes: tuple[Any, ...], options: dict[str, Any]) -> nn.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cls(*sizes, **options)
        except (TypeError, ValueError, AssertionError):
            return None


def _evaluated(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    words = {"torch": torch, "x": torch.randn(2, 4), "u": torch.rand(2, 4), "i": torch.tensor([1, 2])}
    words |= {"image": torch.ones(1, 2, 4, 4), "volume": torch.ones(1, 2, 4, 4, 4), "nn": nn}
    words |= {"x3": torch.randn(3, 2, 4), "mask": torch.zeros(3, 3)}
    args, kwargs = eval(f"(lambda *a, **k: (a, k))({text})", words)
    return args, kwargs
