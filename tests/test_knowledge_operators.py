"""What the linter knows of PyTorch's operators is what they do."""

from __future__ import annotations

import json
from importlib import resources

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from devlint.knowledge.operators import constructor, factory, module, names, operator  # noqa: E402
from devlint.runtime import virtual_cuda, watch_devices  # noqa: E402


def refuses(run) -> bool:
    try:
        run()
    except (RuntimeError, TypeError) as error:
        if not any(word in str(error) for word in ("device", "CPU", "cuda")):
            raise
        return True
    return False


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch):
    # torch.compile turns the checks of distributions off, for good, where some test before has used it.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    with virtual_cuda(1):
        yield


def matrix(device: str) -> torch.Tensor:
    return torch.ones(3, 3, device=device)


# (name, parameter): what is said of it, and a call that has that parameter's tensor on the host.
HOST_OPERANDS = {
    ("torch.add", "other"): lambda g, h: torch.add(g, h),
    ("torch.cat", "tensors"): lambda g, h: torch.cat([g, h]),
    ("torch.meshgrid", "tensors"): lambda g, h: torch.meshgrid(g[0], h[0], indexing="ij"),
    ("torch.Tensor.copy_", "other"): lambda g, h: g.copy_(h),
    ("torch.index_select", "index"): lambda g, h: torch.index_select(g, 0, h[0].long()),
    ("torch.Tensor.__getitem__", "indices"): lambda g, h: g[h[0].long()],
    ("torch.nn.functional.embedding", "input"): lambda g, h: F.embedding(h.long(), g),
    ("torch.nn.functional.cross_entropy", "weight"): lambda g, h: F.cross_entropy(g, g[0].long(), weight=h[0]),
    ("torch.nn.utils.rnn.pad_sequence", "sequences"): lambda g, h: nn.utils.rnn.pad_sequence([g, h]),
    ("torch.nn.utils.parameters_to_vector", "parameters"): lambda g, h: nn.utils.parameters_to_vector([g, h]),
    ("torch.searchsorted", "input"): lambda g, h: torch.searchsorted(g[0], h[0]),
    ("torch.distributions.Gamma.log_prob", "value"): lambda g, h: torch.distributions.Gamma(g, g).log_prob(h),
    ("torch.distributions.Normal.log_prob", "value"): lambda g, h: torch.distributions.Normal(g, g).log_prob(h),
}


@pytest.mark.parametrize(("name", "parameter"), HOST_OPERANDS)
def test_an_operand_on_the_host_is_refused_as_told(name, parameter):
    facts = operator(name)
    assert facts is not None
    refused = refuses(lambda: HOST_OPERANDS[name, parameter](matrix("cuda"), matrix("cpu")))
    assert refused == (parameter in facts.together)
    assert refused != (parameter in facts.anywhere | facts.host_ok)


@pytest.mark.parametrize("name", ["add", "where", "lerp", "maximum", "clamp", "stack", "cat", "mse_loss"])
def test_a_number_on_the_host_is_refused_as_told(name):
    number, x = torch.tensor(0.5), matrix("cuda")
    calls = {
        "where": lambda: torch.where(x > 0, x, number),
        "lerp": lambda: torch.lerp(x, x, number),
        "stack": lambda: torch.stack([x[0, 0], number]),
        "cat": lambda: torch.cat([x[0], number[None]]),
        "mse_loss": lambda: F.mse_loss(x, number),
    }
    facts = operator(f"torch.nn.functional.{name}" if name == "mse_loss" else f"torch.{name}")
    parameters = {
        "where": "other",
        "lerp": "weight",
        "stack": "tensors",
        "cat": "tensors",
        "mse_loss": "target",
        "clamp": "max",
    }
    refused = refuses(calls.get(name, lambda: getattr(torch, name)(x, number)))
    assert facts is not None
    assert refused == (parameters.get(name, "other") not in facts.zero_dim_ok)


# Calls of operands on the accelerator, by what is said of them.
WAITS = {
    "torch.nn.functional.gaussian_nll_loss": ("always", lambda x: F.gaussian_nll_loss(x, x, x)),
    "torch.nonzero": ("always", torch.nonzero),
    "torch.unique": ("always", torch.unique),
    "torch.argmax": ("never", torch.argmax),
    "torch.topk": ("never", lambda x: torch.topk(x, 1)),
    "torch.linalg.inv_ex": ("never", torch.linalg.inv_ex),
    "torch.nn.functional.one_hot": ("sometimes", lambda x: F.one_hot(x.long())),
    "torch.where": ("sometimes", lambda x: torch.where(x)),
    "torch.distributions.Normal": ("sometimes", lambda x: torch.distributions.Normal(x, x)),
}


@pytest.mark.parametrize("name", WAITS)
def test_the_host_waits_as_told(name):
    told, call = WAITS[name]
    x = matrix("cuda")
    with watch_devices() as watched:
        call(x)
    facts = operator(name)
    assert facts is not None
    assert facts.waits == told
    assert (watched.report().sync_count > 0) == (told != "never")


def test_what_is_given_takes_waits_back():
    x = matrix("cuda")
    for name, call in {
        "torch.nn.functional.one_hot": lambda: F.one_hot(x.long(), num_classes=2),
        "torch.where": lambda: torch.where(x > 0, x, x),
        "torch.distributions.Normal": lambda: torch.distributions.Normal(x, x, validate_args=False),
    }.items():
        with watch_devices() as watched:
            call()
        assert watched.report().sync_count == 0
        facts = operator(name)
        assert facts is not None
        assert facts.waits_unless


