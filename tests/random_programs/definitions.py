"""The functions and classes of random programs; each is made known to the writer as something to call."""

from __future__ import annotations

from tests.random_programs.blocks import body, flag
from tests.random_programs.writer import Callee, Writer

MAT = ("mat", "@")


def definition(w: Writer) -> None:
    """One function or class."""
    w.one_of((function, function, function, device_function, choosing, recursive, starred, pair, generator, *CLASSES))(
        w
    )
    if not w.indent:
        w.write("")


def returned(w: Writer, kind: str) -> None:
    w.write(f"return {w.tensor(kind, '@', 2)}")


# Functions


def function(w: Writer) -> None:
    """Parameters with and without defaults and annotations, perhaps decorated, perhaps with an early return."""
    name = w.fresh_name("helper")
    kinds = ["mat", *(w.kind() for _ in range(w.random.randrange(3)))]
    gives = w.kind()
    names = ["x", "y", "z"][: len(kinds)]
    annotated = w.chance(0.3)
    head = ", ".join(f"{n}: torch.Tensor" if annotated else n for n in names)
    text = ", ".join(f"{{{i}}}" if i == 0 or w.chance(0.7) else f"{n}={{{i}}}" for i, n in enumerate(names))
    if "=" in text:
        text = ", ".join(f"{n}={{{i}}}" for i, n in enumerate(names))
    extra = w.one_of(("", "", ", scale=2.0", ", *, eps=1e-5", ", bias=None"))
    decorators = [w.one_of(("@torch.no_grad()", "@torch.inference_mode()", "@logged", "@functools.cache"))] * w.chance(
        0.15
    )
    if "@functools.cache" in decorators and kinds != ["mat"]:
        decorators = ["@logged"]
    with w.function(f"def {name}({head}{extra}):", decorators):
        for each, kind in zip(names, kinds, strict=True):
            w.bind(each, kind, "@", fixed=True)
        if "bias" in extra:
            w.write("if bias is None:", f"    bias = {w.made('mat', '@')}")
            w.bind("bias", "mat", "@")
        elif "scale" in extra and gives == "mat":
            w.write("x = x * scale")
        if w.chance(0.25):
            with w.block(w.one_of((f"if {flag(w)}:", "if x.is_cuda:", "if x.dim() > 2:"))):
                returned(w, gives)
        if w.chance(0.8):
            body(w, 3)
        returned(w, gives)
    w.scopes[-1].callees.append(Callee(f"{name}({text})", tuple((kind, "@") for kind in kinds), (gives, "@")))


def device_function(w: Writer) -> None:
    """A function that is told the device, or that makes something at it."""
    name = w.fresh_name("make")
    kind = w.kind()
    default = w.one_of(("", '="cuda"', "=None"))
    with w.function(f"def {name}(x, device{default}):"):
        w.write("device = device or x.device") if "None" in default else None
        w.bind("x", "mat", "host", fixed=True)
        with_slip = w.slip()
        w.write("x = x.to(device)" if not with_slip else "x.to(device)")
        w.bind("x", "mat", "@", fixed=True)
        if w.chance(0.5):
            body(w, 2)
        returned(w, kind)
    if "None" in default and w.chance(0.4):
        w.scopes[-1].callees.append(Callee(f"{name}({{0}})", (MAT,), (kind, "@")))
    elif "cuda" in default and w.chance(0.5):
        w.scopes[-1].callees.append(Callee(f"{name}({{0}})", (("mat", "any"),), (kind, "home")))
    else:
        word = w.one_of(("device=", ""))
        w.scopes[-1].callees.append(Callee(f"{name}({{0}}, {word}{w.device})", (("mat", "any"),), (kind, "home")))


