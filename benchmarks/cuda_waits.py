"""Expressions whose waits are measured on a real GPU: copies of several sizes and kinds, and what hot code is made of.

Each is Python in the words of `_words`: `h` is memory of the host as it comes, `p` is pinned, `d` lies on the device, each of the
size at hand; the small ones (`v`, `m`, `i`, ...) are what `operator_calls.py` uses, on the device.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from benchmarks import real_cuda
from devlint.runtime import watch_devices

# Of 4-byte numbers.
SIZES = (1, 1 << 8, 1 << 12, 1 << 14, 1 << 15, 1 << 18, 1 << 22, 1 << 24)
COPIES = (
    "h.to(cuda)",
    "h.to(cuda, non_blocking=True)",
    "h.cuda(non_blocking=True)",
    "p.to(cuda)",
    "p.to(cuda, non_blocking=True)",
    "p2[::2].to(cuda, non_blocking=True)",
    "h2[::2].to(cuda, non_blocking=True)",
    "p.to(cuda, torch.float16, non_blocking=True)",
    "h.to(cuda, torch.float16, non_blocking=True)",
    "p.half().to(cuda, non_blocking=True)",
    "d.copy_(h)",
    "d.copy_(h, non_blocking=True)",
    "d.copy_(p)",
    "d.copy_(p, non_blocking=True)",
    "d.__setitem__(slice(None), h)",
    "d.__setitem__(slice(None), p)",
    "d.cpu()",
    "d.to('cpu')",
    "d.to('cpu', non_blocking=True)",
    "d2[::2].to('cpu', non_blocking=True)",
    "d.to('cpu', torch.float16, non_blocking=True)",
    "h.copy_(d)",
    "h.copy_(d, non_blocking=True)",
    "p.copy_(d)",
    "p.copy_(d, non_blocking=True)",
    "p2[::2].copy_(d, non_blocking=True)",
    "p16.copy_(d, non_blocking=True)",
    "d.clone()",
    "d.to(torch.float16)",
    "torch.tensor(h.tolist()[:4096], device=cuda)",
    "torch.as_tensor(h.numpy(), device=cuda)",
    "torch.from_numpy(h.numpy()).to(cuda)",
    "torch.from_numpy(h.numpy()).pin_memory().to(cuda, non_blocking=True)",
    "h.pin_memory()",
)
CALLS = (
    # Making.
    "torch.tensor(1.0, device=cuda)", "torch.tensor([1.0, 2.0], device=cuda)", "torch.as_tensor(1.0, device=cuda)",
    "torch.zeros(4, device=cuda)", "torch.full((4,), 1.0, device=cuda)", "torch.arange(4, device=cuda)",
    "torch.linspace(0, 1, 4, device=cuda)", "torch.randperm(4, device=cuda)", "torch.randperm(100_000, device=cuda)",
    "torch.eye(4, device=cuda)", "v.new_tensor([1.0, 2.0])", "v.new_zeros(4)", "torch.scalar_tensor(1.0, device=cuda)",
    "torch.cuda.FloatTensor([1.0, 2.0])", "torch.arange(i[1])", "torch.arange(i[1], device=cuda)", "torch.zeros(i[1], device=cuda)",
    "torch.linspace(v[0], v[1], 4)", "torch.full((4,), v[0], device=cuda)", "torch.full_like(v, v[0])",
    "torch.tril_indices(3, 3, device=cuda)", "torch.hann_window(4, device=cuda)", "torch.normal(v, v)", "torch.normal(v, 1.0)",
    "torch.normal(0.0, v)", "torch.randint(0, 4, (4,), device=cuda)", "torch.multinomial(v, 2)", "torch.multinomial(v, 2, True)",
    "torch.bernoulli(v)", "torch.poisson(v)", "torch.rand(4, device=cuda)", "torch.distributions.Categorical(v).sample()",
    "torch.distributions.Categorical(v, validate_args=False).sample()", "torch.distributions.Normal(v, v).sample()",
    "torch.distributions.Normal(v, v, validate_args=False).sample()", "torch.distributions.Normal(v, v, validate_args=False).rsample()",
    # Numbers beside tensors.
    "v + 1.0", "v + n_host", "n_host * v", "v.fill_(1.0)", "v.fill_(n)", "v.fill_(n_host)", "v.clamp(0, 1)", "v.clamp(n, n)", "v.pow(n_host)",
    "torch.where(m, v, 0.0)", "torch.where(m, v, n_host)", "v.masked_fill(m, 0.0)", "v.masked_fill(m, n)", "v.masked_fill(m, n_host)",
    "torch.add(v, v, alpha=n)", "torch.lerp(v, v, n)", "torch.addcmul(v, v, v, value=2)", "v.lerp_(v, n_host)", "v.mul_(n)",
    # Reading.
    "n.item()", "v.tolist()", "float(n)", "int(n)", "bool(n)", "v.cpu().numpy()", "str(v)", "repr(n)", "f'{n}'", "f'{n:.2f}'", "v.sum().item()", "len(v)", "v.shape",
    "v[0].item()", "[float(x) for x in v]", "max(v)", "sum(v)", "n in v", "1.0 in v", "v == v", "list(v)", "v.max()", "v.any()", "if_(m.any())", "if_(n > 0)", "n and 1",
    "math.sqrt(n)", "range(i[1])", "[0, 1, 2, 3][i[1]]", "v.data_ptr()", "v.numel()", "v.storage_offset()", "hash(v)", "copy.copy(v)", "copy.deepcopy(v)",
    "pickle.dumps(v)", "torch.save(v, io.BytesIO())", "np.asarray(v.cpu())",
    # Indices.
    "v[0]", "v[i]", "v[i_host]", "v[[0, 1]]", "v[m]", "v[m_host]", "x[m3_host]", "x[m3_host, 0]", "v[[True, False, True, False]]", "v[np.array([True, False, True, False])]", "x[[0, 1], [0, 1]]", "x[torch.tensor([0, 1])]", "v[i_host[0]]", "x[i_host[0], i_host[1]]", "v_host[i_host]", "v_host[i[0]]", "v[v.argmax()]", "x[v.argmax() - 1]", "x[None, i[0]]", "v[i.cpu()]", "v[i[0]]", "v[i[0]:]", "v[:i[1]]", "v[None]", "v[..., 0]", "v[i[0], ...]", "x[i, i]", "x[0, i]", "x[:, i_host]",
    "x[m3]", "x[m3, 0]", "x[v[:3] > 0.2]", "v[np.array([0, 1])]", "v[torch.tensor(1)]", "v[True]", "v[range(2)]", "x[i[0], i[1]]", "v[-1]", "v[::2]",
    "v.index_select(0, i)", "v.gather(0, i)", "v.take(i)", "v.narrow(0, 0, 2)", "v.narrow(0, i[0], 2)", "v.select(0, 0)", "v.index_fill(0, i, 0.0)", "v.index_fill(0, i, n)", "v.index_fill(0, i, n_host)",
    "set_(v, 0, 1.0)", "set_(x, 0, 1.0)", "set_(x, (0, 1), 1.0)", "set_(x, (0, 1), n_host)", "set_(x, 0, n_host)", "set_(v, slice(0, 2), 1.0)", "set_(v, slice(None), 1.0)", "set_(v, ..., 1.0)", "set_(x, (slice(None), 0), 1.0)", "set_(x, (..., 0), 0.0)", "set_(x, (0, slice(0, 2)), True)", "set_(v, slice(0, 2), n_host)", "set_(v, m_host, 1.0)", "set_(v, [True, False, True, False], 1.0)", "set_(x, (m3_host, 0), 1.0)", "set_(x, ([0, 1], 0), 1.0)", "set_(x, (0, i), v[:2])", "set_(v, i, n)", "set_(v, i, v_host[:2].cuda())", "set_(x, (i[0], 0), 1.0)", "set_(x, (i_host[0], 0), 1.0)", "set_(v, None, 1.0)",
    "set_(v, 0, n)", "set_(v, 0, n_host)", "set_(v, i, 1.0)", "set_(v, i, n_host)", "set_(v, i, v[i])", "set_(v, i_host, 1.0)", "set_(v, [0, 1], 1.0)", "set_(v, m, 0.0)", "set_(v, m, n)", "set_(v, m, n_host)",
    "set_(v, m, v[1:].clone())", "set_(x, m3, 0.0)", "set_(x, (m3, 0), 0.0)", "set_(x, (slice(None), i), 0.0)", "set_(x, (i, i), 0.0)", "set_(v, slice(i[1]), 0.0)", "set_(v, i[0], 0.0)", "set_(x, 0, v[:3])", "set_(x, m3_host, 0.0)",
    "set_(v, slice(0, 2), v_host[:2])", "v.masked_select(m)", "v.masked_scatter(m, v)", "v.index_put((i,), v[:2])", "v.index_put((m,), v[1:])", "v.index_add(0, i, v[:2])", "v.index_copy(0, i, v[:2])",
    "v.scatter(0, i, 1.0)", "v.scatter_add(0, i, v[:2])", "v.scatter_reduce(0, i, v[:2], 'sum')", "v.put_(i, v[:2].clone())",
    # Sizes that depend on values.
    "m.nonzero()", "torch.nonzero(m, as_tuple=True)", "torch.nonzero_static(m, size=2)", "torch.where(m)", "torch.argwhere(m)", "v.unique()", "i.unique(return_counts=True)", "torch.unique(x, dim=0)",
    "torch.unique_consecutive(i)", "i.bincount()", "i.bincount(minlength=4)", "v.histc(4)", "v.histc(4, 0, 1)", "v.repeat_interleave(2)", "v[:2].repeat_interleave(i)", "v[:2].repeat_interleave(i, output_size=2)",
    "F.one_hot(i)", "F.one_hot(i, 4)", "torch.combinations(v)", "v.split([2, 2])", "v.split((i + 1).tolist())", "v.tensor_split(2)", "v.tensor_split(i_host)", "v.chunk(2)", "v.unbind()", "v.unflatten(0, (2, 2))",
    "torch.isin(i, i)", "torch.isin(i, torch.tensor([0]).cuda())", "torch.bucketize(v, v)", "torch.searchsorted(v, v)", "v.sort()", "v.topk(2)", "v.argmax()", "v.median()", "v.mode()", "v.kthvalue(1)", "v.quantile(0.5)", "v.nanquantile(n)", "v.cumsum(0)", "x.triu()", "torch.cartesian_prod(v, v)", "torch.block_diag(x, x)", "torch.equal(v, v)", "torch.allclose(v, v)", "v.isnan().any()", "torch.isclose(v, v).all()", "torch.diff(v)", "torch.trapezoid(v)", "torch.cov(x)", "torch.corrcoef(x)", "torch.histogramdd(x.cpu(), [2, 2, 2])",
    "torch.nested.nested_tensor([v, v])", "torch.nn.utils.rnn.pad_sequence([v, v[:2]])", "torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2, 1]), True)", "torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 1, 2]), True, enforce_sorted=False)", "torch.nn.utils.rnn.pack_padded_sequence(x, i3.cpu(), True)",
    "torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2, 1]), True))", "torch.nn.utils.rnn.unpad_sequence(x, torch.tensor([3, 2, 1]), True)", "torch.nn.utils.rnn.unpad_sequence(x, i3, True)",
    # Linear algebra.
    "x @ x", "spd.inverse()", "torch.linalg.inv(spd)", "torch.linalg.inv_ex(spd)", "torch.linalg.solve(spd, x)", "torch.linalg.solve_ex(spd, x)", "torch.linalg.cholesky(spd)", "torch.linalg.cholesky_ex(spd)", "torch.linalg.eigh(spd)", "torch.linalg.eigvalsh(spd)", "torch.linalg.eig(spd)", "torch.linalg.svd(spd)", "torch.linalg.svdvals(spd)", "torch.linalg.qr(spd)", "torch.linalg.det(spd)", "torch.linalg.slogdet(spd)", "torch.linalg.lstsq(spd, x)", "torch.linalg.pinv(spd)", "torch.linalg.matrix_rank(spd)", "torch.linalg.matrix_power(spd, 2)", "torch.linalg.matrix_power(spd, -1)", "torch.linalg.matrix_norm(spd)", "torch.linalg.matrix_norm(spd, 2)", "torch.linalg.matrix_norm(spd, 'nuc')", "torch.linalg.norm(spd)", "torch.linalg.norm(spd, 2)", "torch.linalg.cond(spd)", "torch.linalg.lu(spd)", "torch.linalg.lu_factor(spd)", "torch.linalg.ldl_factor(spd)", "torch.linalg.solve_triangular(spd, x, upper=True)", "torch.cholesky_solve(x, spd)", "torch.cholesky_inverse(spd)", "torch.linalg.matrix_exp(spd)", "torch.logdet(spd)", "torch.pca_lowrank(spd)", "torch.svd_lowrank(spd)", "torch.lobpcg(spd, k=1)", "v.norm()", "v.norm(2)", "torch.linalg.vector_norm(v)", "torch.linalg.cross(x, x)", "torch.linalg.householder_product(spd, v[:3])",
    "torch.fft.fft(v)", "torch.stft(wave, 16, return_complex=True, window=torch.hann_window(16, device=cuda))", "torch.istft(torch.stft(wave, 16, return_complex=True, window=torch.hann_window(16, device=cuda)), 16, window=torch.hann_window(16, device=cuda))",
    # Losses, layers, optimizers.
    "F.cross_entropy(x, t)", "F.cross_entropy(x, t, ignore_index=0)", "F.nll_loss(x, t)", "F.binary_cross_entropy(u, u)", "F.mse_loss(x, x)", "F.ctc_loss(logp, t[None], torch.tensor([3]), torch.tensor([2]))", "F.ctc_loss(logp, t[None], i3[:1], i3[:1])", "F.embedding(i, x)", "F.embedding_bag(i, x, i[:1])", "F.dropout(x)", "F.gumbel_softmax(x)", "F.interpolate(image, scale_factor=2)", "F.grid_sample(image, grid, align_corners=False)", "F.multi_margin_loss(x, t)", "F.cosine_embedding_loss(x, x, torch.ones(3, device=cuda))", "F.triplet_margin_loss(x, x, x)", "F.scaled_dot_product_attention(q, q, q)", "F.scaled_dot_product_attention(q, q, q, attn_mask=causal)", "F.scaled_dot_product_attention(q, q, q, is_causal=True)", "F.pad(x, (1, 1))", "F.normalize(x)", "F.layer_norm(x, (3,))", "F.max_pool2d(image, 2)", "F.adaptive_max_pool2d(image, 2)", "F.fractional_max_pool2d(image, 2, output_size=2)", "F.adaptive_avg_pool2d(image, 2)", "F.conv2d(image, kernel)",
    "lstm(q[0])", "gru(q[0])", "attention(q[0], q[0], q[0])", "encoder(q[0])", "encoder(q[0], src_key_padding_mask=torch.zeros(1, 4, dtype=torch.bool, device=cuda))", "encoder(q[0], mask=causal)", "bn(image)", "linear(x)", "nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2]).cuda()(x, t)",
    "loss().backward()", "nn.utils.clip_grad_norm_(params(), 1.0)", "nn.utils.clip_grad_norm_(params(), 1.0, error_if_nonfinite=True)", "nn.utils.clip_grad_value_(params(), 1.0)", "torch.optim.SGD(params(), 0.1).step()", "torch.optim.SGD(params(), 0.1, momentum=0.9).step()", "torch.optim.Adam(params()).step()", "torch.optim.Adam(params(), foreach=False).step()", "torch.optim.Adam(params(), fused=True).step()", "torch.optim.Adam(params(), capturable=True).step()", "torch.optim.AdamW(params()).step()", "torch.optim.RMSprop(params()).step()", "torch.optim.Adagrad(params()).step()", "torch.optim.LBFGS(params()).step(loss)", "torch.optim.RAdam(params()).step()", "torch.optim.NAdam(params()).step()", "torch.optim.Adamax(params()).step()", "torch.optim.ASGD(params()).step()", "torch.optim.Rprop(params()).step()", "torch.optim.Adadelta(params()).step()", "torch.optim.Muon([torch.nn.Parameter(x.clone())]).state",
    "scaler_step()", "v.bincount() if v.dtype == torch.int64 else None", "i.max() + 1", "v.select(0, i[0])", "v.new_full((2,), n)", "torch.isin(i.repeat(50), i.repeat(50))", "v.index_put((i_host,), v[:2])", "v.mode()", "torch.linalg.lu(spd[None])", "torch.cholesky_inverse(spd[None])", "torch.linalg.eigh(spd[None])", "torch.linalg.inv(spd[None])", "torch.unique(i, return_inverse=True)", "torch.unique_consecutive(x, dim=0)", "v.to('cpu', torch.float32, True)", "v.equal(v.clone())", "copy.copy(v).share_memory_()", "torch.stack([n, n])", "torch.cat([v, v])", "torch.tensor([n, n])", "torch.tensor([n, n], device=cuda)", "torch.as_tensor([n, n])", "[n.item() for n in v]", "torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 2], device=cuda), i, v[:2], (3, 3))", "x.nonzero(as_tuple=True)", "x.masked_fill_(m3, 0.0)", "torch.masked.sum(x, mask=m3)", "v.quantile(n)", "v.quantile(v[:2])", "torch.linalg.inv_ex(spd)[1].any()", "F.embedding(i, x, max_norm=1.0)", "F.embedding_bag(i, x, torch.tensor([0]).cuda(), mode='sum')", "F.pad(x, (1, 1), value=n)", "F.pad(x, (int(i[0]), 1))", "x.expand(3, 3)", "x.repeat(2, 1)", "x.view(-1)", "v.view(i[1], -1)", "x.reshape(i3[0], 3)", "x.sum(dim=0)", "torch.clamp(v, min=n)", "torch.clamp(v, min=0.1)", "v.masked_fill(m, float('-inf'))", "torch.nan_to_num(v)", "v.nan_to_num(n.item())", "F.cross_entropy(x, t, label_smoothing=0.1)", "F.nll_loss(x, t, weight=v[:3])", "F.multilabel_margin_loss(x, i3[None].repeat(3, 1) - 1)", "F.huber_loss(x, x)", "F.kl_div(x, x)",
    "torch.amp.GradScaler('cuda').scale(n)", "nn.utils.get_total_norm([x, x])", "optimizer_state()", "torch.optim.swa_utils.AveragedModel(linear)", "linear.state_dict()", "linear.load_state_dict(linear.state_dict())", "linear.zero_grad()", "nn.init.normal_(x)", "nn.init.orthogonal_(x)", "nn.init.trunc_normal_(x)", "nn.init.kaiming_uniform_(x)", "nn.utils.parameters_to_vector([x, x])", "torch.autograd.grad(loss(), params(), allow_unused=True)", "torch.utils.checkpoint.checkpoint(linear, x, use_reentrant=False)", "torch.func.vmap(torch.sum)(x)", "v.requires_grad_()", "torch.isfinite(n)",
    # CUDA's own.
    "torch.cuda.synchronize()", "torch.cuda.current_stream().synchronize()", "event().synchronize()", "event().query()", "torch.cuda.empty_cache()", "torch.cuda.memory_allocated()", "torch.cuda.max_memory_allocated()", "torch.cuda.memory_reserved()", "torch.cuda.memory_stats()", "torch.cuda.mem_get_info()", "torch.cuda.reset_peak_memory_stats()", "torch.cuda.current_device()", "torch.cuda.get_device_properties(0)", "torch.cuda.Stream()", "torch.cuda.get_rng_state()", "torch.cuda.manual_seed(0)", "torch.manual_seed(0)", "torch.cuda.current_stream().wait_stream(torch.cuda.current_stream())", "torch.cuda.current_stream().record_event()", "v.record_stream(torch.cuda.current_stream())", "torch.cuda.ipc_collect()", "torch.cuda.memory_summary()", "torch.random.fork_rng(devices=[0]).__enter__()", "torch.Generator(cuda).manual_seed(0)", "torch.cuda.is_available()", "v.share_memory_()",
    # Mixed, for the errors.
    "torch.meshgrid(v, v_host, indexing='ij')", "torch.meshgrid(v_host, v, indexing='ij')", "v.set_(v_host)", "torch.binomial(v, n_host)", "torch.lerp(v, n_host, 0.5)", "torch.lerp(v, n_host, v)", "torch.lerp(n_host, v, v)", "F.mse_loss(n, n_host)", "F.smooth_l1_loss(n, n_host)", "F.binary_cross_entropy(n, n_host)", "torch.allclose(v, n_host)", "torch.allclose(v, v_host)", "torch.equal(v, v_host)", "F.conv2d(image, kernel.cpu())", "F.conv2d(image.cpu(), kernel)", "torch.cat([v, v_host])", "v + v_host", "x @ x.cpu()", "F.linear(x, x.cpu())", "linear(x.cpu())", "lstm(q[0].cpu())", "bn(image.cpu())", "F.embedding(i.cpu(), x)", "F.embedding(i, x.cpu())", "F.cross_entropy(x, t.cpu())", "v.index_select(0, i_host)", "v.gather(0, i_host)", "v_host[i]", "v_host[m]", "torch.where(m_host, v, v)", "v.masked_fill(m_host, 0.0)", "set_(v_host, m, v)", "set_(v, m, v_host[1:])", "set_(v, i, v_host[:2])", "v.cpu() + n", "torch.stack([n, n_host])", "torch.einsum('ij,jk->ik', x, x.cpu())", "torch.outer(v, v_host)", "torch.dot(v, v_host)", "torch.isin(i, i_host)", "torch.bucketize(v, v_host)", "torch.searchsorted(v_host, v)", "torch.maximum(v, v_host)", "torch.max(v, n_host)", "torch.clamp(v, n_host)", "v.copy_(v_host)", "v.add_(n_host)", "v_host.add_(n)", "v_host.clone().add_(v)", "F.grid_sample(image, grid.cpu(), align_corners=False)", "F.scaled_dot_product_attention(q, q.cpu(), q)", "torch.autograd.grad(loss(), params(), grad_outputs=torch.ones(()))", "torch.Generator(cuda) and torch.rand(3, generator=torch.Generator(cuda))", "torch.rand(3, device=cuda, generator=torch.Generator())", "v.numpy()", "np.asarray(v)", "torch.from_numpy(v)", "torch.nn.utils.rnn.pack_padded_sequence(x, i3, True)", "v.repeat_interleave(torch.tensor([1, 1, 1, 1]))", "v.tensor_split(i)", "torch.broadcast_tensors(v, v_host)", "torch.block_diag(x, x.cpu())", "torch.cartesian_prod(v, v_host)", "torch.cdist(x, x.cpu())", "torch.multinomial(v, 2, generator=torch.Generator())", "F.dropout(x, 0.5) * m3_host", "v.type_as(v_host)", "v.to(v_host)", "v.new_tensor(v_host)", "torch.linspace(n, n_host, 4)", "torch.nn.utils.clip_grad_norm_([*params(), nn.Parameter(torch.ones(2))], 1.0)", "nn.utils.parameters_to_vector([x, x.cpu()])",
    # Sparse.
    "x.to_sparse()", "x.to_sparse().coalesce()", "x.to_sparse_csr()", "torch.sparse_coo_tensor(torch.stack([i, i]), v[:2])", "torch.sparse_coo_tensor(torch.stack([i, i]), v[:2], (3, 3))", "torch.sparse_coo_tensor(torch.stack([i, i]), v[:2], (3, 3), check_invariants=False)", "torch.sparse.mm(sparse, x)", "sparse @ x", "sparse.to_dense()", "sparse.indices()", "sparse.sum()",
)  # fmt: skip


def _words() -> dict[str, Any]:
    """What the expressions are written in, made anew; the sizes' words aside."""
    torch.manual_seed(0)
    cuda = torch.device("cuda")
    x, v, u = torch.randn(3, 3), torch.linspace(0.1, 0.9, 4), torch.rand(3, 3) * 0.8 + 0.1
    linear, modules = _modules()
    on_device = {
        **{"x": x, "v": v, "u": u, "n": torch.tensor(0.5), "i": torch.tensor([0, 2]), "m": v > 0.3, "t": torch.tensor([0, 1, 2])},
        **{"m3": torch.tensor([True, False, True]), "i3": torch.tensor([3, 2, 1]), "spd": x @ x.T + 3 * torch.eye(3)},
        **{"image": torch.ones(1, 2, 4, 4), "grid": torch.zeros(1, 4, 4, 2), "kernel": torch.ones(2, 2, 3, 3)},
        **{"wave": torch.randn(64), "logp": torch.randn(3, 1, 4).log_softmax(-1), "q": torch.randn(1, 1, 4, 8)},
        **{"causal": torch.zeros(4, 4), "sparse": x.to_sparse()},
    }  # fmt: skip
    placed = {name: tensor.to(cuda) for name, tensor in on_device.items()}

    def params() -> list[nn.Parameter]:
        for parameter in linear.parameters():
            parameter.grad = torch.ones_like(parameter)
        return list(linear.parameters())

    def loss() -> torch.Tensor:
        with torch.enable_grad():
            return linear(placed["x"]).sum()

    return {
        **{"torch": torch, "nn": nn, "F": F, "np": np, "io": io, "cuda": cuda, "linear": linear, "loss": loss},
        **{"math": __import__("math"), "copy": __import__("copy"), "pickle": __import__("pickle")},
        **modules,
        **placed,
        **{"params": params, "event": lambda: torch.cuda.current_stream().record_event()},
        **{"n_host": torch.tensor(0.5), "i_host": torch.tensor([0, 2]), "m_host": v > 0.3, "m3_host": on_device["m3"], "v_host": v},
        **{"set_": lambda t, index, value: t.__setitem__(index, value), "if_": lambda value: 1 if value else 0},
        **{"scaler_step": _scaler_step(params), "optimizer_state": lambda: torch.optim.Adam(params()).state_dict()},
    }  # fmt: skip


