"""Hand-written facts: what can't be introspected from torch, and what is known of the libraries around it."""

from __future__ import annotations

from devlint.records import record

# Other names of one thing.
ALIASES = {
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch.serialization.load": "torch.load",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch._tensor.Tensor": "torch.Tensor",
    "torch.autograd.Variable": "torch.autograd.Variable",
    "torch.autograd.variable.Variable": "torch.autograd.Variable",
    "apex.parallel.distributed.DistributedDataParallel": "apex.parallel.DistributedDataParallel",
    "accelerate.accelerator.Accelerator": "accelerate.Accelerator",
    "accelerate.data_loader.skip_first_batches": "accelerate.skip_first_batches",
    "typing_extensions.Annotated": "typing.Annotated",
}
PRIVATE_PREFIXES = (
    ("torch.nn.modules.", "torch.nn."),
    ("torch.optim.adam.", "torch.optim."),
    ("torch.optim.adamw.", "torch.optim."),
    ("torch.optim.sgd.", "torch.optim."),
    ("torch.optim.optimizer.", "torch.optim."),
)

DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"
# Wrappers of others that pass on `forward` alone, as torch's do: what they have beside that one's attributes.
# https://nvidia.github.io/apex/parallel.html
WRAPPERS = {
    "apex.parallel.DistributedDataParallel": frozenset(
        {"allreduce_always_fp32", "allreduce_bucket", "allreduce_communicators", "allreduce_different_streams", "allreduce_fallback",
         "allreduce_maybe_retain", "allreduce_trigger_params", "bucket_streams", "comm_ready_buckets", "create_hooks",
         "custom_allreduce_triggers", "delay_allreduce", "disable_allreduce", "enable_allreduce", "gradient_average",
         "gradient_predivide_factor", "main_stream", "message_size", "needs_refresh", "num_allreduce_streams", "prof",
         "retain_allreduce_buffers", "sync_bucket_structure", "warn_on_half", "world_size"}
    )
}  # fmt: skip

# Types of tensors that annotations name.
TENSOR_TYPES = frozenset(
    {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor", "torch.IntTensor", "torch.HalfTensor",
     "torch.DoubleTensor", "torch.ByteTensor", "torch.ShortTensor", "torch.BFloat16Tensor"}
)  # fmt: skip

# Modules of Lightning.
LIGHTNING_MODULES = frozenset(
    {
        "lightning.LightningModule",
        "lightning.pytorch.LightningModule",
        "lightning.pytorch.core.LightningModule",
        "pytorch_lightning.LightningModule",
        "pytorch_lightning.core.LightningModule",
        "pytorch_lightning.core.lightning.LightningModule",
    }
)
LIGHTNING_CALLBACKS = frozenset(
    f"{package}.{name}"
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning")
    for name in ("Callback", "callbacks.Callback", "callbacks.callback.Callback", "callbacks.base.Callback")
)
TRAINERS = frozenset(
    {"transformers.Trainer", "transformers.trainer.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer"}
)
# Functions that frameworks call each step, whatever class they are in.
STEP_FUNCTIONS = ("training_step", "validation_step", "test_step", "predict_step")


@record(frozen=True)
class StepMethods:
    """Methods of some classes that a framework calls with each batch, and what of their arguments it has placed."""

    bases: frozenset[str]
    methods: tuple[str, ...]
    # By position: the modules, and the batches and outputs, that are on the accelerator then.
    modules: tuple[int, ...]
    batches: tuple[int, ...]


_STAGES = ("train", "validation", "test", "predict")
# Source: https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks, and transformers.Trainer, whose
# `training_step` and `prediction_step` prepare the inputs before they call `compute_loss`.
STEP_METHODS = (
    StepMethods(LIGHTNING_MODULES, STEP_FUNCTIONS, modules=(0,), batches=(1,)),
    StepMethods(LIGHTNING_MODULES, tuple(f"on_{s}_batch_start" for s in _STAGES), modules=(0,), batches=(1,)),
    StepMethods(LIGHTNING_MODULES, tuple(f"on_{s}_batch_end" for s in _STAGES), modules=(0,), batches=(1, 2)),
    StepMethods(LIGHTNING_CALLBACKS, tuple(f"on_{s}_batch_start" for s in _STAGES), modules=(2,), batches=(3,)),
    StepMethods(LIGHTNING_CALLBACKS, tuple(f"on_{s}_batch_end" for s in _STAGES), modules=(2,), batches=(3, 4)),
    StepMethods(TRAINERS, ("compute_loss",), modules=(1,), batches=(2,)),
)
# Classes of other libraries that are torch.nn.Module and don't change what `.to` does.
MODULE_CLASSES = frozenset(
    {
        "torch.nn.Module",
        "torch.jit.ScriptModule",
        *LIGHTNING_MODULES,
        "transformers.PreTrainedModel",
        "transformers.modeling_utils.PreTrainedModel",
        "diffusers.ModelMixin",
        "torchmetrics.Metric",
        "torchmetrics.metric.Metric",
    }
)
# Modules that have the state of what they hold, and none themselves.
CONTAINERS = frozenset(
    {"torch.nn.Module", "torch.nn.Container", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict",
     "torch.nn.ParameterList", "torch.nn.ParameterDict"}
)  # fmt: skip
# Base classes that say nothing of what an object is.
PLAIN_BASES = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "object"})
# Calls of other libraries that give a torch.nn.Module, by the start of their qualified name.
MODULE_FACTORIES = (
    "torchvision.models.",
    "timm.create_model",
    "timm.models.create_model",
    "torch.hub.load",
    "segmentation_models_pytorch.",
)
# `X.from_pretrained(...)` of these packages gives a module, unless the class is one of the exceptions.
PRETRAINED_PACKAGES = ("transformers.AutoModel", "transformers.modeling_auto.AutoModel")