def test_values_read_in_cpp_are_told():
    # Virtual CUDA can't see these; the same code runs on the host, where the profiler does.
    def reads(run) -> bool:
        with torch.autograd.profiler.profile(use_kineto=False) as profiled:
            run()
        return any(event.name == "aten::_local_scalar_dense" for event in profiled.function_events)

    x = torch.rand(3)
    for name, run in {
        "torch.normal": lambda: torch.normal(x, x),
        "torch.masked_fill": lambda: torch.masked_fill(x, x > 0, torch.tensor(1.0)),
        "torch.distributions.Normal.sample": torch.distributions.Normal(x, x).sample,
        "torch.svd": lambda: torch.svd(torch.rand(3, 3)),
    }.items():
        facts = operator(name)
        assert facts is not None
        assert facts.waits != "never"
        assert reads(run), name
    plain = operator("torch.distributions.Normal.rsample")
    assert plain is not None
    assert plain.waits == "never"
    assert not reads(torch.distributions.Normal(x, x).rsample)


def test_lengths_of_packed_sequences_are_on_the_host():
    facts = operator("torch.nn.utils.rnn.pack_padded_sequence")
    assert facts is not None
    assert facts.host_only == {"lengths"}
    x, lengths = matrix("cuda")[None], torch.tensor([3])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    assert refuses(lambda: nn.utils.rnn.pack_padded_sequence(x, lengths.cuda(), batch_first=True))
    assert [t.device.type for t in packed[:2]] == ["cuda", "cpu"]
    assert facts.part_places[:2] == ("together", "host")


def test_gradients_are_with_what_they_are_of():
    w = torch.ones(3, device="cuda", requires_grad=True)
    assert torch.autograd.grad((w * w).sum(), w)[0].is_cuda
    assert refuses(lambda: torch.autograd.grad(w * w, w, torch.ones(3)))
    facts = operator("torch.autograd.grad")
    assert facts is not None
    assert (facts.result, facts.together) == ("inputs", {"outputs", "grad_outputs"})


def test_parameters_by_position_and_by_name():
    facts = operator("torch.max")
    assert facts is not None
    assert set(facts.params.at(1)) == {"dim", "other"}
    assert facts.params.position_of("keepdim") == 2
    assert facts.params.at(7) == ()
    assert "dim" in facts.tuple_with
    assert facts.part_dtypes == ("float", "int")
    grid = operator("torch.meshgrid")
    assert grid is not None
    assert grid.params.at(5) == ("tensors",)
    assert grid.params.keywords == {"indexing"}


@pytest.mark.parametrize(
    ("name", "made", "parameters"),
    [
        ("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(), False),
        ("ReLU", lambda: nn.ReLU(), False),
        ("Linear", lambda: nn.Linear(3, 3), True),
        ("LayerNorm", lambda: nn.LayerNorm(3), True),
        ("InstanceNorm1d", lambda: nn.InstanceNorm1d(3), False),
        ("GRUCell", lambda: nn.GRUCell(3, 3), True),
    ],
)
def test_a_module_computes_where_told(name, made, parameters):
    facts = module(f"torch.nn.{name}")
    assert facts is not None
    assert facts.computes_where == ("parameters" if parameters else "inputs")
    given = (matrix("cpu"), torch.tensor([0, 1, 2])) if name.endswith("Loss") else (matrix("cpu"),)
    assert refuses(lambda: made().cuda()(*given)) == parameters


def test_what_makes_a_module_hold_tensors():
    facts = module("torch.nn.CrossEntropyLoss")
    assert facts is not None
    assert facts.holding == {"weight"}
    loss = nn.CrossEntropyLoss(weight=torch.ones(3)).cuda()
    assert refuses(lambda: loss(matrix("cpu"), torch.tensor([0, 1, 2])))
    norm = module("torch.nn.BatchNorm2d")
    assert norm is not None
    bare = nn.BatchNorm2d(3, **dict.fromkeys(norm.unheld_by, False)).cuda()
    assert bare(torch.ones(1, 3, 2, 2)).device.type == "cpu"


def test_a_hidden_state_goes_with_the_input():
    facts = module("torch.nn.LSTM")
    assert facts is not None
    assert facts.together == {"input", "hx"}
    lstm = nn.LSTM(3, 3).cuda()
    state = torch.zeros(1, 3), torch.zeros(1, 3)
    assert refuses(lambda: lstm(matrix("cuda"), state))


def test_places_of_legacy_types():
    for name, kind in {"torch.FloatTensor": torch.FloatTensor, "torch.cuda.LongTensor": torch.cuda.LongTensor}.items():
        facts = constructor(name)
        assert facts is not None
        place = kind(2).device.type.replace("cpu", "host")
        assert facts.place == facts.type_place == place


def test_sizes_and_places_of_factories():
    told = {
        name: (facts.place, facts.takes_device, facts.at_least_1)
        for name in ("zeros", "arange", "zeros_like", "from_numpy")
        if (facts := factory(f"torch.{name}")) is not None
    }
    assert told == {
        "zeros": ("default", True, False),
        "arange": ("default", True, True),
        "zeros_like": ("like", True, False),
        "from_numpy": ("host", False, False),
    }
    with torch.device("cuda"):
        assert torch.zeros(()).is_cuda
        assert torch.arange(3).is_cuda


@pytest.mark.parametrize("table", ["operators", "modules", "factories", "constructors"])
def test_every_entry_can_be_read_and_holds_only_what_the_record_has(table):
    read = {"operators": operator, "modules": module, "factories": factory, "constructors": constructor}[table]
    raw = json.loads(resources.files("devlint.knowledge").joinpath("operators.json").read_text())[table]
    assert names(table) == raw.keys()
    for name, entry in raw.items():
        facts = read(name)
        assert facts is not None
        assert set(entry) <= set(type(facts).__dataclass_fields__), name


def test_an_unknown_name_has_no_facts():
    assert operator("torch.nothing") is None
    assert module("torch.nn.Nothing") is None
