"""Places through autograd. Its graph runs in C++ on host data; these are the doors where Python sees its tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction, Function, FunctionCtx

from devlint.runtime.places import accelerator, place_of
from devlint.runtime.virtual import engine
from devlint.runtime.virtual.engine import tag
from devlint.runtime.virtual.patching import Patches

Tensor = torch.Tensor
_Base: Any = torch._C._FunctionBase
_apply: Any = vars(Function)["apply"]
_backward: Any = BackwardCFunction.apply
_save_for_backward: Any = FunctionCtx.save_for_backward


def _place(value: Any) -> Any:
    return getattr(value, "_devlint_place", None)


def _apply_and_place(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`Function.apply`: outputs that alias an input get its place; the node remembers all places for backward."""
    result = _apply.__get__(None, cls)(*args, **kwargs)
    outputs = result if isinstance(result, tuple) else (result,)
    tensors = [value for value in args if isinstance(value, Tensor)]
    for output in outputs:
        if isinstance(output, Tensor) and _place(output) is None:
            for given in tensors:
                if _place(given) is not None and given is output._base:
                    output._devlint_place = _place(given)  # type: ignore[attr-defined]
    for output in outputs:
        node = output.grad_fn if isinstance(output, Tensor) else None
        if isinstance(node, BackwardCFunction):
            node._devlint_outputs = tuple(_place(value) for value in outputs)
            node._devlint_inputs = tuple(place_of(value) if isinstance(value, Tensor) else None for value in args)
            break
    return result


def _tag_each(tensors: Any, places: Any) -> None:
    for tensor, place in zip(tensors, places, strict=False):
        if isinstance(tensor, Tensor) and place is not None and _place(tensor) is None:
            tensor._devlint_place = place if place.type == accelerator.kind else None  # type: ignore[attr-defined]


def _backward_at_places(node: Any, *gradients: Any) -> Any:
    places = getattr(node, "_devlint_outputs", None)
    if places is None:
        return _backward(node, *gradients)
    _tag_each(gradients, places)
    results = _backward(node, *gradients)
    returned = results if isinstance(results, tuple) else (results,)
    for position, (gradient, place) in enumerate(zip(returned, node._devlint_inputs, strict=False)):
        if isinstance(gradient, Tensor) and place is not None and place_of(gradient) != place:
            raise RuntimeError(
                f"Function {type(node).__name__} returned an invalid gradient at index {position} - "
                f"expected device {place} but got {place_of(gradient)}"
            )
    return results


def _saved_tensors(node: Any) -> Any:
    saved = _Base.saved_tensors.__get__(node)
    _tag_each(saved, getattr(node, "_devlint_saved", ()))
    return saved


def _remember_saved(ctx: Any, *tensors: Any) -> None:
    ctx._devlint_saved = tuple(_place(tensor) for tensor in tensors)
    _save_for_backward(ctx, *tensors)


def _node_hook(original: Any, given: str) -> Callable[[Any, Any], Any]:
    """`node.register_hook` and `register_prehook` whose hooks see placed gradients."""

    def register(node: Any, hook: Any) -> Any:
        def placed(*gradients: Any) -> Any:
            for group, places in zip(gradients, (given, "_devlint_outputs"), strict=False):
                _tag_each(group, getattr(node, places, ()))
            return hook(*gradients)

        return original(node, placed)

    return register


# Nodes whose inputs are elsewhere than their outputs.
_MOVING_NODES = ("ToCopyBackward", "CopyBackwards", "CopySlices")


def _get_node(func: Any, args: Any, kwargs: Any) -> Any:
    """`tensor.grad_fn`: C++ hands its nodes' hooks gradients without a place, so a hook of ours comes first."""
    node, place = func(*args), args[0]._devlint_place
    if node is None or place is None or isinstance(node, BackwardCFunction) or "devlint" in node.metadata:
        return node
    node.metadata["devlint"] = True
    node.register_prehook(lambda gradients: _tag_each(gradients, [place] * len(gradients)))
    if not type(node).__name__.startswith(_MOVING_NODES):
        node.register_hook(lambda given, _: _tag_each(given, [place] * len(given)))
    for following, _ in node.next_functions:  # the way to a leaf's own node: `p.expand_as(p).grad_fn.next_functions`
        leaf = getattr(following, "variable", None)
        if leaf is not None and "devlint" not in following.metadata:
            following.metadata["devlint"] = True
            where = _place(leaf)
            following.register_prehook(lambda gradients, where=where: _tag_each(gradients, [where] * len(gradients)))
    return node


_grad_fn: Any = torch._C.TensorBase.grad_fn
engine.HANDLERS[_grad_fn.__get__] = _get_node


