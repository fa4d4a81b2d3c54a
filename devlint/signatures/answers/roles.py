"""Roles that functions have by their names, their classes and their files: hot, once a request, or cold.

`ROLES` says which functions are hot by themselves.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from devlint.regexes import regex
from devlint.signatures.state.classes import ClassInfo
from devlint.source.modules import FunctionModel, SourceModule, dotted, last_name


class Role(NamedTuple):
    """Functions that something calls again and again, going by their names and their classes'."""

    # What a class is, or one of its bases; empty: any, and functions without one.
    cls: str
    name: str
    # Whether the class must be a module of torch.
    module: bool = False


# What frameworks, engines and loops call. The names are those under which projects have mended stalls.
ROLES: tuple[Role, ...] = (
    Role("", r"forward|_call_impl|forward_\w{1,60}|\w{1,60}_forward|inner_forward\w{0,60}", module=True),
    Role(r"\w{1,60}", r"__call__"),
    Role(r"\w{0,60}Function|Function", r"forward|backward|vmap|jvp"),
    Role(r"\w{0,60}(?:Optimizer\w{0,60}|Adam\w{0,60}|SGD\w{0,60}|Lion|Muon|AdaFactor|Adafactor|LAMB)", r"_?step|\w{1,60}_step|_?update\w{0,60}|clip_\w{1,60}"),
    Role(r"\w{0,60}(?:Loss|Criterion|Objective)\w{0,60}", r"forward|__call__|\w{0,60}loss\w{0,60}|compute\w{0,60}|update\w{0,60}"),
    Role(r"\w{0,60}(?:Metric|Accuracy|Score)\w{0,60}", r"_?update|forward"),
    Role(r"\w{0,60}(?:Sampler|Scheduler|Generator|Proposer|Integrator|Solver)\w{0,60}", r"step|sample\w{0,60}|_?sample|__call__|forward|propose\w{0,60}|integrate"),
    Role(r"\w{0,60}(?:Backend|Builder|Metadata|Dispatcher|Router|Context)\w{0,60}", r"build\w{0,60}|_?prepare\w{0,60}|step\w{0,60}|update_\w{1,60}|apply|dispatch\w{0,60}|combine\w{0,60}|\w{0,60}preprocess\w{0,60}|\w{0,60}postprocess\w{0,60}|initialize_\w{1,60}"),
    Role("", r"(?:training|train|validation|test|eval|val|inference|predict|prediction|denoising?|decoding|decode|generation|sampling|optimizer|optim|forward|backward|fwd|bwd|scheduler|inner|model|mini_?batch|micro_?batch|pp|engine)_(?:one_)?(?:step|batch|iter|iteration)(?:_\w{1,60})?"),
    Role("", r"_?step|_?(?:\w{1,60}_)?step_(?!size|count|ratio)\w{1,60}"),
    Role("", r"_?(?:multinomial_|top_?[kp]_|greedy_|rejection_|dynamic_step_)?(?:sample|sampling)(?:_(?!size|rate|weights?|ids?$)\w{1,60})?|(?!_?(?:build|make|create|get|load|prepare|process|find|read|fetch|pick|choose|parse|add|check)_)(?!\w{0,60}_(?:one|per|each|a)_sample)\w{1,60}_sample|\w{0,60}_sampling(?:_\w{1,60})?|rejection_\w{0,60}sampl\w{0,60}"),
    Role("", r"_?(?:async_)?(?:generate|generation|decode|decoding|prefill|denoise|speculate|propose|draft)(?:_\w{1,60})?|\w{1,60}_decode|\w{1,60}_prefill"),
    Role("", r"_?\w{0,60}execute_model\w{0,60}|_?run_model\w{0,60}|_?model_forward\w{0,60}|\w{0,60}forward_(?:backward|only)\w{0,60}|_?async_model_forward|forward|_forward\w{0,60}|\w{1,60}_forward"),
    Role("", r"_?prepare_(?:\w{1,60}_)?(?:inputs?|ids)(?:_\w{1,60})?|_?build_(?:\w{1,60}_)?(?:metadata|masks?|inputs?|batch)|\w{0,60}_?build_\w{0,60}metadata\w{0,60}|_?update_(?:\w{1,60}_)?states?|update_step_context|_?get_(?:\w{1,60}_)?(?:position_ids|rope_index|rotary\w{0,60}|masks?)"),
    Role("", r"\w{0,60}clip_grad\w{0,60}|\w{0,60}grad_?norm\w{0,60}|_?get_(?:\w{1,60}_)?norm\w{0,60}|\w{0,60}(?:scaled|global)_norm\w{0,60}|_?(?:check_|has_)overflow\w{0,60}|\w{0,60}overflow\w{0,60}|_?reduce\w{0,60}(?:grad|bucket|partition)\w{0,60}|_?allreduce\w{0,60}|unscale_\w{0,60}|\w{0,60}count_zeros\w{0,60}|\w{0,60}partition\w{0,60}gradient\w{0,60}"),
    Role("", r"_?(?:token_)?(?:dispatch|combine|all_to_all|a2a|route|routing|gating|top\d?k?gating)(?:_\w{1,60})?|_?(?:(?:\w{0,60}_)?(?:tokens?|experts?|moe|fused)_)?(?:un)?permute(?:_(?:tokens?|experts?|topk|maps?|mask|index|fwd|bwd|forward|backward|padded|with|and|by|chunks?|triton|kernel|impl|1d|2d)(?:_\w{1,60})?)?|\w{1,60}_(?:dispatch|gating)|\w{0,60}grouped_(?:mm|gemm)\w{0,60}"),
    Role("", r"(?:compute_|_compute_|get_|_get_|calc_|calculate_)?\w{0,60}loss(?:es|_fn|_func|_step)?|get_batch\w{0,60}|loss_\w{1,60}"),
    Role("", r"(?!get_|build_|make_|create_|init|\w{0,60}_of_)\w{0,60}(?:attention|attn|rotary|rope)(?:_(?:forward|func|fn|apply|mask|masked|emb|pos_emb|embedding|impl|fwd|bwd|varlen)\w{0,60})?"),
    Role("", r"(?:on_)?(?:train_)?(?:batch|step|forward|backward)_(?:start|end|begin)|batch_end|after_\w{1,60}|pre_forward|post_forward"),
    Role("", r"train_on_\w{1,60}|_?train_(?:ppo|dpo|grpo|batch|step|epoch)\w{0,60}|_?compute_(?:reward|advantage|logp|log_prob|kl)\w{0,60}|get_per_token\w{0,60}|\w{0,60}logps?\w{0,60}"),
    Role("", r"(?:apply_)?(?:augment|transform)(?:ation)?s?(?:_\w{1,60})?|apply_transform\w{0,60}|compute_transformation"),
)  # fmt: skip
_ROLES = [(regex(role.cls) if role.cls else None, regex(role.name), role.module) for role in ROLES]