@cache
def _modules() -> tuple[nn.Linear, dict[str, nn.Module]]:
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    made = {
        "lstm": nn.LSTM(8, 8, batch_first=True), "gru": nn.GRU(8, 8, batch_first=True), "bn": nn.BatchNorm2d(2),
        "attention": nn.MultiheadAttention(8, 2, batch_first=True), "encoder": nn.TransformerEncoder(layer, 1),
    }  # fmt: skip
    return nn.Linear(3, 3).cuda(), {name: module.cuda() for name, module in made.items()}


def _scaler_step(params: Callable[[], list[nn.Parameter]]) -> Callable[[], Any]:
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(torch.ones((), device="cuda"))
    return lambda: (scaler.step(torch.optim.SGD(params(), 0.1)), scaler.update())


def _sized(count: int) -> dict[str, Any]:
    h, d = torch.ones(count), torch.full((count,), 2.0, device="cuda")
    return {
        **{"torch": torch, "cuda": torch.device("cuda"), "h": h, "p": h.pin_memory(), "d": d, "d2": d.repeat(2)},
        **{"h2": h.repeat(2), "p2": h.repeat(2).pin_memory(), "p16": h.half().pin_memory()},
    }


def measured() -> dict[str, Any]:
    """Of each expression (and number of bytes): [whether the host waits, the waits that PyTorch tells of, those that `watch_devices`
    counts, the staged copies that it counts, whether a copy to the host held what it should at once]; or the error."""
    return {name: _or_error(lambda n=name: _measured(prepared(n))) for name in names()}


