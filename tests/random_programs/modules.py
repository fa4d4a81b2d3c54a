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
