"""What a value can be."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What a value is. The upper ones are the words of the design; the lower ones are how Python gets there."""

    TENSOR = "tensor"
    PARAMETER = "parameter"
    MODULE = "module"
    WRAPPER = "wrapper"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    LOADER = "loader"
    BATCH = "batch"
    DEVICE = "device"
    STATE_DICT = "state dict"
    NDARRAY = "ndarray"
    SCALAR = "scalar"
    UNKNOWN = "unknown"

    CONSTANT = "constant"
    SEQUENCE = "sequence"
    MAPPING = "mapping"
    OBJECT = "object"
    CLASS = "class"
    FUNCTION = "function"
    REFERENCE = "reference"
    EITHER = "either"

    # By identity: members are keys of hot tables, and Enum's own hash is a Python call.
    __hash__ = object.__hash__
