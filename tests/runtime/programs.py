"""Small training programs. Each takes the device (or two) and returns its losses; none knows what runs it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, batches, loss_of, optimizer):
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def classification(shape, classes, device, n=3):
    return [(torch.randn(8, *shape).to(device), torch.randint(classes, (8,)).to(device)) for _ in range(n)]


def cross_entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def mlp(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).to(device)
    return fit(model, classification((6,), 3, device), cross_entropy, torch.optim.SGD(model.parameters(), 0.1, 0.9))


def cnn(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)
    ).to(device)
    return fit(model, classification((3, 8, 8), 4, device), cross_entropy, torch.optim.Adam(model.parameters()))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = self.lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return self.head(padded)


def lstm(device):
    torch.manual_seed(0)
    model = Tagger().to(device)
    batches = []
    for _ in range(3):
        lengths = torch.tensor([5, 3, 4, 2])
        batches.append((torch.randint(20, (4, 5)).to(device), lengths, torch.randint(5, (4, 5)).to(device)))

    def loss(model, batch):
        return F.cross_entropy(model(batch[0], batch[1]).flatten(0, 1), batch[2].flatten())

    return fit(model, batches, loss, torch.optim.RMSprop(model.parameters(), 1e-3))


def gru(device):
    torch.manual_seed(0)
    model = nn.GRU(4, 6).to(device)
    batches = [torch.randn(7, 2, 4, device="cpu").to(device) for _ in range(2)]
    return fit(model, batches, lambda m, x: m(x)[0].pow(2).mean(), torch.optim.Adagrad(model.parameters()))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.register_buffer("positions", torch.linspace(0, 1, 6)[:, None])
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 30)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        hidden = self.embedding(tokens) + self.positions
        return self.head(self.encoder(hidden, mask=mask, is_causal=True))


def transformer(device):
    torch.manual_seed(0)
    model = Translator().to(device)
    batches = [torch.randint(30, (4, 6)).to(device) for _ in range(3)]

    def loss(model, tokens):
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return fit(model, batches, loss, torch.optim.AdamW(model.parameters(), 1e-3))


def gan(device, other=None):
    """Generator on one device, discriminator on the other."""
    other = device if other is None else other
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(), nn.Linear(16, 2)).to(device)
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1)).to(other)
    make, tell = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    bce = nn.BCEWithLogitsLoss()
    losses = []
    for _ in range(3):
        real = torch.randn(8, 2).to(other)
        fake = generator(torch.randn(8, 4).to(device)).to(other)
        ones, zeros = torch.ones(8, 1, device=other), torch.zeros(8, 1, device=other)
        tell.zero_grad()
        loss = bce(judge(real), ones) + bce(judge(fake.detach()), zeros)
        loss.backward()
        tell.step()
        make.zero_grad()
        fooled = bce(judge(fake), ones)
        fooled.backward()
        make.step()
        losses += [loss.item(), fooled.item()]
    return losses


class TwoHalves(nn.Module):
    def __init__(self, device, other):
        super().__init__()
        self.other = other
        self.first = nn.Linear(5, 9).to(device)
        self.second = nn.Linear(9, 2).to(other)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)).to(self.other))


def model_parallel(device, other=None):
    other = device if other is None else other
    torch.manual_seed(0)
    model = TwoHalves(device, other)
    batches = [(torch.randn(4, 5).to(device), torch.randn(4, 2).to(other)) for _ in range(3)]
    return fit(
        model, batches, lambda m, b: F.mse_loss(m(b[0]), b[1]), torch.optim.Adam(model.parameters(), foreach=True)
    )


def accumulation_with_amp(device, scaler=True):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    kind = torch.device(device).type
    scaler = torch.amp.GradScaler(kind, init_scale=16.0)
    losses = []
    for step, (x, y) in enumerate(classification((6,), 3, device, n=4)):
        with torch.autocast(kind, dtype=torch.bfloat16):
            logits = model(x)
            assert logits.dtype == torch.bfloat16
        loss = F.cross_entropy(logits.float(), y) / 2
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = torch.tanh(x * scale)
        ctx.save_for_backward(x, y, scale)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y, scale = ctx.saved_tensors
        assert grad.device == x.device == y.device
        inner = grad * (1 - y * y)
        return inner * scale, (inner * x).sum() * torch.ones((), device=grad.device)


def custom_function(device):
    torch.manual_seed(0)
    layer = nn.Linear(3, 3).to(device)
    scale = nn.Parameter(torch.tensor(0.5, device=device))
    batches = [torch.randn(4, 3).to(device) for _ in range(3)]
    optimizer = torch.optim.SGD([*layer.parameters(), scale], 0.1)
    return fit(layer, batches, lambda m, x: Squash.apply(m(x), scale).square().mean(), optimizer)


def checkpointing(device):
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1)).to(device)
    batches = [torch.randn(5, 4).to(device) for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = fit(model, batches, lambda m, x: checkpoint(m, x, use_reentrant=False).sum(), optimizer)
    return losses + fit(
        model, batches, lambda m, x: checkpoint(m, x.requires_grad_(), use_reentrant=True).sum(), optimizer
    )


def gradient_penalty(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 1)).to(device)

    def loss(model, x):
        x = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        assert gradient.device == x.device
        return (gradient.norm(dim=1) - 1).square().mean()

    batches = [torch.randn(4, 3).to(device) for _ in range(2)]
    return fit(model, batches, loss, torch.optim.NAdam(model.parameters()))


def loader(device):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.randint(3, (20,)))
    batches = torch.utils.data.DataLoader(
        data, 5, shuffle=True, num_workers=2, pin_memory=True, generator=torch.Generator().manual_seed(1)
    )
    model = nn.Linear(4, 3).to(device)

    def loss(model, batch):
        x, y = (part.to(device, non_blocking=True) for part in batch)
        return F.cross_entropy(model(x), y)

    return fit(model, batches, loss, torch.optim.Adam(model.parameters()))


def scheduler_and_ema(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1)).to(device)
    # With a function of one's own: the built-in averages take another path on CUDA, and round differently.
    average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda old, new, n: old + (new - old) / (n + 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4).to(device)).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        losses += [loss.item(), average(torch.ones(1, 4, device=device)).item()]
    return losses


def lbfgs(device):
    torch.manual_seed(0)
    x = torch.randn(10, 3).to(device)
    y = (x @ torch.tensor([1.0, -2.0, 0.5], device=device)).unsqueeze(1)
    model = nn.Linear(3, 1).to(device)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(3)]


def weight_norm_and_parametrized(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2))
    ).to(device)
    batches = [torch.randn(3, 4).to(device) for _ in range(2)]
    return fit(model, batches, lambda m, x: m(x).square().sum(), torch.optim.Adamax(model.parameters()))


def functional_transforms(device):
    torch.manual_seed(0)
    weight = torch.randn(3, 4).to(device)
    x = torch.randn(5, 4).to(device)
    per_sample = torch.func.vmap(torch.func.grad(lambda v, w: (w @ v).square().sum()), in_dims=(0, None))(x, weight)
    jacobian = torch.func.jacrev(lambda v: torch.tanh(weight @ v))(x[0])
    assert per_sample.device == jacobian.device == weight.device
    return per_sample.flatten().tolist() + jacobian.flatten().tolist()


def attention(device):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True).to(device)
    padding = torch.tensor([[False, False, True], [False, True, True]]).to(device)
    batches = [torch.randn(2, 3, 8).to(device) for _ in range(2)]
    return fit(
        model,
        batches,
        lambda m, x: m(x, x, x, key_padding_mask=padding)[0].sum(),
        torch.optim.Adadelta(model.parameters()),
    )


def linear_algebra(device):
    torch.manual_seed(0)
    a = torch.randn(4, 4).to(device)
    spd = a @ a.T + 4 * torch.eye(4, device=device)
    values = [torch.linalg.cholesky(spd), torch.linalg.solve(spd, a), torch.linalg.svdvals(a), torch.linalg.inv(spd)]
    values += [torch.fft.rfft(a).abs(), torch.einsum("ij,kj->ik", a, spd), torch.stack([a, spd]).mean(0)]
    assert all(value.device == a.device for value in values)
    return [value.sum().item() for value in values]


ONE_DEVICE = [
    mlp,
    cnn,
    lstm,
    gru,
    transformer,
    accumulation_with_amp,
    custom_function,
    checkpointing,
    gradient_penalty,
    loader,
    scheduler_and_ema,
    lbfgs,
    weight_norm_and_parametrized,
    functional_transforms,
    attention,
    linear_algebra,
]
TWO_DEVICES = [gan, model_parallel]
