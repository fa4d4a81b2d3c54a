"""What can be computed: templates by the kind of their result.

Every tensor of a random program has one of five kinds, whose shapes always fit, so that a program can fail by placement
alone: `mat` (4x4), `vec` (4), `num` (0-dim), `mask` (4x4, bool) and `index` (4, long). In a template `<mat>` stands for an
operand at the place of the result, `<mat host>` for one on the host, `<mat any>` for one that may be anywhere; `<device>`
and `<near>` stand for the place that the result is meant to have: a device, and a tensor that is there.
"""

from __future__ import annotations

KINDS = ("mat", "vec", "num", "mask", "index")

# Computed from other tensors, where those are.
COMPUTED: dict[str, tuple[str, ...]] = {
    "mat": (
        "<mat> + <mat>",
        "<mat> - <mat>",
        "<mat> * <mat>",
        "<mat> / (<mat> + 1)",
        "<mat> @ <mat>",
        "<mat> @ <mat>.t()",
        "<mat> + <vec>",
        "<mat> * <num>",
        "<mat> * <num host>",
        "<num host> + <mat>",
        "2 * <mat>",
        "1 - <mat>",
        "-<mat>",
        "<mat>.relu()",
        "<mat>.clone()",
        "<mat>.detach()",
        "<mat>.float()",
        "<mat>.t()",
        "<mat>.view(4, 4)",
        "<mat>.reshape(16).view(4, 4)",
        "<mat>.unsqueeze(0).squeeze(0)",
        "<mat>.sort()[0]",
        "<mat>.add(<mat>)",
        "<mat>.matmul(<mat>)",
        "<mat>.masked_fill(<mask>, 0.0)",
        "<mat>[<index>]",
        "<mat>[<index host>]",
        "<mat>[:, <index>]",
        "<mat>.index_select(0, <index>)",
        "<mat>.type_as(<mat>)",
        "<vec>.expand(4, 4).clone()",
        "<mask>.float()",
        "torch.relu(<mat>)",
        "torch.sigmoid(<mat>)",
        "torch.tanh(input=<mat>)",
        "torch.mm(<mat>, <mat>)",
        "torch.matmul(<mat>, other=<mat>)",
        "torch.add(<mat>, <mat>, alpha=2)",
        "torch.maximum(<mat>, <mat>)",
        "torch.addmm(<mat>, <mat>, <mat>)",
        "torch.where(<mask>, <mat>, <mat>)",
        "torch.where(<mask>, <mat>, 0.0)",
        "torch.cat((<mat>, <mat>))[:4]",
        "torch.cat([<mat>, <mat>], dim=1)[:, 2:6]",
        "torch.stack([<mat>, <mat>]).mean(0)",
        "torch.stack((<vec>, <vec>, <vec>, <vec>))",
        "torch.outer(<vec>, <vec>)",
        "torch.einsum('ij,jk->ik', <mat>, <mat>)",
        "torch.clamp(<mat>, 0, 1)",
        "sum([<mat>, <mat>])",
        "F.softmax(<mat>, dim=-1)",
        "F.linear(<mat>, <mat>)",
        "F.linear(<mat>, <mat>, <vec>)",
        "F.normalize(<mat>)",
        "F.layer_norm(<mat>, (4,), <vec>)",
        "F.embedding(<index>, <mat>)",
    ),
    "vec": (
        "<vec> + <vec>",
        "<vec> * <vec>",
        "<mat> @ <vec>",
        "<vec> * <num host>",
        "<mat>[0]",
        "<mat>[-1]",
        "<mat>.mean(0)",
        "<mat>.sum(dim=1)",
        "<mat>.max(dim=1)[0]",
        "<mat>.diagonal()",
        "torch.mv(<mat>, <vec>)",
        "torch.cat([<vec>, <vec>])[2:6]",
        "F.cosine_similarity(<mat>, <mat>)",
        "<vec>[<index>]",
    ),
    "num": (
        "<mat>.mean()",
        "<mat>.sum()",
        "<vec>.max()",
        "<vec> @ <vec>",
        "<num> + <num>",
        "<num> * <num host>",
        "<mat>[0, 0].clone()",
        "<mat>[<mask>].sum()",
        "torch.dot(<vec>, <vec>)",
        "torch.dist(<mat>, <mat>)",
        "F.mse_loss(<mat>, <mat>)",
        "F.l1_loss(<mat>, target=<mat>)",
        "F.cross_entropy(<mat>, <index>)",
    ),
    "mask": (
        "<mat> > 0",
        "<mat> < <mat>",
        "<mat> >= <vec>",
        "<mat> > <num host>",
        "<mask> & <mask>",
        "~<mask>",
        "torch.isnan(<mat>)",
        "torch.eq(<mat>, <mat>)",
        "<mat>.bool()",
    ),
    "index": (
        "<mat>.argmax(1)",
        "<vec>.argsort()",
        "torch.argmin(<mat>, dim=0)",
        "<index>[<index>]",
        "<index> % 4",
        "torch.topk(<vec>, 4)[1]",
    ),
}

