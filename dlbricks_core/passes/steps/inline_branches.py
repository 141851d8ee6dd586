"""Puts a branch or the steps of a loop in place of an ``If``, ``Loop`` or ``Scan``.

The condition of an ``If``, and the number of steps of a loop, must be known before the model runs.
"""

from __future__ import annotations

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir import Layer
from dlbricks_core.ir.attributes import has_subgraphs
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.deciding import decided_by
from dlbricks_core.passes.steps.lowering import Lowering, Step
from dlbricks_core.passes.steps.subgraphs import read_subgraph, renamed, take_all
from dlbricks_core.passes.steps.unroll_loops import outside, too_long, unrolled


def _inline_branches(layer: Layer, lowering: Lowering) -> Layer | None:
    if not has_subgraphs(layer.attributes):
        return layer
    if not (_chosen(layer, lowering) or unrolled(layer, lowering)):
        _declare_states(layer, lowering)
        long = too_long(layer, lowering)
        reason = f"subgraph ({layer.op}{long}){decided_by(layer, lowering)}"
        lowering.add_opaque(layer, reason)
    return None


def _declare_states(layer: Layer, lowering: Lowering) -> None:
    """Records the shapes that a loop's body states for values passed from step to step."""
    first = {"Loop": 1, "Scan": 0}.get(layer.op)
    if first is None or layer.domain:
        return
    body = read_subgraph(layer, "body", lowering)
    states = body.outputs[first : first + _states(layer)]
    for name, inner in zip(layer.outputs, states, strict=False):
        if body.tensors[inner].is_static:
            lowering.declared[name] = body.tensors[inner]


def _states(layer: Layer) -> int:
    """Number of tensors that one step of a loop hands to the next."""
    scanned = layer.attributes.get("num_scan_inputs", 2)
    return len(layer.inputs) - (scanned if isinstance(scanned, int) else 2)


def _chosen(layer: Layer, lowering: Lowering) -> bool:
    """Puts the branch that always runs in place of an ``If``, if its condition is known.

    Raises:
        ModelError: If the branch cannot be read.
    """
    condition = lowering.values.get(layer.inputs[0]) if layer.op == "If" else None
    if condition is None:
        return False
    key = "then_branch" if condition.any() else "else_branch"
    branch = read_subgraph(layer, key, lowering)
    if len(branch.outputs) != len(layer.outputs):
        raise ModelError(f"If has {len(layer.outputs)} results, its {key} {len(branch.outputs)}",
                         hint=INVALID_MODEL)  # fmt: skip
    prefix = next(name for name in layer.outputs if name)
    names = {name: f"{prefix}/{name}" for name in branch.tensors}
    names.update({name: name for name in outside(layer, lowering)})
    take_all(renamed(branch, layer, names), lowering)
    for inner, outer in zip(branch.outputs, layer.outputs, strict=True):
        if outer:  # an Identity that normalization removes
            lowering.take(Layer("Identity", (names[inner],), (outer,)))
    return True


INLINE_BRANCHES: Step = Pass.of(
    _inline_branches,
    requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED],
    ensures=[Property.NO_SUBGRAPH],
)
