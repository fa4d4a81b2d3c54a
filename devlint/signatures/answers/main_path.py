"""The main path: waits that each step meets, and that could be spared. The others are minor.

Minor is what stands where an option leads (`straight.py`), or in code that runs once a request; what follows on a wait, when
all that was queued is done already (`order.py`); and sizes that only the values tell. It costs little, or nobody knows a cheaper form: whoever asks
for a rule by its code is told of it all the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from devlint.regexes import regex
from devlint.signatures.answers.hot import Hot, is_unused
from devlint.signatures.answers.known import is_known
from devlint.signatures.answers.roles import is_aside, tries_again
from devlint.signatures.answers.straight import Gives, is_straight
from devlint.signatures.answers.waits import Stall
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.waits import COPY, DECIDE, FLUSH, SIZE
from devlint.source.modules import FunctionModel, SourceModule, last_name
from devlint.source.trees import calls_in

# What stands for PyTorch's own function of that name: whoever calls it wants to wait.
_FLUSHING = regex(r"synchronize|empty_cache|barrier|wait")


def is_minor(reader: Reader, stall: Stall, hot: Hot, gives: Gives) -> bool:
    """Whether a wait in hot code is off the main path, or couldn't be spared."""
    if is_aside(stall.function.source.path) or _is_meant(stall) or _is_for_the_host(stall) or _judges(hot):
        return True
    if is_known(stall) or any(_is_said_to_be_rare(f) for f in (stall.function, hot.root)):
        return True
    if _is_taken_back(stall) or _is_number_without(stall, gives) or _is_way_of_few(hot.root):
        return True
    way = [(stall.function.source, stall.node), *reversed(hot.calls)]
    return (
        not has_cheaper_form(stall)
        or any(_has_generated(source, node) for source, node in way)
        or _is_once_an_answer(way)
        or (not any(_is_in_steps(source, node) for source, node in way) and _is_once(hot))
        or (not any(_is_in_steps(source, node) for source, node in hot.calls) and _takes_in(stall))
        or not all(is_straight(source, node, gives) for source, node in way)
        or not may_be_called(reader, hot.root)
        or _learns_nowhere(reader, stall, hot)
        or any(is_unused(reader.project, f, but_by_tests=True) for f in {hot.root, stall.function})
    )


_GENERATING = regex(r"_?(?:generate|beam_search)(?:_\w{1,60})?")


def _has_generated(source: SourceModule, node: ast.AST) -> bool:
    """Whether what a model generates, step by step, is all there before a node: one wait more is nothing beside those."""
    for parent in source.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        if isinstance(parent, ast.stmt) and any(map(_generates, source.before(parent))):
            return True
    return False


def _generates(statement: ast.stmt) -> bool:
    """`outputs = self.model.generate(...)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=func)) | ast.Assign(value=ast.Call(func=func)):
            return _GENERATING.fullmatch(last_name(func)) is not None
    return False


# What a request, or a run, has done once, as a docstring says, and a way of computing that is asked for to get the same each time.
_ONCE = regex(
    r"(?i)\bonce(?: (?:per|for each|for every|a|an) (?:request|prompt|generation|run|session))?[ \t]{0,9}(?:[.;,)\n]|$)|request-static"
)
_EXACT = regex(r"(?:^|_)(?:non_?)?deterministic(?:_|$)")


def _is_said_to_be_rare(function: FunctionModel) -> bool:
    """Whether a function says that what it does is done once, or is another way for those who ask for it."""
    page = ast.get_docstring(function.node, clean=False) or ""
    return _ONCE.search(page.partition("\n")[0]) is not None or _EXACT.search(function.name) is not None


# Functions, folders and classes of what judges a model, or checks what others computed.
_JUDGING = regex(
    r"_?(?:val(?:id(?:ate|ation)?)?|eval(?:uate|uation)?|test)(?:_\w{1,60})?|\w{1,60}_(?:evaluation|validation)"
)
_CHECKING = regex(r"\w{0,60}(?:Checker|Validator|Verifier|Tester|Evaluator)")
_OF_JUDGES = regex(r"(?:^|/)(?:evals?|evaluations?|evaluators?|metrics)/")


def _judges(hot: Hot) -> bool:
    """Whether what makes code hot evaluates: nobody waits for that."""
    root = hot.root
    if root.cls is not None and _CHECKING.fullmatch(root.cls.name):
        return True
    return _JUDGING.fullmatch(root.name) is not None or _OF_JUDGES.search(root.source.path) is not None


# What only training asks for, by the names of its functions and classes.
_LOSS = regex(
    r"_?(?:\w{1,60}_)?(?:loss(?:es)?|targets?|assign|match)(?:_\w{1,60})?|\w{0,60}(?:Loss|Criterion|Matcher|Assigner)\w{0,60}"
)
# What trains, or has somebody train.
_LEARNING = (
    r"\.backward\b|\bautograd\.grad\b|Trainer\b|\btraining_step\b|\btrain_step\b|deepspeed|\baccelerat|\btrainable\b"
)


# A project of fewer files may be a part of one that somebody trains by a program of his own.
_PROGRAM = 5


def _learns_nowhere(reader: Reader, stall: Stall, hot: Hot) -> bool:
    """Whether what only training asks for stands in a project that nothing trains: it came along with a model."""
    functions = {stall.function, hot.root}
    if not any(_LOSS.fullmatch(f.name) or (f.cls is not None and _LOSS.fullmatch(f.cls.name)) for f in functions):
        return False
    source = stall.function.source
    if re.search(_LEARNING, source.text) is not None:
        return False
    return reader.project.never_says(_LEARNING, source.file, _PROGRAM)


def _is_meant(stall: Stall) -> bool:
    """Whether a function stands for PyTorch's own that waits, or what is collected is the host's."""
    return stall.sense == FLUSH and (_FLUSHING.search(stall.function.name) is not None or stall.name == "gc.collect")


def _is_taken_back(stall: Stall) -> bool:
    """`x = x.to(device)`, `x = layer(x)`, `x = x.to(host)`: whoever brings a part there for so long has no room for it."""
    if stall.sense != COPY or not isinstance(stall.asked, ast.Name):
        return False
    source = stall.function.source
    return any(_brings(s, stall.asked.id) for s in source.before(source.statement_of(stall.node)))


def _brings(statement: ast.stmt, name: str) -> bool:
    """`x = x.to(device)`, `x = x.cuda()`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=to)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr="to" | "cuda"), args=[*given]),
        ):
            named = not given or (isinstance(given[0], (ast.Name, ast.Attribute)) and "device" in last_name(given[0]))
            return to == of == name and named
    return False