def counted(name: str) -> Any:
    """[the waits, the staged copies] that `watch_devices` counts in an expression, or the error."""
    return _or_error(lambda: _counted(prepared(name)()))


def names() -> list[str]:
    """The expressions, those of copies with a number of bytes."""
    return [f"{text} # {4 * size}" for text in COPIES for size in SIZES] + list(CALLS)


def prepared(name: str) -> Callable[[], Callable[[], Any]]:
    """Makes the words of an expression; what that gives evaluates it."""
    text, _, size = name.partition(" # ")
    code = compile(text, "<expression>", "eval")

    def make() -> Callable[[], Any]:
        words = _sized(int(size) // 4) if size else _words()
        return lambda: eval(code, words)

    return make


def _measured(make: Callable[[], Callable[[], Any]]) -> list[Any]:
    waits, told = real_cuda.blocks(make), real_cuda.told_waits(make())
    return [waits, told, *_counted(make()), _is_whole(make())]


def _counted(call: Callable[[], Any]) -> list[int]:
    with watch_devices() as watch:
        call()
    report = watch.report()
    return [report.sync_count, sum(event.count for event in report.staged)]


def _or_error(ask: Callable[[], Any]) -> Any:
    try:
        with contextlib.redirect_stdout(io.StringIO()), torch.set_grad_enabled(False):
            return ask()
    except Exception as error:
        return text_of(error)


def text_of(error: BaseException) -> str:
    """The type and the first line of an error."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


def _is_whole(call: Callable[[], Any]) -> bool | None:
    """Whether what a busy GPU was to copy to the host is there when the call returns; None of what isn't on the host then."""
    torch.cuda.synchronize()
    real_cuda.nap()
    result = call()
    if not (isinstance(result, torch.Tensor) and result.device.type == "cpu" and result.numel()):
        return None
    before = result.clone()
    torch.cuda.synchronize()
    time.sleep(0.001)
    return bool(torch.equal(before, result))
