"""The statements of random programs: how code moves, collects, branches and loops over tensors."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_programs.expressions import IN_PLACE, LOOKS
from tests.random_programs.writer import Callee, Writer

Statement = Callable[[Writer], None]


def body(w: Writer, most: int = 4) -> None:
    """Some statements."""
    for _ in range(1 + w.random.randrange(most)):
        statement(w)


def statement(w: Writer) -> None:
    """One statement, with those it needs."""
    nested = w.indent - w.in_function >= 3
    w.one_of(SIMPLE if nested or w.chance(0.6) else COMPOUND)(w)


def ensure(w: Writer, kind: str, place: str) -> str:
    """A name of this block that may be rebound, for a tensor of a kind at a place."""
    known = w.own(place, kind)
    if known and w.chance(0.7):
        return w.one_of(known)
    text = w.tensor(kind, place)
    name = w.new(kind, place)
    w.write(f"{name} = {text}")
    return name


def target(w: Writer) -> str:
    """A place to move to."""
    return "there" if w.chance(0.05) else ("home" if w.chance(0.75) else "host")


# Simple ones


def assign(w: Writer) -> None:
    kind, place = w.kind(), w.place()
    text = w.tensor(kind, place)
    if w.chance(0.1):
        name = w.new(kind, place)
        w.write(f"{name}: torch.Tensor = {text}")
        return
    own = w.own(place, kind)
    name = w.one_of(own) if own and w.chance(0.2) else w.new(kind, place)
    w.write(f"{name} = {text}")


def assign_two(w: Writer) -> None:
    kind, place = w.kind(), w.place()
    one, two = w.tensor(kind, place), w.tensor("mat", place)
    first, second = w.new(kind, place), w.new("mat", place)
    w.write(f"{first}, {second} = {one}, {two}")


def change(w: Writer) -> None:
    kind = w.kind()
    name = ensure(w, kind, w.place())
    place = w.value(name).place
    w.write(w.filled(w.one_of(IN_PLACE[kind]), place, 1, x=name))


def look(w: Writer) -> None:
    place = w.place()
    text = w.filled(w.one_of(LOOKS), place, 1)
    w.write(text)


def move(w: Writer) -> None:
    """Rebound, under a new name, or dropped."""
    name = ensure(w, w.kind(), w.place())
    kind, place = w.value(name).kind, target(w)
    moved = w.moved(name, place, kind)
    if w.slip():
        w.write(moved)
    elif w.chance(0.3):
        w.let(kind, place, f"{moved}")
    else:
        w.write(f"{name} = {moved}")


def move_two(w: Writer) -> None:
    place = target(w)
    one, two = ensure(w, "mat", w.place()), ensure(w, w.kind(), w.place())
    kinds = w.value(one).kind, w.value(two).kind
    way = w.random.randrange(3)
    if way == 0:
        w.write(f"{one}, {two} = {w.moved(one, place)}, {w.moved(two, place)}")
    elif way == 1:
        w.write(f"{one}, {two} = (t.to({w.spelt_device(place)}) for t in ({one}, {two}))")
    else:
        w.write(f"{one}, {two} = [t.to({w.spelt_device(place)}) for t in [{one}, {two}]]")
    w.bind(one, kinds[0], place)
    w.bind(two, kinds[1], place)


def items(w: Writer) -> None:
    """A list or tuple, perhaps moved as a whole, whose items are then used."""
    place = w.place()
    name = w.fresh_name("xs")
    texts = [w.tensor("mat", place) for _ in range(2)]
    is_tuple = w.chance(0.3)
    w.write(f"{name} = ({texts[0]}, {texts[1]})" if is_tuple else f"{name} = [{texts[0]}, {texts[1]}]")
    if w.chance(0.6):
        place = target(w)
        device = w.spelt_device(place)
        ways = [
            [f"{name} = [x.to({device}) for x in {name}]"],
            [f"{name} = [x.to({device}) for x in {name}]"],
            [f"{name} = list(map(lambda x: x.to({device}), {name}))"],
            [f"{name} = tuple(x.to({device}) for x in {name})"],
        ]
        if not is_tuple:
            ways += [
                [f"for i in range(len({name})):", f"    {name}[i] = {name}[i].to({device})"],
                [f"for i, x in enumerate({name}):", f"    {name}[i] = x.to({device})"],
                [f"{name}[0] = {name}[0].to({device})", f"{name}[1] = {name}[1].to({device})"],
                [f"{name}[:] = [x.to({device}) for x in {name}]"],
            ]
        if w.slip():
            ways = [[f"for x in {name}:", f"    x = x.to({device})"], [f"[x.to({device}) for x in {name}]"]]
        w.write(*w.one_of(ways))
        is_tuple = is_tuple or "= tuple" in w.lines[-1]
    first, second = (f"{name}[0]", f"{name}[1]")
    if w.chance(0.5):
        w.bind(first, "mat", place, fixed=is_tuple)
        w.bind(second, "mat", place, fixed=is_tuple)
    use = w.random.randrange(6)
    if use == 0:
        one, two = w.new("mat", place), w.new("mat", place)
        w.write(f"{one}, {two} = {name}")
    elif use == 1:
        w.let("mat", place, f"torch.stack({name}).sum(0)")
    elif use == 2:
        extra = w.tensor("mat", place)
        result = w.new("mat", place)
        w.write(f"{result} = torch.cat([*{name}, {extra}])[2:6]")
    elif use == 3:
        total = ensure(w, "mat", place)
        w.write(f"for part in {name}:", f"    {total} = {total} + part")
    elif use == 4 and not is_tuple:
        w.write(f"{name}.append({w.tensor('mat', place)})")
        w.let("mat", place, f"{name}[-1] @ {name}[0]")
    else:
        w.let("mat", place, f"{first} * {second}")


def mapping(w: Writer) -> None:
    """A dictionary, perhaps moved as a whole."""
    place = w.place()
    name = w.fresh_name("batch")
    one, two = w.tensor("mat", place), w.tensor("mat", place)
    w.write(w.one_of((f'{name} = {{"x": {one}, "y": {two}}}', f"{name} = dict(x={one}, y={two})")))
    if w.chance(0.6):
        place = target(w)
        device = w.spelt_device(place)
        ways = [
            [f"{name} = {{k: v.to({device}) for k, v in {name}.items()}}"],
            [f"for k in {name}:", f"    {name}[k] = {name}[k].to({device})"],
            [f"for k, v in {name}.items():", f"    {name}[k] = v.to({device})"],
            [f'{name}["x"] = {name}["x"].to({device})', f'{name}["y"] = {name}["y"].to({device})'],
            ['for key in ("x", "y"):', f"    {name}[key] = {name}[key].to({device})"],
            [f"{name}.update({{k: v.to({device}) for k, v in {name}.items()}})"],
            [f'{name}.update(x={name}["x"].to({device}), y={name}["y"].to({device}))'],
            [f"for k in list({name}.keys()):", f"    {name}[k] = {name}.pop(k).to({device})"],
        ]
        if w.slip():
            ways = [
                [f"for v in {name}.values():", f"    v = v.to({device})"],
                [f'{name}["x"] = {name}["x"].to({device})'],
                [f"for k in {name}:", f"    {name}[k].to({device})"],
            ]
        w.write(*w.one_of(ways))
    x, y = f'{name}["x"]', f'{name}["y"]'
    w.bind(x, "mat", place)
    w.bind(y, "mat", place)
    use = w.random.randrange(5)
    if use == 0:
        w.let("mat", place, f"{x} @ {y}")
    elif use == 1:
        w.let("mat", place, f"{name}.get({w.one_of(('chr(120)', repr('y')))}) + {w.tensor('mat', place)}")
    elif use == 2:
        one, two = w.new("mat", place), w.new("mat", place)
        w.write(f"{one}, {two} = {name}.values()")
    elif use == 3:
        w.let("mat", place, f"sum({name}.values())")


def called(w: Writer) -> None:
    """A call of something defined, with one result."""
    callees = [c for c in w.callees() if c.gives[1] in ("@", *w.places())]
    if not callees:
        return assign(w)
    callee = w.one_of(callees)
    place = w.place() if callee.gives[1] == "@" else callee.gives[1]
    text = w.called(callee, place)
    w.let(callee.gives[0], place, f"{text}")


def inline_function(w: Writer) -> None:
    """A lambda, a partial, a closure or a generator that is used at once."""
    place = w.place()
    name = w.fresh_name("fn")
    way = w.random.randrange(5)
    argument, near = w.tensor("mat", place), ensure(w, "mat", place)
    device, others = w.spelt_device(place), w.tensor("mat", "any")
    result = w.new("mat", place)
    if way == 0:
        w.write(f"{name} = lambda t: t + {near}", f"{result} = {name}({argument})")
    elif way == 1:
        w.write(f"{name} = functools.partial(torch.add, {near})", f"{result} = {name}({argument})")
    elif way == 2:
        w.write(f"def {name}(t, scale=2.0):")
        inner = w.one_of(("return t * scale + {near}", "t = t.to({near}.device)", "t = t * {near}"))
        w.write("    " + inner.format(near=near), *([] if inner.startswith("return") else ["    return t"]))
        w.write(f"{result} = {name}({argument})" + w.one_of(("", f" + {near}")))
    elif way == 3:
        w.write(f"def {name}(parts):", "    for part in parts:", f"        yield part.to({device})")
        w.write(f"{result} = sum({name}([{others}, {argument}])) + {near}")
    else:
        w.write(f"{name} = {{'add': torch.add, 'mul': torch.mul}}", f"{result} = {name}['mul']({argument}, {near})")


SIMPLE: tuple[Statement, ...] = (
    *[assign] * 6,
    *[change] * 3,
    *[called] * 5,
    *[move] * 3,
    look,
    look,
    assign_two,
    move_two,
    items,
    mapping,
    inline_function,
)


# Compound ones


def flag(w: Writer) -> str:
    return w.one_of(w.flags)


def branch(w: Writer) -> None:
    """Statements under a flag."""
    with w.block(f"if {w.one_of(('', 'not '))}{flag(w)}:"):
        body(w, 3)
    if w.chance(0.5):
        with w.block("else:"):
            body(w, 2)


def both_ways(w: Writer) -> None:
    """A value that a branch brings to the same place either way."""
    place, kind = target(w), w.kind()
    name = ensure(w, kind, "host")
    with w.block(f"if {flag(w)}:"):
        w.write(f"{name} = {w.moved(name, place)}")
    with w.block("else:"):
        w.write(f"{name} = {w.made(kind, place)}")
    w.bind(name, kind, place)


def one_way(w: Writer) -> None:
    """Values that move together where a flag is set, and then have a place of their own."""
    name = flag(w)
    place = f"if {name}"
    both = [ensure(w, "mat", "host"), ensure(w, w.kind(), "host")]
    kinds = [w.value(each).kind for each in both]
    way = w.random.randrange(4)
    if way == 0:
        with w.block(f"if {name}:"):
            w.write(*(f"{each} = {each}.cuda()" for each in both))
    elif way == 1:
        where = w.fresh_name("where")
        w.write(f'{where} = {w.device} if {name} else "cpu"')
        w.write(*(f"{each} = {each}.to({where})" for each in both))
    elif way == 2:
        with w.block(f"if not {name}:"):
            w.write(f"{both[0]} = {both[0]}.cpu()")
        with w.block("else:"):
            w.write(f"{both[0]} = {both[0]}.to({w.device})")
        w.write(f"{both[1]} = {both[1]}.to({both[0]}.device)")
    else:
        w.write(*(f"{each} = {each}.cuda() if {name} else {each}" for each in both))
    for each, kind in zip(both, kinds, strict=True):
        w.bind(each, kind, place)
    with w.block(f"if {name}:"):
        w.write(f"history.append({w.tensor('mat', place, 1)} + {w.tensor('mat', 'home', 1)})")


def nested_flags(w: Writer) -> None:
    """Two nested ifs, the inner one deciding."""
    one, two = flag(w), flag(w)
    name, other = ensure(w, "mat", "host"), ensure(w, "mat", "host")
    with w.block(f"if {one}:"), w.block(f"if {two}:"):
        w.write(f"{name} = {name}.cuda()", f"{other} = {other}.to({w.device})")
    result = w.fresh_name("x")
    w.write(f"{result} = {name} + {other}")
    w.write(f"{name}, {other} = {name}.cpu(), {w.moved(other, 'host')}")
    for each in (name, other):
        w.bind(each, "mat", "host")


def device_test(w: Writer) -> None:
    """A test of where a tensor is."""
    name, other = ensure(w, "mat", w.place()), ensure(w, "mat", w.place())
    place = w.value(name).place
    test = w.one_of((f"{name}.is_cuda", f'{name}.device.type == "cuda"', f"{name}.device != {other}.device"))
    with w.block(f"if {test}:"):
        w.write(f"{other} = {other}.to({name}.device)")
    if "!=" not in test:
        with w.block("else:"):
            w.write(f"{other} = {other}.cpu()")
    w.bind(other, "mat", place)
    w.let("mat", place, f"{other} + {name}")


def attempt(w: Writer) -> None:
    """A move or a computation under `try`."""
    way = w.random.randrange(3)
    if way == 0:
        kind = w.kind()
        name = ensure(w, kind, "host")
        with w.block("try:"):
            w.write(f"{name} = {w.moved(name, 'home')}")
        with w.block(w.one_of(("except RuntimeError:", "except Exception as error:"))):
            w.write(w.one_of(('print("no accelerator")', "pass", "raise")))
        w.bind(name, kind, "home")
        if w.chance(0.5):
            w.let("mat", "home", f"{w.tensor('mat', 'home', 1)} * {w.tensor('mat', 'home', 1)}")
    elif way == 1:
        place = w.place()
        name = ensure(w, "mat", place)
        other = w.tensor("mat", "any", 1)
        with w.block("try:"):
            w.write(f"{name} = {name} + {other}")
        with w.block("except RuntimeError:"):
            w.write(f"{name} = {name} * 2")
        w.bind(name, "mat", place)
    else:
        with w.block("try:"):
            body(w, 2)
        with w.block("finally:"):
            look(w)


def loop(w: Writer) -> None:
    """A loop over numbers, tensors or until something; with moves, breaks and an else."""
    way = w.random.randrange(5)
    if way == 0:
        with w.block(f"for step in range({1 + w.random.randrange(3)}):"):
            body(w, 3)
            if w.chance(0.3):
                w.write("if step > 0:", f"    {w.one_of(('break', 'continue'))}")
        if w.chance(0.2):
            with w.block("else:"):
                body(w, 2)
    elif way == 1:
        place = w.place()
        total, part = ensure(w, "mat", place), w.fresh_name("part")
        sources = [w.tensor("mat", "any", 1) for _ in range(2)]
        with w.block(f"for {part} in ({sources[0]}, {sources[1]}):"):
            w.write(f"{part} = {w.moved(part, place)}")
            w.bind(part, "mat", place)
            w.write(w.one_of((f"{total} = {total} + {part}", f"{total} += {part}")))
            body(w, 1)
    elif way == 2:
        kind = w.kind()
        name, tries = ensure(w, kind, "host"), w.fresh_name("tries")
        w.write(f"{tries} = 0")
        with w.block(f"while {tries} < 2:"):
            w.write(f"{name} = {w.moved(name, 'home')}", f"{tries} += 1")
        w.bind(name, kind, "home")
    elif way == 3:
        place = w.place()
        source = w.tensor("mat", place, 1)
        rows, name = w.fresh_name("rows"), w.fresh_name("x")
        w.write(f"{rows} = []")
        with w.block(f"for row in {source}:"):
            w.bind("row", "vec", place)
            w.write(f"{rows}.append({w.tensor('vec', place, 1)})")
        w.bind(name, "mat", place)
        w.write(f"{name} = torch.stack({rows})")
    else:
        name = ensure(w, "mat", "host")
        with w.block(f"while not {name}.is_cuda:"):
            w.write(f"{name} = {name}.cuda()")
        w.bind(name, "mat", "home")


def matched(w: Writer) -> None:
    """A match on a constant, a type or a device's name."""
    kind = w.kind()
    name = ensure(w, kind, w.place())
    device = w.spelt_device("home")
    way = w.random.randrange(3)
    if way == 0:
        with w.block(f"match {name}.device.type:"):
            w.write('case "cuda":', "    pass", "case _:", f"    {name} = {name}.to({device})")
    elif way == 1:
        thing = w.fresh_name("thing")
        w.write(f"{thing} = {name}")
        with w.block(f"match {thing}:"):
            w.write("case nn.Module():", f"    {thing}.to({device})")
            w.write("case torch.Tensor():", f"    {name} = {thing}.to({device})")
    else:
        with w.block(f"match {flag(w)}:"):
            w.write("case True:", f"    {name} = {w.moved(name, 'home')}")
            w.write("case _:", f"    {name} = {w.made(kind, 'home')}")
    w.bind(name, kind, "home")