# Made from nothing, on the host; `{device}` is where `device=...` can stand.
FRESH: dict[str, tuple[str, ...]] = {
    "mat": (
        "torch.ones(4, 4{device})",
        "torch.zeros(4, 4{device})",
        "torch.randn(4, 4{device})",
        "torch.rand((4, 4){device})",
        "torch.full((4, 4), 0.5{device})",
        "torch.eye(4{device})",
        "torch.arange(16.0{device}).view(4, 4)",
        "torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 4{device})",
        "torch.linspace(0, 1, 16{device}).reshape(4, 4)",
    ),
    "vec": (
        "torch.ones(4{device})",
        "torch.randn(4{device})",
        "torch.arange(4.0{device})",
        "torch.tensor([0.1, 0.2, 0.3, 0.4]{device})",
        "torch.zeros(size=(4,){device})",
    ),
    "num": ("torch.tensor(0.5{device})", "torch.ones((){device})", "torch.tensor(2.0{device})"),
    "mask": (
        "torch.ones(4, 4, dtype=torch.bool{device})",
        "torch.eye(4{device}) > 0",
        "torch.ones(4, 4{device}).tril() > 0",
    ),
    "index": (
        "torch.arange(4{device})",
        "torch.tensor([0, 1, 2, 3]{device})",
        "torch.randperm(4{device})",
        "torch.randint(0, 4, (4,){device})",
    ),
}

# Made in the old ways, by place.
LEGACY: dict[str, tuple[str, ...]] = {
    "home": ("torch.cuda.FloatTensor(4, 4).fill_(1)", "torch.ones(4, 4).type(torch.cuda.FloatTensor)"),
    "host": (
        "torch.FloatTensor(4, 4).fill_(1)",
        "torch.Tensor(4, 4).zero_()",
        "torch.from_numpy(np.ones((4, 4), np.float32))",
    ),
}

# Made where another tensor is.
LIKE: dict[str, tuple[str, ...]] = {
    "mat": (
        "torch.ones_like(<mat>)",
        "torch.zeros_like(<mat>)",
        "torch.rand_like(<mat>)",
        "<near>.new_ones(4, 4)",
        "<near>.new_zeros((4, 4))",
    ),
    "vec": ("<near>.new_ones(4)", "torch.zeros_like(<vec>)", "torch.arange(4.0).to(<near>.device)"),
    "num": ("<near>.new_tensor(0.5)", "torch.ones_like(<num>)"),
    "mask": ("torch.ones_like(<mask>)", "<near>.new_ones(4, 4) > 0"),
    "index": ("torch.zeros_like(<index>)", "torch.arange(4, device=<near>.device)"),
}

# Statements that change a tensor where it is; `<x>` is its name.
IN_PLACE: dict[str, tuple[str, ...]] = {
    "mat": (
        "<x> += <mat> * 0.5",
        "<x> *= <num host> + 1",
        "<x> -= 0.1 * <vec>",
        "<x>.add_(<mat>)",
        "<x>.mul_(0.5)",
        "<x>.copy_(<mat any>)",
        "<x>.clamp_(min=0)",
        "<x>[0] = <vec> + 1",
        "<x>[0] = <vec any>",
        "<x>[<mask>] = 0",
        "<x>[<mask any>] = 0.0",
        "<x>[<index>] = <mat> * 2",
        "<x>[<index any>] += 1",
        "<x>[:, 0] = 1",
        "<x>.masked_fill_(<mask>, 0.0)",
        "<x>.index_add_(0, <index>, <mat> * 1)",
        "torch.add(<mat>, <mat>, out=<x>)",
    ),
    "vec": ("<x> += <vec> / 2", "<x>[0] = 1.0", "<x>.add_(<vec>)", "<x>[<index>] = <vec> + 1", "<x>.copy_(<vec any>)"),
    "num": ("<x> += 1", "<x> += <num>", "<x>.add_(<num host>)"),
    "mask": ("<x> &= <mask>", "<x>[0] = False"),
    "index": ("<x> += 0", "<x>.clamp_(0, 3)"),
}

# What only looks at tensors. The host's values are read from any place; NumPy reads from the host.
LOOKS = (
    "print(<mat any>.shape, <num any>.item())",
    "print(float(<num any>))",
    "history.append(<num any>.item())",
    "history.append(<num any>)",
    "rows = <mat any>.tolist()",
    "array = <mat host>.numpy()",
    "array = <mat host>.numpy() * 2",
    "array = np.asarray(<vec host>)",
    "array = <mat any>.cpu().numpy()",
    "array = np.array(<mat any>.detach().cpu())",
    "total = sum(<vec any>.tolist())",
    "print(<mat any>.device, <mat any>.is_cuda)",
    "assert <mat any>.dim() == 2",
)
