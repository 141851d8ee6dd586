"""Trials of single layers."""

from __future__ import annotations

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.limits import differences
from dlbricks_openvino.loading import KNOWN, compiled, defined, other_shape
from dlbricks_openvino.messages import is_refusal, one_line


def refusal(alone: CanonicalModel) -> str:
    """Why OpenVINO does not run a layer exactly; empty if it does.

    Args:
        alone: The layer as a model; weights without known values are inputs.

    Raises:
        RuntimeError: If OpenVINO fails for another reason.
    """
    (layer,) = alone.layers
    if layer.qualified_op in KNOWN:  # These need the values of their weights.
        return ""
    if reason := next(differences(alone, layer), ""):
        return reason
    whole = defined(alone)
    lacking = next((each for each in whole.model.layers if each.domain), None)
    if lacking is not None:
        reason = next(iter(whole.refused.values()), "it has no definition")
        return f"{layer.qualified_op}: {reason}"
    try:
        ready = compiled(Network(alone, alone.constants, {}), BackendSettings())
    except RuntimeError as error:
        if not is_refusal(error):
            raise
        return f"OpenVINO does not run {layer.qualified_op}: {one_line(error)}"
    problem = other_shape(ready, alone)
    return f"{layer.qualified_op}: {problem}" if problem else ""
