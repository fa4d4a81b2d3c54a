"""The simple statements of random programs: how code names, changes, moves and collects tensors."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_programs.expressions import IN_PLACE, LOOKS
from tests.random_programs.writer import Writer, atom

Statement = Callable[[Writer], None]


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


def by_other_ways(w: Writer) -> None:
    """A tensor that is made, taken or moved in one of the less usual ways."""
    place = target(w)
    device, text, near = w.spelt_device(place), atom(w.tensor("mat", "any", 1)), ensure(w, "mat", place)
    result = w.fresh_name("x")
    ways = [
        [f"{result} = torch.as_tensor({text}, device={device})"],
        [f"{result} = torch.asarray({text}, device={device})"],
        [f"{result} = torch.tensor({text}.tolist(), device={device})"],
        [f"{result} = torch.empty_like({text}, device={device}).fill_(1)"],
        [f"{result} = {near}.new_tensor({text}.tolist())"],
        [f"{result} = {text}.new_full((4, 4), 1.0, device={device})"],
        [f"{result} = {text}.to({device}, torch.float32, copy=True)"],
        [f"{result} = {text}.to(tensor={near})"],
        [f"with torch.device({device}):", f"    {result} = torch.ones(4, 4)"],
        [f"{result} = {text}.clone()", f"{result}.data = {near}.clone()"],
        [f"{result} = torch.empty(4, 4, device={device})", f"{result}.copy_({text})"],
        [f"{result} = getattr({text}, 'to')({device})"],
        [f"if ({result} := {text}.to({device})) is not None:", f"    {result} = {result} * 2"],
        [f"{result} = kept = {near}.clone()", "kept += 0.5"],
        [f"{result}, *others = [part.to({device}) for part in [{text}, {near}]]"],
        [f"{result} = functools.reduce(lambda a, b: a + b.to(a), [{near}, {text}])"],
        [f"{result} = next(itertools.chain([{text}.to({device})], []))"],
        [f"{result} = {{'a': {text}}} | {{'a': {near}}}", f"{result} = {result}['a']"],
        [f"{result} = max([{text}.to({device})], key=len)"],
        [f"first, {result} = {text}, {near}", f"first, {result} = {result}, first", f"{result} = first"],
        [f"{result} = [*map(torch.Tensor.clone, ({near},))][0]"],
        [f"{result} = torch.stack([*zip([{near}], [{near}])][0]).sum(0)"],
        [f"{result} = sorted([{near}], key=id)[0]"],
    ]
    if place == "home":
        ways += [
            [f'{result} = {text}.to(f"cuda:{{0}}")'],
            [f'{result} = {text}.to(torch.device("cuda", 0))'],
            [f'{result} = {text}.to("cuda:" + str(0))'],
            [f"{result} = {text}.cuda(0, non_blocking=True)"],
            [f"{result} = {text}.to(0)"],
            ["with torch.cuda.device(0):", f"    {result} = {text}.cuda()"],
            [f'{result} = {text}.to("cuda" if torch.cuda.device_count() > 0 else "cpu")'],
        ]
    w.write(*w.one_of(ways))
    w.bind(result, "mat", place)
    w.let("mat", place, f"{result} + {w.tensor('mat', place, 1)}")


# The statements that need no block, by how often they come.
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
    attributes,
    by_other_ways,
    by_other_ways,
    inline_function,
)
