"""Torch's modules in random programs: made, moved, wrapped, hooked, and called."""

from __future__ import annotations

from tests.random_programs.writer import Callee, Writer


def use(w: Writer, text: str, takes: tuple[tuple[str, str], ...], gives: tuple[str, str]) -> None:
    """Makes something callable in this block, and mostly calls it at once."""
    callee = Callee(text, takes, gives)
    w.scopes[-1].callees.append(callee)
    if w.chance(0.8):
        place = w.place() if gives[1] == "@" else gives[1]
        result = w.called(callee, place)
        w.let(gives[0], place, f"{result}")


def module(w: Writer) -> None:
    """A library's module: made, moved, perhaps wrapped, and called."""
    name, place = w.fresh_name("net"), ("home" if w.chance(0.8) else w.place())
    plain = ["nn.Linear(4, 4)", "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))", "nn.LayerNorm(4)"]
    free = ["nn.ReLU()", "nn.Dropout(0.1)", "nn.Identity()", "nn.Softmax(dim=-1)"]
    if w.chance(0.25):
        w.write(f"{name} = {w.one_of(free)}" + w.one_of(("", f".to({w.device})")))
        place, gives = "@", "@"
    else:
        made = w.one_of(plain)
        way = w.random.randrange(4)
        device = w.spelt_device(place)
        if way == 0:
            w.write(f"{name} = {w.moved(made, place)}")
        elif way == 1:
            w.write(f"{name} = {made}", *([] if w.slip() else [f"{name}.to({device})"]))
        elif way == 2:
            w.write(f"{name} = nn.Linear(4, 4, device={device})")
        else:
            w.write(f"{name} = {made}", *([] if w.slip() else [f"{name} = {name}.to({device})"]))
        gives = place
        if place == "home" and w.chance(0.15):
            w.write(f"{name} = nn.DataParallel({name}, device_ids=[0])")
            w.let("mat", "home", f"{name}({w.tensor('mat', w.one_of(('home', 'host')))})")
            return
    use(w, f"{name}({{0}})", (("mat", place),), ("mat", gives))


def criterion(w: Writer) -> None:
    """A loss with or without parameters."""
    name = w.fresh_name("criterion")
    if w.chance(0.7):
        made = w.one_of(
            ("nn.MSELoss()", "nn.L1Loss()", 'nn.SmoothL1Loss(reduction="mean")', "nn.CosineSimilarity(dim=1)")
        )
        w.write(f"{name} = {made}" + w.one_of(("", "", ".cuda()", f".to({w.device})")))
        gives = "vec" if "Cosine" in made else "num"
        use(w, f"{name}({{0}}, {{1}})", (("mat", "@"), ("mat", "@")), (gives, "@"))
    else:
        w.write(f"{name} = {w.moved('nn.CrossEntropyLoss(weight=torch.ones(4))', 'home')}")
        use(w, f"{name}({{0}}, {{1}})", (("mat", "home"), ("index", "home")), ("num", "home"))


def hooked(w: Writer) -> None:
    """A module that is moved part by part, made at its place, or that moves its inputs by a hook."""
    name, device = w.fresh_name("net"), w.device
    made = "nn.Sequential(nn.Linear(4, 4), nn.ReLU())"
    takes = "home"
    way = w.random.randrange(4)
    if way == 0:
        w.write(f"{name} = nn.Sequential(nn.Linear(4, 4, device={device}), nn.ReLU())")
    elif way == 1:
        w.write(f"{name} = {made}", f"for part in {name}.children():", f"    part.to({device})")
    elif way == 2:
        w.write(f"{name} = {made}", f'{name}.get_submodule("0").to({device})')
    else:
        w.write(f"{name} = {made}.to({device})")
        w.write(f"{name}.register_forward_pre_hook(lambda module, args: tuple(a.to({device}) for a in args))")
        takes = "any"
    use(w, f"{name}({{0}})", (("mat", takes),), ("mat", "home"))


def changed(w: Writer) -> None:
    """A module that changes as a whole: taken off meta, copied, given other tensors, or turned to another type."""
    name, place = w.fresh_name("net"), ("home" if w.chance(0.8) else w.place())
    device, made = w.spelt_device(place), "nn.Linear(4, 4)"
    other = w.fresh_name("other")
    ways = (
        (f"with torch.device({device}):", f"    {name} = {made}"),
        ('with torch.device("meta"):', f"    {name} = {made}", f"{name}.to_empty(device={device})"),
        (f'{name} = nn.Linear(4, 4, device="meta").to_empty(device={device})',),
        (
            f'{name} = nn.Linear(4, 4, device="meta")',
            f"{name}.load_state_dict({made}.to({device}).state_dict(), assign=True)",
        ),
        (f"{name} = {made}", f"{name}.load_state_dict({made}.to({device}).state_dict())", f"{name}.to({device})"),
        (f"{other} = {made}.to({device})", f"{name} = copy.deepcopy({other})", f"{other}.cpu()"),
        (f"{other} = {made}", f"{name} = copy.deepcopy({other}).to({device})"),
        (f"{name} = {other} = {made}", f"{other}.to({device})"),
        (f"{name} = {made}.to({device}).double().float().requires_grad_(False).train()",),
        (f"{name} = {made}.cuda().half().to(torch.float32)", f"{name}.apply(lambda part: part.to({device}))"),
        (
            f"{name} = {made}",
            f"{name}.weight = nn.Parameter({name}.weight.to({device}))",
            f"{name}.bias = nn.Parameter({name}.bias.to({device}))",
        ),
        (
            f"{name} = {made}",
            f"for part in {name}.parameters():",
            f"    part.data = part.data.to({device})",
        ),
        (f"{name} = torch.nn.utils.parametrizations.weight_norm({made}).to({device})",),
        (f'{name} = nn.ModuleDict({{"a": {made}, "b": nn.ReLU()}}).to({device})["a"]',),
        (f"{name} = nn.ModuleList([{made}, nn.ReLU()])", f"{name}.to({device})", f"{name} = {name}[0]"),
        (f"{name} = nn.Sequential({made})", f'{name}.add_module("last", {made})', f"{name}.to({device})"),
        (f"{name} = getattr(nn, 'Linear')(4, 4)", f"getattr({name}, 'to')({device})"),
    )
    w.write(*w.one_of(ways))
    use(w, f"{name}({{0}})", (("mat", place),), ("mat", place))


def state(w: Writer) -> None:
    """What the state of a module holds: its own tensors, or copies of them."""
    name, place, device = w.fresh_name("net"), "home", w.device
    w.write(f"{name} = {w.moved('nn.Linear(4, 4)', place)}")
    way = w.random.randrange(4)
    states = w.fresh_name("state")
    if way == 0:
        w.write(f"{states} = {name}.state_dict()")
    elif way == 1:
        w.write(f"{states} = {{k: v.cpu() for k, v in {name}.state_dict().items()}}")
        place = "host"
    elif way == 2:
        buffer = w.fresh_name("file")
        w.write(f"{buffer} = io.BytesIO()", f"torch.save({name}.state_dict(), {buffer})", f"{buffer}.seek(0)")
        w.write(f'{states} = torch.load({buffer}, map_location="cpu")')
        place = "host"
    else:
        w.write(f"{states} = dict({name}.named_parameters())", f"{name}.to({device})")
    w.let("mat", place, f'{states}["weight"] @ {w.tensor("mat", place)}')
