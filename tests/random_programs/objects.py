"""Objects of a random program's classes: how they are made, moved and used."""

from __future__ import annotations

from tests.random_programs.simple import target
from tests.random_programs.writer import Callee, Writer


def held(w: Writer) -> None:
    """An object that holds two tensors, moved by its own `to`."""
    if not w.holders:
        return
    cls, is_property, in_place = w.one_of(w.holders)
    name, place = w.fresh_name("pair"), w.place()
    w.write(f"{name} = {cls}({w.tensor('mat', place)}, right={w.tensor('mat', place)})")
    if w.chance(0.6):
        goal = target(w)
        device = w.spelt_device(goal)
        w.write(f"{name}.to({device})" if in_place or w.slip() else f"{name} = {name}.to({device})")
        place = goal
    w.bind(f"{name}.left", "mat", place, fixed=True)
    w.bind(f"{name}.right", "mat", place, fixed=True)
    w.let("mat", place, f"{name}.total{'' if is_property else '()'}")
    if w.chance(0.4):
        w.let("mat", place, f"{name}.left @ {w.tensor('mat', place, 1)}")


def network_used(w: Writer) -> None:
    """A module of the program's, moved in one of the usual ways, and called."""
    if not w.networks:
        return
    cls, attributes = w.one_of(w.networks)
    name, place = w.fresh_name("model"), ("home" if w.chance(0.85) else w.place())
    device = w.spelt_device(place)
    forgotten = w.slip() or place == "host"
    way = w.random.randrange(5)
    if way == 0:
        w.write(f"{name} = {cls}()" if forgotten else f"{name} = {cls}().to({device})")
    elif way == 1:
        w.write(f"{name} = {cls}(dim=4)", *([] if forgotten else [f"{name}.to({device})"]))
    elif way == 2:
        w.write(f"{name} = {cls}().eval()", *([] if forgotten else [f"{name} = {name}.to({device})"]))
    elif way == 3:
        w.write(f"{name} = {cls}()")
        if not forgotten:
            with w.block(f"for p in [*{name}.parameters(), *{name}.buffers()]:"):
                w.write(f"p.data = p.data.to({device})")
    else:
        other = w.fresh_name("loss_fn")
        w.write(f"{name}, {other} = {cls}(), nn.MSELoss()")
        if not forgotten:
            w.write(f"for m in ({name}, {other}):", f"    m.to({device})")
    inner = name
    if place == "home" and w.chance(0.12):
        w.write(f"{name} = nn.DataParallel({name}, device_ids=[0])")
        inner = f"{name}.module"
    for attribute, kind, _ in attributes:
        w.bind(f"{inner}.{attribute}", kind, place, fixed=True)
    # What is replicated is cut along its first dimension, which a 0-dim tensor hasn't.
    scale = w.one_of(("", "", ", scale={1}")) if inner == name else ""
    takes = (("mat", place), ("num", place))
    callee = Callee(f"{name}({{0}}{scale})", takes[: 1 + bool(scale)], ("mat", place))
    w.scopes[-1].callees.append(callee)
    w.let("mat", place, f"{w.called(callee, place)}")


def trained(w: Writer) -> None:
    """A short training loop."""
    name, place = w.fresh_name("student"), "home"
    w.write(f"{name} = {w.moved('nn.Linear(4, 4)', place)}")
    w.write(f"optimizer = torch.optim.{w.one_of(('SGD', 'Adam'))}({name}.parameters(), lr=0.1)")
    data, goal = w.tensor("mat", place), w.tensor("mat", place)
    with w.block("with torch.enable_grad():"), w.block("for epoch in range(2):"):
        w.write("optimizer.zero_grad()", f"loss = F.mse_loss({name}({data}), {goal})")
        w.write(
            "loss.backward()", "optimizer.step()", w.one_of(("history.append(loss.item())", "history.append(loss)"))
        )