# Classes whose objects answer a request by a model and what belongs to it, and the methods that do.
_PIPELINE = regex(r"\w{0,60}(?:Pipeline\w{0,60}|Stage|TextEncoder)|\w{0,60}(?:VAE|Vae)(?!\w*Loss)\w{0,60}")
_ONCE_A_REQUEST = regex(
    r"\w{0,60}(?:Text|Prompt|Voice|Speaker|Timbre|Style|Reference)(?:Encoder|Conditioner|Embedder)|\w{0,60}Pipeline|\w{0,60}(?:VAE|Vae|Vocoder|Vocos|Synthesizer|SynthesizerTrn|Codec|Tokenizer|Conditioner)(?:V\d)?"
)
_REQUEST = regex(
    r"__call__|_?forward|_?(?:async_)?(?:generate|run|infer|inference|predict|sample|encode|decode|prepare|get|build|update|make|check)(?:_(?!step)\w{1,60})?"
)
# What is done to what a request brings or gets, once for each, in whichever class; and once an epoch.
_OF_REQUEST = regex(
    r"_?run_pipeline\w{0,60}|_?precompute\w{0,60}|_?(?:train|run|fit|validate|val|eval|evaluate|test)_(?:one_)?epoch\w{0,60}|_?(?:prepare|build|encode|decode|make|generate)_(?:\w{1,60}_)?(?:latents?|vae|videos?|images?|audios?|prompts?|text|cond|conditions?|[tiv]2\w{1,3}|vision|vit|frames?)(?:_\w{1,60})?"
)
# What generates an answer, of models as well: each token is made in a loop, or by `prepare_inputs_for_generation`.
_GENERATING = regex(
    r"_?(?:async_|prefill_and_)?generat(?:e|ion)(?:_(?!\w*(?:token|step|next|one|batch))\w{1,60})?|_?prepare_(?!inputs_for)\w{1,60}_for_generation"
)
# Functions that run once, or now and then, whoever calls them.
_COLD = regex(
    r"__init__|__new__|__post_init__|__setstate__|__getstate__|__repr__|__str__|__del__|__reduce__|extra_repr"
    r"|_{0,3}(?:load|save|export|dump|read|write|parse|plot|show|visuali[sz]e|print|log|debug|profile|benchmark|demo|calib\w{0,60}|monkey_?patch|(?:auto)?tun(?:e|ing)|register|download|to_onnx|onnx|warm_?up|capture|dummy|test|refit|broadcast_params?|add_argument\w{0,60}|get_args|main|cleanup|close|destroy|shutdown|restore|resume)(?:_\w{1,60})?"
    r"|\w{0,60}(?:state_dict|checkpoint|ckpt|warmup|warm_up|pre_?warm|rehears|dummy_run|profile_run|capture_model|capture_graph|post_init|pretrained|load_weights?|weight_loader|_debug|_repr|onnx)\w{0,60}"
    r"|_?init_?weights?|_?init(?:ialize)?_\w{0,60}(?:models?|device|engine|modules?|tokenizer)|\w{0,60}rebalanc\w{0,60}|\w{0,60}autotun\w{0,60}|_?(?:apply|switch|remove|merge|unmerge)_loras?|end_run|to_cpu|optimi[sz]e_weights?\w{0,60}|_*reset_parameters|(?:\w{1,60}_)?rle(?:_\w{1,60})?|prep(?:are)?_for_eval\w{0,60}|process_weights\w{0,60}|post_load\w{0,60}|create_weights|worker_init\w{0,60}|_?get_dummy\w{0,60}|naive_\w{1,60}|ref(?:erence)?_\w{1,60}|\w{0,60}oracle\w{0,60}|\w{1,60}_(?:naive|ref|reference)|\w{0,60}_for_export|_?(?:\w{1,60}_)?collate(?:_\w{1,60})?"
)  # fmt: skip
# Functions that are hot only where something hot calls them.
_NOT_BY_ITSELF = regex(
    r"__\w{1,60}__|_?(?:re)?init(?:ialize)?(?:_\w{1,60})?|_*reset\w{0,60}|_{0,3}(?:convert|setup|set|create|make|configure|from|quantize|pack|shard|offload|onload|wake|sleep|merge|upgrade|validate|check|finalize|compile|tie)(?:_\w{1,60})?"
    r"|\w{0,60}(?:_cpu|_np|_numpy|_host|_ref|_reference|_naive|_config)|extra_\w{0,60}|(?:get|num|compute)_(?:num|size|shape)\w{0,60}|_?generate_\w{0,60}(?:buffers?|tables?|grids?|freqs|anchors?|schedules?|configs?)"
)  # fmt: skip
_NOT_COLD = regex(
    r"log_?probs?\w{0,60}|logps?\w{0,60}|\w{0,60}loss\w{0,60}|set_?timesteps_never|to_kernel\w{0,60}|(?:make|create)_(?:\w{1,60}_)?mask\w{0,60}|pack_(?:seq|inputs?|tokens?)\w{0,60}|\w{0,60}attention_mask\w{0,60}|from_unscaled\w{0,60}"
)
_COLD_CLASSES = regex(
    r"(?i).{0,60}(?:Dataset|Collat\w{0,60}|Tokenizer|TestCase|Tests?|Reader|Loader|Recorder|Config|DataModule|Checkpoint\w{0,60}|Exporter|Calibrator|Converter|Profiler|Processor|ImageProcessor|FeatureExtractor|Featuri[sz]er|Every_?N\w{0,60}|(?:For(?:AOTI|ONNX|Tracing)|Export))"
)
_COLD_FILES = regex(
    r"(?:^|/)(?:tests?|testing|(?:\w{1,60}_)?tracers?|debug\w{0,60}|visuali[sz]\w{0,60}|profil\w{0,60}|datasets?|preprocess\w{0,60}|(?:\w{1,60}_)?benchmarks?|calib\w{0,60}|export|docs?|tools|scripts|configs?|checkpoint\w{0,60}|conversion|convert\w{0,60})/|(?:^|/)(?:test_|conftest|setup\.|benchmark|(?:(?:image_|video_)?processing|feature_extraction|tokenization)_|convert_|export(?:er)?[_.]|onnx_|preprocess|naive|reference)[^/]*$|(?:_test|_tests|_benchmark|_bench|_legacy|_onnx|_export|_demo|_gradio)\.py$|(?:^|/)(?:gradio|web_?ui|web_?demo|demo)[^/]*$|(?:^|/)tpu_[^/]*$"
)
# Functions that nobody outside of their file is likely to call by themselves, or that are asked for something to keep.
_HELPER = regex(r"_(?!_)\w{1,60}|(?:get|build|make|create|generate)_\w{1,60}")
# Classes of backends that compute on the host.
_HOST_CLASSES = regex(
    r"_?(?:CPU|Cpu)(?!\w*(?:Offload|Adam|Optimizer|Cache|Swap|GPU|Gpu))[A-Z]\w{0,60}|\w{0,60}ForCPU\w{0,60}"
    r"|\w{0,60}(?:TPU|OpenVINO|OpenVino|Mlx|MLX|AMX)\w{0,60}|Neuron\w{0,60}(?:Runner|Worker|Executor)"
)