def _register_hook(tensor: Any, hook: Any) -> Any:
    place = _place(tensor)
    if place is None:
        return _tensor_register_hook(tensor, hook)
    return _tensor_register_hook(tensor, lambda gradient: hook(tag(gradient, place)))


_tensor_register_hook: Any = torch.Tensor.register_hook
_engine_run_backward: Any = torch.autograd.graph._engine_run_backward


def _run_backward(outputs: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
    """The engine: checks the places of the gradients given to it, and places those that it returns."""
    for position, (output, gradient) in enumerate(zip(outputs, gradients, strict=False)):
        if isinstance(gradient, Tensor) and isinstance(output, Tensor) and place_of(gradient) != place_of(output):
            raise RuntimeError(
                f"invalid gradient at index {position} - expected device {place_of(output)} but got "
                f"{place_of(gradient)}"
            )
    results = _engine_run_backward(outputs, gradients, *args, **kwargs)
    inputs = args[2] if len(args) > 2 else kwargs.get("inputs")
    if isinstance(results, tuple) and inputs:
        _tag_each(results, [_place(value) for value in inputs])
    return results


_hooks_init: Any = torch.autograd.graph.saved_tensors_hooks.__init__


def _running_place() -> Any:
    """The place at which the operator that is running now runs: read from the engine's frame, further up."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code is engine.run.__code__:
            return frame.f_locals.get("place")
        frame = frame.f_back
    return None


def _init_saved_tensors_hooks(hooks: Any, pack_hook: Any, unpack_hook: Any) -> None:
    """Autograd packs an operator's outputs before the engine has placed them."""

    def placed_pack(tensor: Any) -> Any:
        if _place(tensor) is None:
            place = _running_place()
            tensor._devlint_place = place if isinstance(place, torch.device) else None
        with engine.VirtualMode():  # off while an operator runs
            return pack_hook(tensor)

    _hooks_init(hooks, placed_pack, unpack_hook)


_make_subclass: Any = torch.Tensor._make_subclass


def _make_placed_subclass(cls: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """`nn.Parameter(data)` and its like: another object on the same data."""
    result = _make_subclass(cls, data, *args, **kwargs)
    place = _place(data)
    if place is not None:
        result._devlint_place = place
    return result


_as_subclass: Any = torch._C.TensorBase.as_subclass


def _as_placed_subclass(tensor: Any, cls: Any) -> Any:
    result = _as_subclass(tensor, cls)
    result._devlint_place = _place(tensor)
    return result


def _functorch_doors(patches: Patches) -> None:
    """vmap, grad and their like wrap tensors in new objects; the wrapped ones keep the place."""
    names = [
        "_add_batch_dim",
        "_remove_batch_dim",
        "_wrap_for_grad",
        "_unwrap_for_grad",
        "_unwrap_batched",
        "unwrap_if_dead",
        "get_unwrapped",
        "_wrap_functional_tensor",
        "_unwrap_functional_tensor",
    ]

    def keeping_place(original: Any) -> Any:
        def wrapped(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            if isinstance(result, Tensor) and _place(tensor) is not None:
                result._devlint_place = _place(tensor)  # type: ignore[attr-defined]
            return result

        return wrapped

    # Newer releases import them from torch._functorch.predispatch, older ones from torch._C._functorch.
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("torch._functorch") and module]
    for module in modules:
        for name in names:
            if name in vars(module):
                patches.set(module, name, keeping_place(vars(module)[name]))


def install(patches: Patches) -> None:
    """Opens the doors."""
    patches.set(Function, "apply", classmethod(_apply_and_place))
    patches.set(BackwardCFunction, "apply", _backward_at_places)
    patches.set(BackwardCFunction, "saved_tensors", property(_saved_tensors))
    patches.set(BackwardCFunction, "register_hook", _node_hook(_Base.register_hook, "_devlint_inputs"))
    patches.set(BackwardCFunction, "register_prehook", _node_hook(_Base.register_prehook, "_devlint_outputs"))
    patches.set(FunctionCtx, "save_for_backward", _remember_saved)
    patches.set(torch.Tensor, "register_hook", _register_hook)
    patches.set(torch.autograd, "_engine_run_backward", _run_backward)
    patches.set(torch.autograd.graph, "_engine_run_backward", _run_backward)
    patches.set(torch.autograd.graph.saved_tensors_hooks, "__init__", _init_saved_tensors_hooks)
    patches.set(torch.Tensor, "_make_subclass", staticmethod(_make_placed_subclass))
    patches.set(torch.Tensor, "as_subclass", _as_placed_subclass)
    _functorch_doors(patches)