def loader(w: Writer) -> None:
    """A loop over a data loader, with or without a collate function."""
    data, batches = w.fresh_name("data"), w.fresh_name("loader")
    here = w.place() if w.chance(0.15) else "host"
    w.write(f"{data} = torch.utils.data.TensorDataset({w.tensor('mat', here)}, {w.tensor('vec', here)})")
    place, extra = here, ""
    if w.chance(0.35):
        place = "home"
        collate, device = w.fresh_name("collate"), w.spelt_device("home")
        with w.block(f"def {collate}(rows):"):
            w.write("xs, ys = zip(*rows)")
            w.write(f"return torch.stack(xs).to({device}), torch.stack(ys).to({device})")
        extra = f", collate_fn={collate}"
    w.write(f"{batches} = torch.utils.data.DataLoader({data}, batch_size=4{extra})")
    with w.block(w.one_of((f"for xb, yb in {batches}:", f"for step, (xb, yb) in enumerate({batches}):"))):
        for name, kind in (("xb", "mat"), ("yb", "vec")):
            w.bind(name, kind, place)
            if place == "host" and not w.slip() and w.chance(0.9):
                w.write(f"{name} = {w.moved(name, 'home')}")
                w.bind(name, kind, "home")
        now = w.value("xb").place
        w.write(f"pred = {w.tensor('mat', now, 2)}")
        w.bind("pred", "mat", now)
        w.write(
            f"loss = {w.filled(w.one_of(('(<mat> * xb).mean()', 'F.mse_loss(pred, xb)', '(pred + yb).sum()')), now)}"
        )
        body(w, 2)


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