def choosing(w: Writer) -> None:
    """A function whose argument decides whether it moves."""
    name, switch = w.fresh_name("prepare"), w.one_of(("move", "use_gpu", "cuda"))
    with w.function(f"def {name}(x, {switch}={w.one_of(('True', 'False'))}):"):
        way = w.random.randrange(3)
        if way == 0:
            w.write(f"if {switch}:", f"    x = x.to({w.device})", "return x * 2")
        elif way == 1:
            w.write(
                f"if not {switch}:", "    return x", f"return x.to({w.device}) + torch.ones(4, 4, device={w.device})"
            )
        else:
            w.write(
                f"where = {w.device} if {switch} else x.device", "x = x.to(where)", "return x @ torch.eye(4).to(where)"
            )
    calls = w.scopes[-1].callees
    calls.append(Callee(f"{name}({{0}}, {switch}=True)", (("mat", "any"),), ("mat", "home")))
    calls.append(Callee(f"{name}({{0}}, False)", (MAT,), MAT))


def recursive(w: Writer) -> None:
    name = w.fresh_name("power")
    with w.function(f"def {name}(x, depth={1 + w.random.randrange(3)}):"):
        w.bind("x", "mat", "@", fixed=True)
        with w.block("if depth == 0:"):
            returned(w, "mat")
        w.write(f"return {name}({w.tensor('mat', '@', 1)}, depth - 1) + {w.tensor('mat', '@', 1)}")
    w.scopes[-1].callees.append(Callee(f"{name}({{0}})", (MAT,), MAT))


def starred(w: Writer) -> None:
    name = w.fresh_name("merge")
    way = w.random.randrange(3)
    with w.function(f"def {name}(*parts, **more):"):
        if way == 0:
            w.write("total = parts[0]", "for part in parts[1:]:", "    total = total + part", "return total")
        elif way == 1:
            w.write("values = [*parts, *more.values()]", "return torch.stack(values).sum(0)")
        else:
            w.write("out = torch.zeros_like(parts[0])", "for part in (*parts, *more.values()):")
            w.write(f"    out += part{'' if w.slip() else '.to(out.device)'}", "return out")
    second = "any" if way == 2 else "@"
    text = w.one_of(("{0}, {1}", "*[{0}, {1}]", "{0}, *({1},)" if way == 0 else "{0}, extra={1}"))
    w.scopes[-1].callees.append(Callee(f"{name}({text})", (MAT, ("mat", second)), MAT))


def pair(w: Writer) -> None:
    """Several results."""
    name = w.fresh_name("split")
    with w.function(f"def {name}(x, y):"):
        w.bind("x", "mat", "@", fixed=True)
        w.bind("y", "mat", "@", fixed=True)
        if w.chance(0.5):
            body(w, 2)
        w.write(f"return {w.tensor('mat', '@')}, {w.tensor('vec', '@')}")
    calls = w.scopes[-1].callees
    calls.append(Callee(f"{name}({{0}}, {{1}})[0]", (MAT, MAT), MAT))
    calls.append(Callee(f"{name}(y={{0}}, x={{1}})[1]", (MAT, MAT), ("vec", "@")))
    calls.append(Callee(f"sum({name}({{0}}, {{1}}))", (MAT, MAT), MAT))


def generator(w: Writer) -> None:
    name = w.fresh_name("stream")
    moved = w.chance(0.6)
    with w.function(f"def {name}(x, n=2):"), w.block("for _ in range(n):"):
        w.write(f"yield x.to({w.device})" if moved and not w.slip() else "yield x")
    takes, gives = ((("mat", "any"),), ("mat", "home")) if moved else ((MAT,), MAT)
    calls = w.scopes[-1].callees
    calls.append(Callee(f"next({name}({{0}}))", takes, gives))
    calls.append(Callee(f"torch.stack(list({name}({{0}}))).sum(0)", takes, gives))
    calls.append(Callee(f"[t * 2 for t in {name}({{0}}, 3)][-1]", takes, gives))