def _is_number_without(stall: Stall, gives: Gives) -> bool:
    """`loss = 0.0`, `if self.weight > 0: loss = self.loss_of(x)`, `loss > 0.0`: a number, unless an option asks for more."""
    if stall.sense != DECIDE:
        return False
    root = stall.asked.left if isinstance(stall.asked, ast.Compare) else stall.asked
    given = stall.function.assigned.get(root.id, []) if isinstance(root, ast.Name) else []
    left = [v for v in given if not (isinstance(v, ast.Constant) and isinstance(v.value, (int, float)))]
    return 0 < len(left) < len(given) and not any(is_straight(stall.function.source, v, gives) for v in left)


# Classes of positions beyond those that a model was trained for, which a setting asks for.
_OF_FEW = regex(r"\w{0,60}(?:DynamicNTK|LinearScaling|LongRope|Yarn)\w{0,60}")


def _is_way_of_few(root: FunctionModel) -> bool:
    return root.cls is not None and _OF_FEW.fullmatch(root.cls.name) is not None


# What somebody looks at or listens to, decoded once for all of it.
_OF_RESULT = regex(
    r"(?:\w{1,60}_)?(?:videos?|images?|frames?|audios?|wavs?|waveforms?|speech|pixels?|samples?|decoded)(?:_\w{1,3})?"
)
# How many, how long, and where: what engines count on the host, and hand on beside what is on the accelerator.
_OF_COUNTS = regex(r"\w{0,60}(?:lens|lengths?|seqlens?|locs|indptr|offsets|num_\w{1,60})(?:_\w{1,3})?")


def _is_for_the_host(stall: Stall) -> bool:
    """Whether a copy to the host brings what was decoded for somebody, or makes sure that counts that were handed on are there."""
    if stall.sense != COPY:
        return False
    root = stall.asked
    while isinstance(root, (ast.Call, ast.Subscript, ast.Attribute)) and not _is_own_attribute(root):
        root = root.func if isinstance(root, ast.Call) else root.value
    called = {last_name(n.func) for n in calls_in(stall.asked)}
    names = {n.id for n in ast.walk(stall.asked) if isinstance(n, ast.Name)}
    if "decode" in called or any(_OF_RESULT.fullmatch(name) for name in (*names, *_kept_as(stall))):
        return True
    handed = {p.arg for p in stall.function.parameters}
    match root:
        case ast.Name(id=name):
            return name in handed and _OF_COUNTS.fullmatch(name) is not None
        case ast.Attribute(attr=name):
            return _OF_COUNTS.fullmatch(name) is not None
    return False


