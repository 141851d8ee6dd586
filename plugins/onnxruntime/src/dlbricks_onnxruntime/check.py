"""Layers that ONNX Runtime cannot run, found by building a session for each of them alone."""

from __future__ import annotations

import onnxruntime as ort

from dlbricks_core.backends import BackendSettings, refused_layers
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.sessions import QUIET, create_session, session_options

_USUAL = frozenset({"float32", "float64"})
"""Float types that almost every kernel supports."""

_AS_IT_STANDS = BackendSettings(threads=1, options={"optimizations": "off"})


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Reason for every layer that has no CPU kernel or is computed wrongly, by its index.

    The check needs no values of weights.
    """
    ort.set_default_logger_severity(QUIET)
    limited = {i: refusal(model, layer) for i, layer in enumerate(model.layers)}
    reasons = refused_layers(model, _reason) | {i: why for i, why in limited.items() if why}
    return dict(sorted(reasons.items()))


def _reason(layer: CanonicalModel) -> str:
    try:
        create_session(layer, layer.constants, session_options(_AS_IT_STANDS))
    except UnsupportedError as error:
        return f"{error.message}{_of_types(layer)}"
    return ""


def _of_types(layer: CanonicalModel) -> str:
    """Unusual float types of a layer, which may be the reason: ``of bfloat16``."""
    types = {layer.tensors[name].dtype for name in (*layer.inputs, *layer.outputs)}
    found = sorted(each for each in types - _USUAL if "float" in each)
    return f" of {' and '.join(found)}" if found else ""