def decorated(w: Writer) -> None:
    """A function whose decorator moves what it is given."""
    decorator, name = w.fresh_name("on_device"), w.fresh_name("compute")
    w.write(f"def {decorator}(fn):", "    def inner(*args):")
    w.write(f"        return fn(*(a.to({w.device}) for a in args))", "", "    return inner", "")
    with w.function(f"def {name}(x, y):", [] if w.slip() else [f"@{decorator}"]):
        w.bind("x", "mat", "home", fixed=True)
        w.bind("y", "mat", "home", fixed=True)
        w.write(f"return {w.tensor('mat', 'home')}")
    w.scopes[-1].callees.append(Callee(f"{name}({{0}}, {{1}})", (("mat", "any"), ("mat", "any")), ("mat", "home")))


def guarded(w: Writer) -> None:
    """Two nested tests, the inner one with an early return, the rest for what is left."""
    name = w.fresh_name("guarded")
    outer = w.one_of((flag(w), f"not {flag(w)}", "x.is_cuda", "not x.is_cuda"))
    with w.function(f"def {name}(x, y):"):
        for each in ("x", "y"):
            w.bind(each, "mat", "@", fixed=True)
        with w.block(f"if {outer}:"):
            with w.block(f"if {w.one_of((flag(w), 'y.is_cuda', 'y.dim() == 2'))}:"):
                returned(w, "mat")
            w.write(f"x, y = x.to({w.device}), y.to({w.device})", "return (x + y).cpu()")
        w.write(f"return x + y.to({w.one_of(('x.device', 'x'))})")
    w.scopes[-1].callees.append(Callee(f"history.append({name}({{0}}, {{1}})) or {{0}}", (MAT, MAT), MAT))


# Classes. A class adds a function that makes an object of it, and calls that use such an object.


def holder(w: Writer) -> None:
    """A data class, a named tuple or a plain class of two tensors, perhaps with a `to` of its own."""
    name = w.fresh_name("Pair")
    style = w.random.randrange(3)
    to = w.random.randrange(3)
    device = w.one_of(("device", "device", w.device))
    if style == 0:
        w.write("@dataclass")
        head, start = f"class {name}:", ["left: torch.Tensor", "right: torch.Tensor", ""]
    elif style == 1:
        head, start = f"class {name}(NamedTuple):", ["left: torch.Tensor", "right: torch.Tensor", ""]
        to = min(to, 1)
    else:
        head = f"class {name}:"
        start = ["def __init__(self, left, right):", "    self.left = left", "    self.right = right", ""]
    forgotten = w.slip()
    with w.block(head):
        w.write(*start)
        w.write("def to(self, device):")
        if to == 2:
            w.write(f"    self.left = self.left.to({device})")
            w.write(f"    {'' if forgotten else 'self.right = '}self.right.to({device})", "    return self")
        else:
            right = "self.right" if forgotten else f"self.right.to({device})"
            w.write(f"    return {name}(self.left.to({device}), {right})")
        w.write("", *(["@property"] if w.chance(0.5) else []))
        is_property = w.lines[-1].strip() == "@property"
        with w.function("def total(self):"):
            w.bind("self.left", "mat", "@", fixed=True)
            w.bind("self.right", "mat", "@", fixed=True)
            returned(w, "mat")
    w.holders.append((name, is_property, to == 2))


def callable_object(w: Writer) -> None:
    """An object that is called, and keeps a tensor at its place."""
    name, instance = w.fresh_name("Scale"), w.fresh_name("scale")
    with w.block(f"class {name}:"):
        w.write(
            "shift = torch.ones(4)" if w.chance(0.4) else "eps = 1e-6",
            "",
            "def __init__(self, by):",
            "    self.by = by",
            "",
        )
        shifted = any(line.strip() == "shift = torch.ones(4)" for line in w.lines[-5:])
        with w.function("def __call__(self, x):"):
            w.bind("x", "mat", "@", fixed=True)
            by = "self.by" if w.slip() else "self.by.to(x.device)"
            w.write(*([f"x = x + self.shift{'' if w.slip() else '.to(x)'}"] if shifted else []), f"return x * {by}")
    place = w.one_of(("home", "host"))
    w.write(f"{instance} = {name}({w.made('mat', place)})")
    w.scopes[-1].callees.append(Callee(f"{instance}({{0}})", (MAT,), MAT))