LOADERS = frozenset(
    {
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "monai.data.DataLoader",
        "monai.data.ThreadDataLoader",
        "dgl.dataloading.DataLoader",
        "dgl.dataloading.GraphDataLoader",
    }
)
# Calls that iterate what they are given, unchanged for our purposes: (name -> index of the iterable).
PASSING_ITERATORS = frozenset(
    {"tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.trange", "tqdm.std.tqdm", "tqdm.autonotebook.tqdm",
     "iter", "reversed", "sorted", "itertools.islice", "itertools.chain", "itertools.cycle", "rich.progress.track",
     "fastprogress.progress_bar", "fastprogress.fastprogress.progress_bar", "alive_progress.alive_it"}
)  # fmt: skip

# Names that people give to loaders. A value of unknown kind under such a name is a loader, likely.
LOADER_NAMES = (
    "*loader", "*_dl", "*dataloader", "*data_loader", "*dataloader_*", "*loader_train", "*loader_val", "*loader_eval", "*loader_test",
    "train_iter", "test_iter", "valid_iter", "val_iter", "data_iter", "*Loader",
)  # fmt: skip

# Names that people give to a device, or to the number of one.
DEVICE_NAMES = frozenset(
    {"device", "dev", "cuda_device", "gpu", "gpu_id", "gpu_idx", "local_rank", "torch_device", "execution_device", "_device",
     "rank", "cuda_id", "device_id", "target_device", "compute_device", "main_device", "device_"}
)  # fmt: skip

# Methods of an Accelerator that place what they are given, and those that hand it back, made whole across processes.
ACCELERATE_PREPARING = frozenset({"prepare", "prepare_model", "prepare_data_loader"})
ACCELERATE_PASSING = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes", "skip_first_batches"})

# Frameworks whose loaders give their batches where the model is.
MOVING_FRAMEWORKS = frozenset(
    {"accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "deepspeed", "fastai", "ignite", "catalyst", "composer",
     "colossalai", "mmengine", "mmcv", "detectron2", "torch_xla", "torch_tensorrt", "nvidia", "horovod", "skorch", "poutyne"}
)  # fmt: skip

# Evidence by use. A name on which one of these is called, and which nothing else says anything about, is such a thing.
# Left out on purpose: what ndarrays, data frames, images and containers have too.
TENSOR_EVIDENCE = frozenset(
    {"unsqueeze", "unsqueeze_", "permute", "contiguous", "detach", "detach_", "masked_fill", "masked_fill_",
     "expand_as", "view_as", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_select",
     "index_copy", "index_copy_", "index_add", "index_add_", "index_fill", "index_fill_", "masked_scatter", "masked_scatter_", "type_as", "masked_select",
     "new_zeros", "new_ones", "new_tensor", "new_full", "new_empty", "softmax", "log_softmax", "sigmoid", "backward", "retain_grad",
     "clamp_", "clone", "logsumexp", "bmm", "matmul", "addmm", "repeat_interleave", "record_stream", "is_floating_point", "topk", "data_ptr"}
)  # fmt: skip
# As calls: `x.size()` and `x.dim()` (an ndarray's `size` isn't callable).
TENSOR_CALL_EVIDENCE = frozenset({"size", "dim", "numel"})
# As attributes that are only read.
TENSOR_READ_EVIDENCE = frozenset({"grad", "grad_fn", "is_cuda", "is_leaf", "requires_grad"})
MODULE_EVIDENCE = frozenset(
    {
        "parameters",
        "named_parameters",
        "named_modules",
        "named_children",
        "named_buffers",
        "register_buffer",
        "register_forward_hook",
    }
)
OPTIMIZER_EVIDENCE = frozenset({"param_groups", "add_param_group"})

