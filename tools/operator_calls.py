"""Calls to try of functions that PyTorch's operator database lacks, or of which it has too few samples.

Each entry is a function's or method's qualified name and Python expressions, one for each call's arguments, in the
words below: `x` and `y` are matrices, `v` a vector, `i` indices, `m` a mask, `n` a number without dimensions.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from operator_signatures import lookup
from operator_trials import Call, Prepared, counted
from torch import nn
from torch.nn.utils import rnn

INITIALIZERS = (
    "eye", "kaiming_normal", "kaiming_uniform", "normal", "ones", "orthogonal", "trunc_normal", "uniform",
    "xavier_normal", "xavier_uniform", "zeros",
)  # fmt: skip
# Methods that take nothing else.
METHODS_OF_ONE = (
    "ndimension", "nelement", "stride", "data_ptr", "get_device", "element_size", "is_complex", "is_signed", "slogdet",
    "random_", "storage_offset", "untyped_storage",
)  # fmt: skip
CALLS: dict[str, tuple[str, ...]] = {
    # Copies and conversions.
    "torch.Tensor.copy_": ("x, y", "x, n"),
    "torch.Tensor.type_as": ("x, y", "i, x"),
    "torch.Tensor.to": ("x, torch.float64", "x, y"),
    "torch.Tensor.cpu": ("x",),
    "torch.Tensor.cuda": ("x",),
    "torch.Tensor.item": ("n", "v[:1]"),
    "torch.Tensor.tolist": ("x", "n"),
    "torch.Tensor.detach": ("x", "n"),
    "torch.Tensor.detach_": ("x",),
    "torch.Tensor.requires_grad_": ("x",),
    "torch.Tensor.size": ("x", "x, 0"),
    "torch.Tensor.dim": ("x",),
    "torch.Tensor.numel": ("x",),
    "torch.Tensor.is_contiguous": ("x",),
    "torch.Tensor.is_floating_point": ("x",),
    "torch.Tensor.type": ("x, torch.float64",),
    "torch.is_tensor": ("x",),
    "torch.numel": ("x",),
    "torch.is_floating_point": ("x",),
    "torch.is_nonzero": ("n",),
    "torch.Tensor.is_nonzero": ("n",),
    "torch.Tensor.__bool__": ("n",),
    "torch.Tensor.__float__": ("n",),
    "torch.Tensor.__int__": ("n",),
    "torch.Tensor.__index__": ("i[0]",),
    "torch.Tensor.__len__": ("x",),
    "torch.Tensor.__contains__": ("x, 1.0", "x, n"),
    "torch.Tensor.__setitem__": ("x, 0, v[:3]", "x, i, y[i]", "x, m, n", "x, m, y[m]", "x, 0, 1.0"),
    "torch.Tensor.__getitem__": ("x, i", "x, m", "x, 0", "x, (i, i)", "v, 0", "x, (slice(None), i)", "x, (0, i)"),
    "torch.Tensor.view": ("x, -1", "x, (3, 3, 1)"),
    "torch.Tensor.set_": ("x, y",),
    "torch.Tensor.fill_": ("x, 1.0", "x, n"),
    "torch.Tensor.masked_fill": ("x, m, 1.0", "x, m, n"),
    "torch.Tensor.masked_fill_": ("x, m, 1.0", "x, m, n"),
    "torch.masked_fill": ("x, m, 1.0", "x, m, n"),
    "torch.Tensor.index_copy_": ("x, 0, i, y[:2]", "v, 0, i, v[:2]", "n, 0, i[:1], v[:1]"),
    "torch.Tensor.index_fill_": ("x, 0, i, 1.0", "x, 0, i, n"),
    "torch.Tensor.masked_scatter_": ("x, m, y",),
    "torch.Tensor.scatter_add_": ("x, 0, p, y",),
    **dict.fromkeys((f"torch.Tensor.{name}" for name in METHODS_OF_ONE), ("x",)),
    **{f"torch.Tensor.{name}": ("x.to_sparse().coalesce()",) for name in ("coalesce", "indices", "values")},
    "torch.Tensor.fill_diagonal_": ("x, 1.0",),
    "torch.Tensor.is_same_size": ("x, y",),
    "torch.dropout": ("x, 0.5, True",),
    "torch.embedding": ("x, i",),
    "torch.max_pool2d": ("image, 2",),
    "torch.kl_div": ("x, y",),
    "torch.slogdet": ("x",),
    "torch.is_complex": ("x",),
    **dict.fromkeys((f"torch.nn.init.{n}_" for n in INITIALIZERS), ("x",)),
    "torch.nn.init.constant_": ("x, 1.0",),
    "torch.nn.init.sparse_": ("x, 0.5",),
    "torch.nn.functional.dropout1d": ("x",),
    "torch.nn.functional.upsample": ("image, scale_factor=2",),
    "torch.nn.functional.lp_pool1d": ("x, 2.0, 2",),
    "torch.nn.functional.lp_pool2d": ("image, 2.0, 2",),
    "torch.Tensor.clone": ("x", "n"),
    "torch.Tensor.norm": ("x", "x, 2", "x, 2, dim=1"),
    "torch.clone": ("x", "n"),
    "torch.detach": ("x",),
    # Parts and shapes.
    "torch.meshgrid": ("v, v", "v, v, indexing='ij'", "[v, v]"),
    "torch.cartesian_prod": ("v, v", "v"),
    "torch.block_diag": ("x, y", "v, n"),
    "torch.vander": ("v", "v, 2"),
    "torch.broadcast_tensors": ("x, v[:3]", "x, n"),
    "torch.einsum": ("'ij,jk->ik', x, y", "'ij,ij->', x, y"),
    "torch.linalg.multi_dot": ("[x, y]", "[x, y, x]"),
    "torch.tensordot": ("x, y, 1", "x, y, 2"),
    "torch.cdist": ("x, y", "x, y, 1.0"),
    "torch.unique": ("i", "x, True, True", "x, return_counts=True", "x, dim=0"),
    "torch.Tensor.unique": ("i", "x, True, True", "x, return_counts=True", "x, dim=0"),
    "torch.unique_consecutive": ("i", "x, return_counts=True"),
    "torch.where": ("m, x, y", "m", "m, x, 1.0", "m, n, x", "m, 1.0, y"),
    "torch.nonzero": ("m", "m, as_tuple=True"),
    "torch.Tensor.nonzero": ("m", "m, as_tuple=True"),
    "torch.repeat_interleave": ("x, 2", "x, 2, 0", "v[:2], i", "v[:2], i, output_size=2", "i"),
    "torch.Tensor.repeat_interleave": ("x, 2", "x, 2, 0", "v[:2], i", "v[:2], i, output_size=2"),
    "torch.searchsorted": ("v, v", "v, 1.0", "v, n", "torch.stack([v, v]), torch.stack([v, v])"),
    "torch.bucketize": ("v, v", "x, v", "n, v", "1.0, v"),
    "torch.histc": ("v", "v, 4, 0, 1"),
    "torch.bincount": ("i", "i, v[:2]", "i, minlength=4"),
    "torch.lerp": ("x, y, 0.5", "x, y, y", "x, y, n"),
    "torch.addcmul": ("x, x, y", "x, x, y, value=0.5"),
    "torch.addcdiv": ("x, x, y",),
    "torch.gather": ("x, 0, p", "n, 0, i[0]"),
    "torch.take": ("x, i", "x, i[0]"),
    "torch.index_select": ("x, 0, i", "v, 0, i[0]"),
    "torch.isin": ("i, i", "i, 1", "1, i"),
    "torch.is_same_size": ("x, y",),
    "torch.equal": ("x, y",),
    "torch.allclose": ("x, y",),
    "torch.result_type": ("x, y", "x, 1"),
    "torch.std_mean": ("x",),
    "torch.as_tensor": ("x", "[1.0, 2.0]", "array"),
    "torch.asarray": ("x", "[1.0]", "array"),
    "torch.tensor": ("x", "[1.0, 2.0]", "array", "1.0"),
    "torch.from_numpy": ("array",),
    "torch.sparse_coo_tensor": ("torch.stack([i, i]), v[:2]", "torch.stack([i, i]), v[:2], (3, 3)"),
    "torch.sparse_csr_tensor": ("torch.tensor([0, 1, 2, 2]), i, v[:2], (3, 3)",),
    "torch.sparse.mm": ("x.to_sparse(), y",),
    "torch.complex": ("x, y",),
    "torch.Tensor.to_sparse": ("x",),
    "torch.Tensor.to_dense": ("x.to_sparse()",),
    # Functions of torch.nn.functional.
    "torch.nn.functional.one_hot": ("i", "i, 4", "i[0], 4"),
    "torch.nn.functional.grid_sample": ("image, grid, align_corners=False",),
    "torch.nn.functional.affine_grid": ("theta, (1, 2, 4, 4), align_corners=False",),
    "torch.nn.functional.interpolate": ("image, scale_factor=2.0", "image, (2, 2)"),
    "torch.nn.functional.embedding": ("i, x", "i[0], x"),
    "torch.nn.functional.embedding_bag": ("i, x, torch.tensor([0])",),
    "torch.nn.functional.cross_entropy": ("x, t", "x, t, v[:3]", "v[:3], t[0]", "x, x.softmax(1), reduction='none'"),
    "torch.nn.functional.nll_loss": ("x, t", "x, t, v[:3]", "v[:3], t[0]", "x, t, reduction='none'"),
    "torch.nn.functional.binary_cross_entropy": ("u, u", "u, u, u", "u, u, reduction='none'"),
    "torch.nn.functional.binary_cross_entropy_with_logits": ("x, u", "x, u, pos_weight=u", "x, u, weight=u"),
    "torch.nn.functional.triplet_margin_loss": ("x, y, u",),
    "torch.nn.functional.cosine_embedding_loss": ("x, y, torch.ones(3)",),
    "torch.nn.functional.gumbel_softmax": ("x", "x, hard=True"),
    "torch.nn.functional.unfold": ("image, 2",),
    "torch.nn.functional.fold": ("torch.ones(1, 8, 9), (4, 4), 2",),
    # Random numbers.
    "torch.get_rng_state": ("",),
    "torch.cuda.get_rng_state": ("",),
    "torch.Generator": ("", "'cpu'"),
    "torch.manual_seed": ("0",),
    "torch.seed": ("",),
    "torch.initial_seed": ("",),
    "torch.bernoulli": ("u", "x, 0.5"),
    "torch.poisson": ("u",),
    "torch.binomial": ("u, u",),
    "torch.multinomial": ("u, 2", "u, 2, True", "u[0], 1"),
    "torch.normal": ("x, u", "x, 1.0", "0.0, u"),
    "torch.rand_like": ("x", "n"),
    "torch.random.get_rng_state": ("",),
    # Gradients and their helpers.
    "torch.autograd.Variable": ("x", "n"),
    "torch.nn.Parameter": ("x", "n"),
    "torch.nn.Buffer": ("x",),
    "torch.nn.utils.parameters_to_vector": ("[x, y]",),
    "torch.nn.utils.vector_to_parameters": ("torch.ones(9), [x]",),
    "torch.nn.utils.clip_grad_norm_": ("[learned(x), learned(y)], 1.0", "learned(x), 1.0"),
    "torch.nn.utils.clip_grad_value_": ("[learned(x)], 1.0",),
    "torch.nn.utils.get_total_norm": ("[x, y]",),
    "torch.nn.utils.rnn.pad_sequence": ("[v, v[:2]]", "[x, y], batch_first=True"),
    "torch.nn.utils.rnn.pack_sequence": ("[v, v[:2]]",),
    "torch.nn.utils.rnn.pack_padded_sequence": ("image[0], torch.tensor([4, 2, 1, 1]), True", "image[0], [4, 2], True"),
    "torch.nn.utils.rnn.unpad_sequence": ("x, torch.tensor([3, 2, 1]), True",),
}
# Classes of torch.distributions: their arguments, and a value.
DISTRIBUTIONS: dict[str, tuple[str, str]] = {
    "Bernoulli": ("u", "u.round()"),
    "Beta": ("u, u", "u"),
    "Binomial": ("4, u", "u.round()"),
    "Categorical": ("u", "torch.tensor([0, 1, 1])"),
    "Cauchy": ("x, u", "x"),
    "Chi2": ("u", "u"),
    "ContinuousBernoulli": ("u", "u"),
    "Dirichlet": ("u", "u.softmax(1)"),
    "Exponential": ("u", "u"),
    "FisherSnedecor": ("u, u", "u"),
    "Gamma": ("u, u", "u"),
    "Geometric": ("u", "u.round()"),
    "Gumbel": ("x, u", "x"),
    "HalfCauchy": ("u", "u"),
    "HalfNormal": ("u", "u"),
    "InverseGamma": ("u, u", "u"),
    "Kumaraswamy": ("u, u", "u"),
    "Laplace": ("x, u", "x"),
    "LogNormal": ("x, u", "u"),
    "LogisticNormal": ("v[:3], v[:3]", "torch.full((4,), 0.25)"),
    "LowRankMultivariateNormal": ("v[:3], u, v[:3]", "v[:3]"),
    "Multinomial": ("2, v[:3]", "torch.tensor([1.0, 1.0, 0.0])"),
    "MultivariateNormal": ("v[:3], torch.eye(3)", "v[:3]"),
    "NegativeBinomial": ("u, u", "u.round()"),
    "Normal": ("x, u", "x"),
    "OneHotCategorical": ("u", "torch.eye(3)"),
    "Pareto": ("u, u", "u + 2"),
    "Poisson": ("u", "u.round()"),
    "RelaxedBernoulli": ("n, u", "u"),
    "RelaxedOneHotCategorical": ("n, u", "u.softmax(1)"),
    "StudentT": ("u, x, u", "x"),
    "Uniform": ("u, u + 1", "u + 0.5"),
    "VonMises": ("x, u", "x"),
    "Weibull": ("u, u", "u"),
}
# Their methods that are tried; `value` is given to the last three.
METHODS = ("sample", "rsample", "entropy", "log_prob", "cdf", "icdf")


def words() -> dict[str, Any]:
    """What the expressions above are written in, made anew."""
    torch.manual_seed(0)
    x, y = torch.randn(3, 3), torch.randn(3, 3)

    def learned(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        tensor.grad = torch.ones_like(tensor)
        return tensor

    return {
        **{"torch": torch, "nn": nn, "F": F, "rnn": rnn, "dist": torch.distributions, "np": np},
        **{"x": x, "y": y, "v": torch.linspace(0.1, 0.9, 4), "n": torch.tensor(0.5), "u": torch.rand(3, 3) * 0.8 + 0.1},
        **{"i": torch.tensor([0, 2]), "p": torch.zeros(3, 3, dtype=torch.int64), "t": torch.tensor([0, 1, 2])},
        **{"m": x > 0, "w": torch.ones(3, requires_grad=True), "learned": learned, "array": np.ones(3)},
        **{"image": torch.ones(1, 2, 4, 4), "grid": torch.zeros(1, 4, 4, 2), "theta": torch.ones(1, 2, 3)},
    }


def own_calls() -> Iterator[Call]:
    """The calls of the table, in order."""
    for name, written in CALLS.items():
        function = lookup(name)
        for text in written:
            args, kwargs = eval(f"(lambda *a, **k: (a, k))({text})", words())
            yield Call(name, function, args, kwargs)


def distribution_calls() -> Iterator[Call]:
    """Methods of the classes of torch.distributions, and sampling under the name of the class itself."""
    for name, (written, value) in DISTRIBUTIONS.items():
        cls = getattr(torch.distributions, name)
        args, _ = eval(f"(lambda *a, **k: (a, k))({written})", words())
        given = eval(value, words())
        parameters = tuple(p for p in inspect.signature(cls).parameters if p != "validate_args")[: len(args)]
        qualified = f"torch.distributions.{name}"

        def sampled(*args: Any, cls: Any = cls) -> Any:
            return cls(*args, validate_args=False).sample()

        yield Call(qualified, sampled, args, {}, parameters)
        for method in METHODS:

            def called(*given: Any, cls: Any = cls, method: str = method, count: int = len(args)) -> Any:
                return getattr(cls(*given[:count], validate_args=False), method)(*given[count:])

            own = ("self",) * len(args)
            takes = method in METHODS[3:]
            yield Call(f"{qualified}.{method}", called, (*args, *([given] * takes)), {}, (*own, *(["value"] * takes)))


def making_distributions() -> Iterator[Call]:
    """The classes' constructors, as they are called by default."""
    for name, (written, _) in DISTRIBUTIONS.items():
        args, _ = eval(f"(lambda *a, **k: (a, k))({written})", words())
        cls = getattr(torch.distributions, name)
        yield Call(f"torch.distributions.{name}", cls, args, {}, tuple(inspect.signature(cls).parameters)[: len(args)])


def waiting_methods(waits: Callable[[Prepared], bool] = counted) -> Iterator[str]:
    """The methods of the classes that wait by themselves. Must be called under virtual CUDA, or where there is a GPU."""
    for name, (written, value) in DISTRIBUTIONS.items():
        cls = getattr(torch.distributions, name)
        args, _ = eval(f"(lambda *a, **k: (a, k))({written})", words())
        given = eval(value, words()).cuda()
        for method in METHODS:

            def prepared(
                cls: Any = cls, args: Any = args, given: Any = given, method: str = method
            ) -> Callable[[], Any]:
                made = cls(*(a.cuda() if isinstance(a, torch.Tensor) else a for a in args), validate_args=False)
                return lambda: getattr(made, method)(*([given] * (method in METHODS[3:])))

            with contextlib.suppress(NotImplementedError):
                if waits(prepared):
                    yield f"torch.distributions.{name}.{method}"
