"""Sentences on whether a processor computes natively in an element type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbricks_core.machine.arithmetic import MULTIPLYING, multiplying

if TYPE_CHECKING:
    from dlbricks_core.facts import System
    from dlbricks_core.ir import CanonicalModel
    from dlbricks_core.workflows import RunResult

_FLOATS = ("bfloat16", "float16")
"""Types of :data:`MULTIPLYING` that a whole model may compute in."""


def arithmetic(system: System, dtype: str) -> str:
    """A line on how a system computes in a type: ``bfloat16: is converted to float32``."""
    found = multiplying(system, dtype)
    if found is None:
        return f"{dtype}: the instruction sets of this processor are not known"
    if found:
        return f"{dtype}: this processor multiplies it itself ({', '.join(found)})"
    by = " by an instruction of its own (f16c)" if _has_f16c(system, dtype) else ""
    return f"{dtype}: is converted to float32{by}"


def _has_f16c(system: System, dtype: str) -> bool:
    return dtype == "float16" and "f16c" in system.isa


def of_processor(system: System) -> list[str]:
    """A line for each type whose speed depends on instruction sets."""
    return [arithmetic(system, dtype) for dtype in MULTIPLYING]


def of_run(result: RunResult) -> Iterator[str]:
    """Sentences on short types of models: how the processor and the backend compute in them.

    A backend without kernels for a type converts what it reads, and computes in float32.
    """
    types = {model.cut.model.name: short_float(model.cut.model) for model in result.models}
    for dtype in dict.fromkeys(filter(None, types.values())):
        yield arithmetic(result.request.target, dtype)
    executed = {each.brick.signature: each.brick.model for each in result.bricks}
    for model in result.models:
        dtype = types[model.cut.model.name]
        counts = {s: n for s, n in model.cut.counts.items() if s in executed}
        layers = sum(n * len(executed[s].layers) for s, n in counts.items())
        wide = sum(n * _wide_layers(executed[s]) for s, n in counts.items())
        if dtype and wide > layers / 2:
            yield (
                f"{model.cut.model.name}: {result.request.backend.name} computes "
                f"{wide} of {layers} layers in float32, not in {dtype}"
            )


def short_float(model: CanonicalModel) -> str:
    """Short float type of a model's inputs and weights; empty if they have none."""
    types = {model.tensors[name].dtype for name in (*model.inputs, *model.weights)}
    return next((each for each in _FLOATS if each in types), "")


def _wide_layers(model: CanonicalModel) -> int:
    """Number of layers that write float32."""
    return sum(
        any(model.tensors[name].dtype == "float32" for name in layer.outputs if name)
        for layer in model.layers
    )