def has_role(name: str, info: ClassInfo | None) -> bool:
    """Whether a function of that name is hot by itself, being a method of a class where there is one."""
    for cls, named, module in _ROLES:
        if not named.fullmatch(name):
            continue
        if module and not (info is not None and _is_module(info)):
            continue
        if cls is None or (info is not None and any(cls.fullmatch(n) for n in _class_names(info))):
            return True
    return False


def is_hot_by_calls(name: str) -> bool:
    """Whether functions of that name are hot only where something hot calls them."""
    return _NOT_BY_ITSELF.fullmatch(name) is not None and name != "__call__" and not _NOT_COLD.fullmatch(name)


def is_helper(name: str) -> bool:
    """Whether nobody outside of its file is likely to call a function of that name by itself."""
    return _HELPER.fullmatch(name) is not None


def answers_request(function: FunctionModel, info: ClassInfo | None) -> bool:
    """Whether a function does all that a request asks for: the call of a pipeline, or a stage of one."""
    if _GENERATING.fullmatch(function.name) or _OF_REQUEST.fullmatch(function.name) or _goes_through_steps(function):
        return True
    if function.cls is not None and "prefill" in function.name:
        return True
    names = _class_names(info) if info is not None else []
    if info is not None and (info.is_module or _has_module_base(info)):
        # A request has one text and one voice, its picture or sound is decoded once, and one pipeline answers it.
        return _REQUEST.fullmatch(function.name) is not None and _ONCE_A_REQUEST.fullmatch(names[0]) is not None
    return _REQUEST.fullmatch(function.name) is not None and any(_PIPELINE.fullmatch(name) for name in names)