def network(w: Writer) -> None:
    """A module with parameters, buffers, plain tensors and parts, perhaps derived from another one."""
    name = w.fresh_name("Net")
    base = w.one_of(w.networks)[0] if w.networks and w.chance(0.3) else ""
    members: list[tuple[str, str, str]] = []  # name, kind, place
    parts: list[Callee] = []
    with w.block(f"class {name}({base or 'nn.Module'}):"):
        with w.function("def __init__(self, dim=4):"):
            w.write("super().__init__()")
            for _ in range(1 + w.random.randrange(4)):
                member(w, members, parts)
        forward(w, base, members, parts)
        if w.chance(0.2):
            w.write("", "@property", "def device(self):", "    return next(self.parameters()).device")
    w.networks.append((name, [each for each in members if each[2] == "@"]))


def member(w: Writer, members: list[tuple[str, str, str]], parts: list[Callee]) -> None:
    """One attribute of a module, set in its constructor."""
    attribute = w.fresh_name("m")
    me = f"self.{attribute}"
    way = w.random.randrange(8)
    if way <= 2:
        made = w.one_of(
            ("nn.Linear(dim, dim)", "nn.Linear(4, 4, bias=False)", "nn.Sequential(nn.Linear(4, 4), nn.ReLU())")
        )
        w.write(f"{me} = {made}")
        parts.append(Callee(f"{me}({{0}})", (MAT,), MAT))
        if "Seq" not in made:
            members.append((f"{attribute}.weight", "mat", "@"))
    elif way == 3:
        w.write(f"{me} = nn.Parameter(torch.{w.one_of(('ones', 'zeros', 'randn'))}(4, 4))")
        members.append((attribute, "mat", "@"))
    elif way == 4:
        if w.slip():
            w.write(f"{me} = torch.ones(4)")
        else:
            w.write(f'self.register_buffer("{attribute}", {w.one_of(("torch.ones(dim)", "torch.arange(4.0)"))})')
        members.append((attribute, "vec", "@"))
    elif way == 5:
        w.write(f"{me} = {w.one_of(('torch.ones(4, 4)', 'torch.eye(dim)'))}")
        members.append((attribute, "mat", "host"))
    elif way == 6:
        layers = "[nn.Linear(4, 4) for _ in range(2)]"
        w.write(f"{me} = {layers if w.slip() else f'nn.ModuleList({layers})'}")
        parts.append(Callee(f"{me}[1]({me}[0]({{0}}))", (MAT,), MAT))
    else:
        inner = [net for net in w.networks if net]
        made = f"{w.one_of(inner)[0]}()" if inner else "nn.LayerNorm(dim)"
        w.write(f"{me} = {made}")
        parts.append(Callee(f"{me}({{0}})", (MAT,), MAT))


def forward(w: Writer, base: str, members: list[tuple[str, str, str]], parts: list[Callee]) -> None:
    w.write("")
    with w.function("def forward(self, x, scale=None):"):
        if base:
            w.write("x = super().forward(x)")
        w.bind("x", "mat", "@", fixed=True)
        for name, kind, place in members:
            w.bind(f"self.{name}", kind, place, fixed=True)
        w.scopes[-1].callees += parts
        if w.chance(0.3):
            w.write("if scale is not None:", "    x = x * scale")
        for part in parts:
            w.write(f"x = {part.text.format('x')}")
        body(w, 3)
        w.write(f"return x + {w.tensor('mat', '@')}" if w.chance(0.5) else f"return {w.tensor('mat', '@')}")


FUNCTIONS = (function,) * 4 + (device_function, choosing, recursive, starred, pair, generator, decorated, guarded)
CLASSES = (holder, holder, callable_object) + (network,) * 4
