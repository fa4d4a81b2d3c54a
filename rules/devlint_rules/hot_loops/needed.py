"""Readings that nobody would take out of a loop: the host waits there anyway, or has to know the value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import calls_in, dotted, last_name, own_nodes, walk
from devlint.lazy import regex
from devlint_rules.hot_loops import stalls

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop

# What makes processes agree on a value; a loop in one of them mustn't go on alone.
_COLLECTIVES = frozenset({"all_reduce", "broadcast", "all_gather", "reduce", "all_gather_into_tensor"})
_FLAGS = frozenset({"stop", "stopped", "stopping", "done", "finished", "abort", "exit"})
# Reads one image, or one recording, from a disk.
_READERS = frozenset(
    {
        "imread",
        "read_image",
        "load_image",
        "load_img",
        "decode_image",
        "decode_jpeg",
        "read_video",
        "imdecode",
        "open_image",
    }
)
_READERS_BY_PATH = frozenset(
    {"Image.open", "PIL.Image.open", "torchaudio.load", "librosa.load", "sf.read", "soundfile.read"}
)
# Calls that write a file, encode an image or a recording, or answer a request: they need their bytes on the host, now.
WRITERS = frozenset(
    {"imwrite", "imsave", "imencode", "savefig", "save_image", "save", "savez", "savez_compressed", "savetxt", "tofile",
     "fromarray", "write", "writeframes", "write_frame", "write_video", "writerow", "writerows", "append_data", "dump",
     "dumps", "to_csv", "to_parquet", "tobytes", "jsonify", "make_response", "Response", "JSONResponse", "send",
     "sendall", "send_bytes", "send_text", "b64encode", "create_dataset"}
)  # fmt: skip
# Methods that write what they are given: of progress bars, loggers and TensorBoard's writer (its `make_np` copies to the
# host). `debug` is left out: such messages are mostly not formatted at all.
TEXT_METHODS = frozenset(
    {"set_postfix", "set_postfix_str", "set_description", "set_description_str", "info", "warning", "warn", "error", "critical",
     "exception", "add_scalar", "add_scalars", "add_histogram"}
)  # fmt: skip
# Calls that make text of numbers.
_TELLERS = frozenset(
    {"decode", "batch_decode", "detokenize", "convert_ids_to_tokens", "convert_ids_to_string", "ids_to_tokens",
     "ids_to_text", "map_ids_to_strs"}
)  # fmt: skip
# Functions of a project's own that do: `save_img`, `write_results`.
WRITING = regex(
    r"_?(?:save|write|dump|export|im(?:save|write))_(?:\w{1,30}_)?(?:img|image|video|wav|audio|output|result|png|mask|frame|prediction)s?"
)
# Classes that score what a model answers, by libraries of the host.
_EVALUATORS = regex(r"\w{0,60}Evaluator")
# Names are followed through so many assignments to what is written.
_MAX_STEPS = 3
# Calls that queue no work on an accelerator.
_IDLE = regex(
    r"(?:time|logging|logger|log|math)\.\w+|time|perf_counter|print|len|range|float|int|str|\w+\.(?:append|format|item)"
)


def is_needed(read: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """Whether a reading in a hot loop has to be there, or costs nothing new."""
    return (
        stalls.decides_to_leave(read, hot, facts)
        or _is_agreed_on(read, hot, facts)
        or _has_just_waited(facts.statement, facts)
        or _reads_one_at_a_time(hot)
    )


def _is_agreed_on(read: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """A flag that ends the loop: one of that name, or one that all processes agree on."""
    statement = facts.statement
    if (
        hot.node is None
        or not isinstance(statement, ast.If)
        or not isinstance(statement.body[-1], (ast.Break, ast.Return))
    ):
        return False
    names = {n.id for n in walk(read) if isinstance(n, ast.Name)} | {last_name(n) for n in walk(read)}
    if any(not _FLAGS.isdisjoint(name.lower().split("_")) for name in names):
        return True
    given = {
        argument.id
        for node in own_nodes(hot.node)
        if isinstance(node, ast.Call) and last_name(node.func) in _COLLECTIVES
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    return bool(names & given)


def _has_just_waited(statement: ast.stmt, facts: Facts) -> bool:
    """`torch.cuda.synchronize()` stands before it, and nothing was queued since."""
    for earlier in reversed(facts.model.source.before(statement)):
        calls = calls_in(earlier)
        if any(last_name(c.func) == "synchronize" for c in calls):
            return True
        if hasattr(earlier, "body") or not all(_IDLE.fullmatch(dotted(c.func) or "") for c in calls):
            return False
    return False


def is_written(copy: ast.expr, facts: Facts) -> bool:
    """Whether a copy on the host is made for a file, an encoder, text, a response, or what scores answers there."""
    if any(isinstance(p, ast.ClassDef) and _EVALUATORS.fullmatch(p.name) for p in facts.model.ancestors(copy)):
        return True
    scope = facts.model.enclosing_scope(copy)
    waiting: list[ast.expr] = [copy]
    for _ in range(_MAX_STEPS):
        if any(_is_handed_to_writer(node, facts) for node in waiting):
            return True
        names = {name for node in waiting for name in _assigned_names(node, facts)}
        waiting = [
            n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)
        ]
    return False


def _is_handed_to_writer(node: ast.expr, facts: Facts) -> bool:
    called = (last_name(p.func) for p in facts.model.ancestors(node) if isinstance(p, ast.Call))
    return any(name in WRITERS or name in _TELLERS or WRITING.fullmatch(name) for name in called)


def _assigned_names(node: ast.expr, facts: Facts) -> Iterator[str]:
    """The names that the statement around an expression gives to what it makes."""
    match facts.model.source.statement_of(node):
        case ast.Assign(targets=targets):
            yield from (t.id for t in targets if isinstance(t, ast.Name))
        case ast.For(target=target):
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _reads_one_at_a_time(hot: HotLoop) -> bool:
    """A loop over files, each of which is read, looked at and answered for: nothing is there to run ahead of."""
    if hot.node is None or hot.kind == "batch":
        return False
    calls = [n for n in own_nodes(hot.node) if isinstance(n, ast.Call)]
    reads = any(last_name(c.func) in _READERS or (dotted(c.func) or "") in _READERS_BY_PATH for c in calls)
    return reads and not any(last_name(c.func) == "backward" for c in calls)
