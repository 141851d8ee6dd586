"""Layers that OpenVINO cannot run, found by compiling each of them alone."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.backends import refused_layers
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.limits import refusals
from dlbricks_openvino.trial import refusal


def unsupported(model: CanonicalModel) -> Mapping[int, str]:
    """Reason for every layer that OpenVINO cannot run exactly, by its index.

    The check needs no values of weights.
    """
    return dict(sorted({**refused_layers(model, refusal), **refusals(model)}.items()))