# What answers by going through steps of its own, and the names of such steps.
_STEPPING = regex(
    r"_?(?:\w{1,60}_)?(?:sample|sampling|denoise|denoising|infer|inference|synthesi[sz]e|generate)(?:_(?!step|token|next|one)\w{1,60})?"
)
_OF_STEPS = regex(r"(?i)step|sigma|max_new|max_len|max_length|max_tokens|num_iter")


def _goes_through_steps(function: FunctionModel) -> bool:
    """Whether a function that answers does so by a loop of its own over steps or tokens: it runs once a request."""
    if _STEPPING.fullmatch(function.name) is None:
        return False
    for node in function.nodes:
        match node:
            case ast.For(target=target, iter=over):
                if _OF_STEPS.search(ast.unparse(target)) or _OF_STEPS.search(ast.unparse(over)):
                    return True
            case ast.While() | ast.Call(func=ast.Name(id="odeint" | "solve_ivp") | ast.Attribute(attr="odeint")):
                return True
    return False


def is_compiled(function: FunctionModel) -> bool:
    """Whether a function is traced by PyTorch, which a graph of its own is made of."""
    return any(d.rsplit(".", 1)[-1] in ("compile", "graph_task") for d in function.decorators if "torch" in d)


def is_in_loop(source: SourceModule, node: ast.AST) -> bool:
    """Whether a loop of its own function that makes an answer runs a node again and again."""
    child = node
    within = False
    for parent in source.ancestors(node):
        match parent:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return within and not _PREPARING.fullmatch(name)
            case ast.Lambda():
                return False
            case ast.While() if not tries_again(parent):
                within = True
            case ast.For(body=body) | ast.AsyncFor(body=body) if child in body and _makes_answer(parent):
                within = within or not tries_again(parent)
        child = parent
    return within


_TRYING = regex(r"(?i)retr(?:y|ies)|attempt|(?:^|_|\b)tries(?:_|\b|$)|bad_?case")