def _kept_as(stall: Stall) -> list[str]:
    """The name that a copy to the host is kept under: `audio = vocode(mel).cpu()`."""
    match stall.function.source.statement_of(stall.node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
    return []


def _is_own_attribute(node: ast.AST) -> bool:
    """`self.lengths`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def may_be_called(reader: Reader, root: FunctionModel) -> bool:
    """Whether somebody may call a module of which `root` is a method, most likely its `forward`: programs that only predict keep those that train.

    So it is with a method that nothing but `forward` leads to.
    """
    cls = root.cls
    if cls is None:
        return True
    methods = [m for m in cls.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))]
    callers = {m.name: [o.name for o in methods if o is not m and _asks_itself(o, m.name)] for m in methods}
    way = {root.name}
    waiting = [root.name]
    while waiting:
        name = waiting.pop()
        if name in _FOR_CALLERS:
            continue
        if not callers.get(name):
            return True
        waiting += set(callers[name]) - way
        way |= set(callers[name])
    own = {
        m.name for m in methods if any(isinstance(n, ast.Call) and ast.unparse(n.func) in _ITSELF for n in ast.walk(m))
    }
    return reader.project.is_called(root.source.file, cls.name, tuple(sorted(own | way)))


# What a module's callers come by, and how its own methods call it.
_FOR_CALLERS = ("forward", "__call__")
_ITSELF = ("self", "self.forward", "self.__call__")


def _asks_itself(method: ast.AST, name: str) -> bool:
    """`self.name`"""
    return any(_is_own_attribute(n) and isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(method))


# -- how often ---------------------------------------------------------------------------------------------------------

# What a loop over steps or tokens goes over.
_STEPS = regex(r"(?i)step|sigma|token|num_iter|n_iter|total_len|max_(?:new|len|seq|gen|dec)\w{0,60}|(?<!\w)t(?!\w)")
# A loop over so many passes and more is one over tokens.
_MANY = 100
# Functions that are asked for something that a request needs once: positions, masks.
_ASKED_FOR = regex(r"(?:get|build|make|create|compute)_\w{1,60}")
# Functions that take in what a request brings, or make what it gets.
_OF_REQUEST = regex(
    r"speaker|(?:^|_)spk_|voice|prompt|reference|remote|rpc|(?:codec|vae|audio|wav|speech|images?|videos?|latents?|tiled?)_(?:en|de)code"
)
# Folders of what does one part each of answering a request.
_STAGES = regex(r"(?:^|/)stages/")
# Classes that take in what a request brings, or that judge what came of it.
_AT_THE_ENDS = regex(
    r"\w{0,60}(?:Spectrogram|MelSpec|STFT|LPIPS|Codebook|Quantizer|VectorQuant|Speaker|Metric|Front_?[eE]nd)\w{0,60}"
)


def _is_once(hot: Hot) -> bool:
    """Whether what makes code hot may well run once a request."""
    root = hot.root
    if hot.once or _ASKED_FOR.fullmatch(root.name) or _OF_REQUEST.search(root.name) or _begins_with_noise(root):
        return True
    if _STAGES.search(root.source.path):
        return True
    if root.cls is None:
        return False
    if _AT_THE_ENDS.fullmatch(root.cls.name) is not None or _is_node(root.cls, root.name):
        return True
    return root.name == "__call__" and (not _wraps(root.cls) or _goes_all_the_way(root))


# What takes in the voice, or the picture, that a request wants its answer to be like.
_TAKING_IN = regex(
    r"_?(?:prompt|reference|speaker)_\w{0,60}(?:tokeni[sz]ation|tokeni[sz]e|encoding|embedding|features?)"
    r"|_?(?:tokeni[sz]e|encode|embed|extract|process|prepare|get)_(?:\w{1,60}_)?(?:prompts?|references?|speakers?|spk|voices?)(?:_\w{1,60})?"
)


def _takes_in(stall: Stall) -> bool:
    """Whether the function that waits takes in what a request brings, by its name: its loops go over a few things."""
    return _TAKING_IN.fullmatch(stall.function.name) is not None


def _is_node(cls: ast.ClassDef, method: str) -> bool:
    """Whether a class says which of its methods a graph of nodes calls: `FUNCTION = "decode"`, once a request."""
    return any(
        isinstance(s, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "FUNCTION" for t in s.targets)
        and isinstance(s.value, ast.Constant)
        and s.value.value == method
        for s in cls.body
    )


def _goes_all_the_way(root: FunctionModel) -> bool:
    """Whether a function has all steps of an answer in it: a loop over them calls a model that it is given."""
    given = {p.arg for p in root.parameters}
    loops = (n for n in root.nodes if isinstance(n, ast.For) and _goes_over_steps(n.iter))
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in given
        for loop in loops
        for n in ast.walk(loop)
    )


# What tells how long an answer gets, or in how many steps it is made: whoever is told makes all of it.
_OF_LENGTH = regex(
    r"max_(?:new|gen|generated|output|decoding)_(?:tokens|len|length)|max_gen_len|(?:num|n)_(?:inference|sampling|diffusion|denoising)_(?:steps|timesteps)|inference_(?:time)?steps"
)
# What schedulers do once before the steps.
_SETTING_UP = regex(r"set_(?:time)?steps|set_sigmas|retrieve_timesteps")


def _is_once_an_answer(way: Sequence[tuple[SourceModule, ast.AST]]) -> bool:
    """Whether a wait, or the call that leads to it, stands before or after the loop in which an answer is made step by step."""
    for source, node in way:
        if _is_in_steps(source, node):
            return False
        around = next(
            (p for p in source.ancestors(node) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef))), None
        )
        if around is None:
            return False
        if _SETTING_UP.fullmatch(around.name) or _makes_all(source.function_at(around)):
            return True
    return False


# What the loop that makes a picture or a sound goes over.
_SAMPLING = regex(r"(?i)timesteps|sigmas|(?:num|n|diffusion|sampling|inference|denoising)_steps")


def _makes_all(function: FunctionModel) -> bool:
    """Whether a function is told how long an answer gets, or goes through all steps itself, and is no module's step."""
    if function.name in ("forward", "step"):
        return False
    return any(_OF_LENGTH.fullmatch(p.arg) for p in function.parameters) or any(
        isinstance(n, ast.For)
        and _SAMPLING.search(ast.unparse(n.iter)) is not None
        and any(isinstance(inner, ast.Call) for s in n.body for inner in ast.walk(s))
        for n in function.nodes
    )


_MAKING = regex(r"_?(?:sample|generate|infer|inference|predict|synthesi[sz]e)(?:_\w{1,60})?")


def _begins_with_noise(root: FunctionModel) -> bool:
    """`def sample(self, shape): x = torch.randn(shape); ...` makes all of an answer."""
    return _MAKING.fullmatch(root.name) is not None and any(
        isinstance(n, ast.Call) and last_name(n.func) in ("randn", "randn_tensor") for n in root.nodes
    )


def _wraps(cls: ast.ClassDef) -> bool:
    """Whether a class is called in the place of a model, or of what chooses tokens: at each step."""
    return re.search(r"Model|Wrap|Processor|Warper|Guid|Denois|Sampler|Scheduler|Layer|Attention", cls.name) is not None


def _is_in_steps(source: SourceModule, node: ast.AST) -> bool:
    """Whether a loop over steps or tokens, in the same function, runs a node again and again."""
    child = node
    for parent in source.ancestors(node):
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return False
            case ast.While() if not tries_again(parent):
                return True
            case ast.For(target=target, iter=over, body=body) | ast.AsyncFor(target=target, iter=over, body=body):
                if child in body and (_STEPS.search(ast.unparse(target)) or _goes_over_steps(over)):
                    return True
        child = parent
    return False


def _goes_over_steps(over: ast.expr) -> bool:
    """`enumerate(timesteps)`, `range(1500)`."""
    return _STEPS.search(ast.unparse(over)) is not None or any(
        isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value >= _MANY for n in ast.walk(over)
    )


# -- at what price -----------------------------------------------------------------------------------------------------


def has_cheaper_form(stall: Stall) -> bool:
    """Whether something says as much without waiting: of sizes that only the values tell, nothing does."""
    if stall.sense != SIZE:
        return True
    if stall.name in ("[]=", "one_hot", "repeat_interleave", "bincount"):
        return True
    return stall.name == "[]" and _is_summed(stall)


def _is_kept_to_sum(stall: Stall, name: str) -> bool:
    """`chosen = loss[mask]; return chosen.mean()`: what has a name is asked for a sum, and for nothing else."""
    source, function = stall.function.source, stall.function
    used = [
        n
        for n in function.nodes
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and n.lineno > stall.node.lineno
    ]
    around = [next(source.ancestors(n)) for n in used]
    return bool(used) and all(isinstance(p, ast.Attribute) and p.attr in _SUMS for p in around)


_SUMS = frozenset({"sum", "mean", "numel", "size", "shape", "any", "all", "max", "min", "amax", "amin"})


def _is_summed(stall: Stall) -> bool:
    """`loss[mask].mean()`, `len(x[mask])`: only a sum is asked for, which masks tell as well."""
    child: ast.AST = stall.node
    for parent in stall.function.source.ancestors(stall.node):
        match parent:
            case ast.Attribute(attr=attr) if parent.value is child:
                return attr in _SUMS
            case ast.Call(func=func) if child in parent.args:
                return last_name(func) in _SUMS | {"len"}
            case ast.Assign(targets=[ast.Name(id=name)]):
                return _is_kept_to_sum(stall, name)
        return False
    return False