# Decorators that leave what a function returns as it is, by the last part of their name.
KEEPING_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "no_grad", "inference_mode", "enable_grad", "set_grad_enabled",
     "lru_cache", "cache", "wraps", "contextmanager", "asynccontextmanager", "abstractmethod", "abstractproperty", "override",
     "overload", "final", "setter", "getter", "compile", "script", "script_method", "ignore", "unused", "export", "custom_fwd",
     "custom_bwd", "autocast", "record", "rank_zero_only", "deprecated", "main", "command", "hook", "typechecked", "jaxtyped",
     "profile", "timeit", "disable", "fixture", "parametrize", "skipif", "skip", "slow"}
)  # fmt: skip

# Modules that don't make a loop a step by being called in it.
CHEAP_MODULES = frozenset(
    {"torch.nn.ReLU", "torch.nn.Sigmoid", "torch.nn.Softmax", "torch.nn.Identity", "torch.nn.Dropout", "torch.nn.GELU"}
)

# Methods that keep the dimensions there are.
KEEPING_DIMENSIONS = frozenset({"detach", "detach_", "pin_memory", "requires_grad_", "type", "type_as"})


@record(frozen=True)
class Sizing:
    """How a function takes the size of its result from a tensor's values, which the host has to wait for."""

    # What to write instead.
    instead: str
    # The tensor that is asked, by its place among the arguments; a method's own tensor is the first.
    argument: int = 0
    # Keywords that tell the size.
    told: tuple[str, ...] = ()
    # It asks only where it is given nothing else.
    alone: bool = False


KEEP_ALL = "keep all elements, and choose with `torch.where` or multiply by the mask"
_POSITIONS = (
    "choose with the condition itself (`torch.where(condition, a, b)`), or give the number to `torch.nonzero_static`"
)
_LESS_OFTEN = "do it before the batch is moved, or every few steps only"
# What to write where only the values tell the size: there is no cheaper form of the same.
WITHOUT_CHEAPER_FORM = frozenset({KEEP_ALL, _POSITIONS, _LESS_OFTEN})
# Functions and methods. Source: the CUDA kernels of aten/src/ATen/native/cuda (Nonzero.cu, Unique.cu, SummaryOps.cu),
# Repeat.h and Onehot.cpp, which copy a count or the largest value to the host before they make the result.
SIZED_BY_VALUES = {
    "nonzero": Sizing(_POSITIONS),
    "argwhere": Sizing(_POSITIONS),
    "where": Sizing(_POSITIONS, alone=True),
    "masked_select": Sizing(KEEP_ALL, argument=1),
    "unique": Sizing(_LESS_OFTEN),
    "unique_consecutive": Sizing(_LESS_OFTEN),
    "bincount": Sizing("`torch.zeros(n, ...).scatter_add_(0, x, ones)` counts on the device where `n` is known"),
    "one_hot": Sizing("tell it: `num_classes=`", told=("num_classes",), alone=True),
    "repeat_interleave": Sizing("tell it: `output_size=`", argument=1, told=("output_size",)),
}
# Functions and methods of linear algebra that look on the host whether they came to an end, and what of torch.linalg does the same without.
# Source: measured on a GPU (tools/cuda_truth.py); https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv_ex.html
WITHOUT_LOOKING = {
    "inv": "inv_ex",
    "inverse": "inv_ex",
    "solve": "solve_ex",
    "cholesky": "cholesky_ex",
    "lu_factor": "lu_factor_ex",
    "ldl_factor": "ldl_factor_ex",
}
# Functions and methods whose result holds truth values.
MASK_FUNCTIONS = frozenset(
    {"eq", "ne", "gt", "ge", "lt", "le", "greater", "less", "isnan", "isinf", "isfinite", "isclose", "isin", "bool",
     "logical_and", "logical_or", "logical_not", "logical_xor"}
)  # fmt: skip

# Methods that set an object up before anything else is done with it.
CONSTRUCTORS = ("__init__", "setup", "__post_init__", "build")

# Functions that tell the time.
CLOCKS = frozenset(
    {"time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns", "monotonic_ns", "default_timer"}
)

# What `wandb.init()` gives.
WANDB_RUN = "wandb.Run"

# Libraries whose modules bring TorchScript with them when they are unpickled, and load it to where it was written whatever `map_location`
# says: https://github.com/e3nn/e3nn/blob/main/e3nn/util/codegen/_mixin.py
SCRIPTED_IN_PICKLES = ("e3nn",)

# Packages that have kernels for CUDA alone (their setup.py builds a CUDAExtension and nothing else, or they bind NVIDIA's own libraries):
# what imports one under no condition doesn't run where CUDA is missing.
OF_CUDA_ALONE = frozenset(
    {"causal_conv1d", "cupy", "diff_gaussian_rasterization", "flash_attn", "mamba_ssm", "nvdiffrast", "pointnet2_ops",
     "pointops", "pycuda", "selective_scan_cuda", "simple_knn", "tensorrt", "tinycudann", "torch2trt"}
)  # fmt: skip
