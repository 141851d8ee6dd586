"""Which layers ONNX Runtime can run, found by asking it."""

from __future__ import annotations

from dataclasses import replace

import onnxruntime as ort

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import extract, signature
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.sessions import create_session, session_options


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Index and reason of every layer that has no CPU kernel.

    Each kind of layer is put into a session of its own, once, with its weights as
    inputs: no values are needed.
    """
    ort.set_default_logger_severity(4)
    reasons = {}
    known: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        reason = refusal(model, layer)
        if reason:
            reasons[index] = reason
            continue
        identity = signature(model, (index,))
        if identity not in known:
            known[identity] = _reason(extract(model, (index,), "layer"))
        if known[identity]:
            reasons[index] = known[identity]
    return reasons


def _reason(layer: CanonicalModel) -> str:
    open_weights = sorted(layer.weights - set(layer.constants))
    fed = replace(
        layer,
        inputs=(*layer.inputs, *open_weights),
        weights=frozenset(layer.constants),
    )
    try:
        create_session(fed, layer.constants, _options())
    except UnsupportedError as error:
        return error.message
    except DLBricksError as error:
        return error.message
    return ""


def _options() -> ort.SessionOptions:
    return session_options(BackendSettings(threads=1, options={"optimizations": "off"}))