def tries_again(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """`while retries < max_retries:` goes round where an answer came out badly."""
    asked = [loop.test] if isinstance(loop, ast.While) else [loop.target, loop.iter]
    return any(_TRYING.search(ast.unparse(part)) for part in asked)


# Functions that make ready what an answer is made of: their loops go over the few things of a request.
_PREPARING = regex(r"_?(?:prepare|pre_?process|encode|check|load|set_?up|initiali[sz]e)(?:_\w{1,60})?")
# What a loop over the steps or the tokens of an answer goes over, and what the loops of an answer call.
_STEPS = regex(r"(?i)step|sigma|iter|max_|new_tokens|chunk|frame|window|tile|layer|block|pbar|progress|stream")
_MODELS = regex(
    r"(?i)\w{0,60}(?:model|unet|transformer|dit|net|denois|decode|encode|llm?|backbone|head|generat|forward|sampl|predict|infer|step|module|expert|layer|block|vae|attn|attention)\w{0,60}"
)


def _makes_answer(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop goes over steps, or calls a model: one over the few things of a request is done once for each."""
    if _STEPS.search(ast.unparse(loop.target)) or _STEPS.search(ast.unparse(loop.iter)):
        return True
    return any(
        isinstance(n, ast.Call) and _MODELS.fullmatch(last_name(n.func)) is not None
        for statement in loop.body
        for n in ast.walk(statement)
    )


def _is_module(info: ClassInfo) -> bool:
    if info.is_module:
        return True
    # Bases that can't be followed: a class that is called so, or whose base is.
    return _has_module_base(info, "Mixin") or any(
        name in info.node.name for name in ("Model", "Layer", "Attention", "MLP", "Encoder", "Decoder", "Embedding")
    )


def _has_module_base(info: ClassInfo, *endings: str) -> bool:
    """Whether a class is derived from one that goes by its name for a module."""
    names = [n for cls in info.lineage() for base in cls.node.bases if (n := dotted(base)) is not None]
    return any(n.endswith(("Module", "Model", "Layer", "PreTrainedModel", "Block", "Loss", *endings)) for n in names)


def _class_names(info: ClassInfo) -> list[str]:
    names = [cls.name for cls in info.lineage()]
    return names + [d.rsplit(".", 1)[-1] for cls in info.lineage() for b in cls.node.bases if (d := dotted(b))]


def is_cold_function(function: FunctionModel) -> bool:
    """Whether a function runs once, or now and then, going by its name, its class and its decorators."""
    scope: FunctionModel | None = function
    while scope is not None:
        if _COLD.fullmatch(scope.name) and not _NOT_COLD.fullmatch(scope.name):
            return True
        if scope.cls is not None and (
            _COLD_CLASSES.fullmatch(scope.cls.name) or _HOST_CLASSES.fullmatch(scope.cls.name)
        ):
            return True
        if any("cache" in d.rsplit(".", 1)[-1] for d in scope.decorators) or _stands_in(scope):
            return True
        scope = scope.parent
    return False


# What computes in PyTorch's own operators, and in a kernel, where a class has both.
_PLAIN_WAYS = regex(r"_?forward_(?:native|torch|naive|ref|reference|eager|fallback)")
_KERNEL_WAYS = regex(r"_?forward_(?:triton|cuda|helion|hip|aiter|kernel|cutlass|tilelang)")


def _stands_in(function: FunctionModel) -> bool:
    """Whether a method computes plainly what others of its class have a kernel for: `forward_native` beside `forward_triton`."""
    return (
        function.cls is not None
        and _PLAIN_WAYS.fullmatch(function.name) is not None
        and any(isinstance(m, ast.FunctionDef) and _KERNEL_WAYS.fullmatch(m.name) for m in function.cls.body)
    )


# Files of programs that measure, test or convert.
_TOOLS = regex(
    r"(?:^|/)(?:tests?|(?:\w{1,60}_)?benchmarks?|(?:\w{1,60}_)?tracers?|profil\w{0,60}|conversion|convert\w{0,60}|export|docs?)/|(?:^|/)(?:test_|conftest|(?:\w{1,60}_)?bench(?:mark)?s?\.py|benchmark_|bench_|convert_|export(?:er)?[_.]|onnx_|(?:cache|preprocess)_(?:data|features|latents|embeddings))[^/]{0,100}$|_(?:onnx|export)\.py$"
)


def is_of_tool(path: str) -> bool:
    """Whether a file is a program that measures, tests, converts or exports: nobody waits for its loops."""
    return _TOOLS.search(path) is not None


# Folders of what was copied from elsewhere, and is kept by others.
_OTHERS = regex(
    r"(?:^|/)_?(?:third[_-]?part(?:y|ies)|3rd[_-]?party|vendor(?:ed|s)?|externals?|extern|submodules?|repos/[\w.-]{1,60}|libs?/\w{1,60}/(?:examples?|tests?|benchmarks?))/",
    re.IGNORECASE,
)


def is_of_others(path: str) -> bool:
    """Whether a file was copied from elsewhere, going by its folders; the path is below that of its project."""
    return _OTHERS.search(path) is not None


# How the head of a file says that it was taken over as it was, and that it was not.
_COPIED = regex(
    r"(?i)\b(?:module|file|code|script|implementation|source)s? (?:is|are|was|were|comes?|has been)(?: (?:directly|mostly|mainly|copied|taken|borrowed|ported)){0,2} from\b(?! (?:the |our |my )?paper)"
    r"|(?:^|[.:#\"'])[ \t]{0,9}(?:(?:code|directly|mostly|mainly)[ \t]){0,2}(?:copied|copy|taken|borrowed)(?: and pasted| over)? from:?[ \t]+\S",
    re.MULTILINE,
)
_CHANGED = regex(
    r"(?i)\b(?:modif|adapt|chang|alter|rewr|rework|extend|edit|simplif|adjust|based on|inspired|with (?:some|minor|small|a few))"
)

# A line that is nothing but the address of a file of code in somebody's repository.
_LINKED = regex(
    r"(?m)^[ \t#\"']{0,12}https?://[\w.-]{1,60}/[\w.-]{1,60}/[\w.-]{1,60}/blob/[\w./-]{1,200}\.py\b[ \t\"']{0,9}$"
)


def is_said_to_be_copied(source: SourceModule) -> bool:
    """Whether what a file begins with says that it was copied from elsewhere, and not that it has changed since."""
    head = _head(source)
    said = ("from" in head and _COPIED.search(head) is not None) or (
        "/blob/" in head and _LINKED.search(head) is not None
    )
    return said and _CHANGED.search(head) is None


# How the head of a file says that a program wrote it, and that no one else should.
_GENERATED = regex(r"(?i)@generated\b|\bauto-?generated\b|\b(?:automatically|code|file (?:is|was)) generated\b")
_NOT_BY_HAND = regex(r"(?i)@generated\b|\b(?:do not|don't|never) (?:edit|modify|change|touch)\b")


def is_generated(source: SourceModule) -> bool:
    """Whether what a file begins with says that it was generated, and not to edit it: what it was made of is to be mended."""
    head = _head(source)
    return "enerated" in head and _GENERATED.search(head) is not None and _NOT_BY_HAND.search(head) is not None


def _head(source: SourceModule) -> str:
    """The comments and the docstring that a file begins with."""
    body = source.tree.body
    documented = ast.get_docstring(source.tree, clean=False) is not None
    first = next(iter(body[documented:]), None)
    return source.text[: source.line_starts[first.lineno - 1]] if first is not None else source.text


# Folders of what is kept for those who use it still, and of what shows how to.
_ASIDE = regex(
    r"(?:^|/)(?:legacy|deprecated|obsolete|archive|old|standalone|demos?|demo_\w{1,60}|\w{1,60}_demo|gradio\w{0,60})/|(?:^|/)examples?/examples?(?:_\w{1,60})?\.py$|\w_(?:old|deprecated|backup|bak)\.py$"
)


def is_aside(path: str) -> bool:
    """Whether a file is kept for those who use it still, or shows how something is used, going by its folders."""
    return _ASIDE.search(path) is not None


# Folders, and files, of what nobody goes on with.
_RETIRED = regex(
    r"(?:^|/)_?(?:(?:legacy|deprecated|obsolete)(?:_\w+)?|(?:archived?|retired|trash|old)(?:_(?:\w{1,20}_)?(?:code|scripts?|files?|stuff|versions?))?)(?:/|\.py$)"
    r"|_(?:legacy|deprecated|obsolete|archived?|old|bkp|bak|backup)\.(?:py|ipynb)$"
)


def is_retired(path: str) -> bool:
    """Whether a file is an old one that is kept beside its successor, going by its folders and its name."""
    return _RETIRED.search(path) is not None


def is_cold_file(path: str) -> bool:
    """Whether a file is about tests, data, tools or conversions, going by its folders and its name."""
    return _COLD_FILES.search(path) is not None
