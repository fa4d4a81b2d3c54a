"""The compound statements of random programs: how code branches, tries and loops over tensors."""

from __future__ import annotations

from tests.random_programs.modules import changed, criterion, hooked, module, state
from tests.random_programs.simple import SIMPLE, Statement, ensure, look, target
from tests.random_programs.writer import Writer


def body(w: Writer, most: int = 4) -> None:
    """Some statements."""
    for _ in range(1 + w.random.randrange(most)):
        statement(w)


def statement(w: Writer) -> None:
    """One statement, with those it needs."""
    nested = w.indent - w.in_function >= 3
    w.one_of(SIMPLE if nested or w.chance(0.6) else COMPOUND)(w)


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


def never(w: Writer) -> None:
    """A move that is never made, or always."""
    name = ensure(w, "mat", "host")
    moved = f"{name} = {name}.to({w.device})"
    head, place = w.one_of(
        (("if False:", "host"), ("for _ in range(0):", "host"), ("if 1 > 2:", "host"), ("if True:", "home"))
    )
    w.write(head, f"    {moved}")
    w.bind(name, "mat", place)


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


def first_pass(w: Writer) -> None:
    """A tensor that the first pass of a loop makes or moves, or all others do."""
    name, place = ensure(w, "mat", w.place()), w.place()
    with w.block(w.one_of(("if step == 0:", "if not step:", "if step > 0:", "if step != 0:"))):
        w.write(w.one_of((f"{name} = {w.moved(name, place)}", f"{name} = {w.tensor('mat', place, 1)} * 2")))
    if w.chance(0.7):
        with w.block("else:"):
            w.write(f"{name} = {name} + {w.tensor('mat', place, 1)}")
    w.bind(name, "mat", place)


def loop(w: Writer) -> None:
    """A loop over numbers, tensors or until something; with moves, breaks and an else."""
    way = w.random.randrange(5)
    if way == 0:
        with w.block(f"for step in range({1 + w.random.randrange(3)}):"):
            body(w, 3)
            if w.chance(0.3):
                w.write("if step > 0:", f"    {w.one_of(('break', 'continue'))}")
            elif w.chance(0.3):
                first_pass(w)
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
    """A loop over a data loader: of tensors or of a data set's own rows, with or without a collate function."""
    data, batches = w.fresh_name("data"), w.fresh_name("loader")
    place, extra = w.place() if w.chance(0.15) else "host", ""
    device = w.spelt_device("home")
    one, two = w.tensor("mat", place), w.tensor("vec", place)
    if w.chance(0.3):
        rows, moves = w.fresh_name("Rows"), w.chance(0.3)
        w.write(f"class {rows}(torch.utils.data.Dataset):", "    def __init__(self, xs, ys):")
        w.write("        self.xs, self.ys = xs, ys", "", "    def __len__(self):", "        return len(self.xs)", "")
        w.write("    def __getitem__(self, i):")
        w.write(f"        return self.xs[i]{f'.to({device})' * moves}, self.ys[i]{f'.to({device})' * moves}", "")
        w.write(f"{data} = {rows}({one}, {two})")
        place = "home" if moves else place
    else:
        w.write(f"{data} = torch.utils.data.TensorDataset({one}, {two})")
    if w.chance(0.35):
        collate, place = w.fresh_name("collate"), "home"
        with w.block(f"def {collate}(rows):"):
            w.write("xs, ys = zip(*rows)")
            w.write(f"return torch.stack(xs).to({device}), torch.stack(ys).to({device})")
        extra = f", collate_fn={collate}"
    w.write(f"{batches} = torch.utils.data.DataLoader({data}, batch_size=4{extra})")
    whole = w.chance(0.3)
    heads = ("for xb, yb in {}:", "for step, (xb, yb) in enumerate({}):")
    with w.block(f"for batch in {batches}:" if whole else w.one_of(heads).format(batches)):
        if whole:
            moved = place == "host" and not w.slip()
            w.write(f"xb, yb = [part.to({device}) for part in batch]" if moved else "xb, yb = batch")
            place = "home" if moved else place
        for name, kind in (("xb", "mat"), ("yb", "vec")):
            w.bind(name, kind, place)
            if place == "host" and w.chance(0.9):
                w.write(f"{name} = {w.moved(name, 'home', kind)}")
                w.bind(name, kind, "home")
        now = w.value("xb").place
        w.let("mat", now, w.tensor("mat", now))
        w.write(
            w.filled(
                w.one_of(("loss = (<mat> * xb).mean()", "loss = F.mse_loss(xb, <mat>)", "loss = (<mat> + yb).sum()")),
                now,
            )
        )
        body(w, 2)


COMPOUND: tuple[Statement, ...] = (
    never,
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
    changed,
    changed,
    state,
    criterion,
)