def use(w: Writer, text: str, takes: tuple[tuple[str, str], ...], gives: tuple[str, str]) -> None:
    """Makes something callable in this block, and mostly calls it at once."""
    callee = Callee(text, takes, gives)
    w.scopes[-1].callees.append(callee)
    if w.chance(0.8):
        place = w.place() if gives[1] == "@" else gives[1]
        result = w.called(callee, place)
        w.let(gives[0], place, f"{result}")


def never(w: Writer) -> None:
    """A move that is never made, or always."""
    name = ensure(w, "mat", "host")
    moved = f"{name} = {name}.to({w.device})"
    head, place = w.one_of(
        (("if False:", "host"), ("for _ in range(0):", "host"), ("if 1 > 2:", "host"), ("if True:", "home"))
    )
    w.write(head, f"    {moved}")
    w.bind(name, "mat", place)


def attributes(w: Writer) -> None:
    """An object's attributes, written through another name, by `setattr`, or in a loop over their names."""
    place, name = target(w), w.fresh_name("state")
    one, two = w.tensor("mat", "any", 1), w.tensor("mat", "any", 1)
    device = w.spelt_device(place)
    w.write(f"{name} = types.SimpleNamespace(a={one}, b={two})")
    way = w.random.randrange(4)
    if way == 0:
        w.write('for key in ("a", "b"):', f"    setattr({name}, key, getattr({name}, key).to({device}))")
    elif way == 1:
        w.write(f"alias = {name}", f"alias.a, alias.b = alias.a.to({device}), alias.b.to({device})")
    elif way == 2:
        w.write(f"for key, value in vars({name}).items():", f"    setattr({name}, key, value.to({device}))")
    else:
        w.write(f"{name}.a = {w.moved(f'{name}.a', place)}", f"{name}.b = {w.moved(f'{name}.b', place)}")
    w.bind(f"{name}.a", "mat", place)
    w.bind(f"{name}.b", "mat", place)
    w.let("mat", place, f"{name}.a + {name}.b")


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


COMPOUND: tuple[Statement, ...] = (
    never,
    attributes,
    attributes,
    hooked,
    branch,
    branch,
    both_ways,
    one_way,
    nested_flags,
    device_test,
    attempt,
    attempt,
    loop,
    loop,
    loop,
    matched,
    loader,
    module,
    module,
    criterion,
)
