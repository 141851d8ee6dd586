"""Settings with which OpenVINO compiles models, and element types in which it computes."""

from __future__ import annotations

from functools import cache

import openvino

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel

SHORT = {"bfloat16": "BF16", "float16": "FP16"}
"""OpenVINO's name of each short float type, by its name in models."""

_HINTS = {"bfloat16": "bf16", "float16": "f16"}


@cache
def core() -> openvino.Core:
    """OpenVINO's core object, one in each process."""
    return openvino.Core()


@cache
def computed() -> frozenset[str]:
    """Short float types in which this processor computes; elsewhere OpenVINO widens them."""
    known = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return frozenset(dtype for dtype, name in SHORT.items() if name in known)


def short_types(model: CanonicalModel) -> frozenset[str]:
    """Short float types of a model's tensors."""
    return frozenset(SHORT.keys() & {spec.dtype for spec in model.tensors.values()})


def properties(model: CanonicalModel, settings: BackendSettings) -> dict[str, object]:
    """Properties of a compiled model: one stream with the settings' number of threads.

    By default OpenVINO computes a float32 model in 16 bits where the processor can. It would then
    be compared with frameworks that do as the model says. The option ``precision`` chooses.

    Args:
        model: Model in canonical form; its element types decide in which precision it computes.
        settings: Threads and options.
    """
    found: dict[str, object] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": settings.threads,
        # Otherwise a core with two hardware threads computes with one, for any number of threads.
        "ENABLE_HYPER_THREADING": True,
    }
    if settings.options.get("precision", "model") == "model":
        short = next(iter(sorted(short_types(model))), "")
        found["INFERENCE_PRECISION_HINT"] = _HINTS.get(short, "f32")
    if not settings.as_used:
        # Networks of a worker take turns on the same cores: where each runs is the worker's choice.
        found["ENABLE_CPU_PINNING"] = False
    return found
