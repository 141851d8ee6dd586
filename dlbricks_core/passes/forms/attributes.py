"""Canonical form of layers whose attributes have several spellings."""

from __future__ import annotations

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir.recurrent import GATE_ACTIVATIONS
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.schemas import defaults


def transpose(draft: LayerDraft) -> None:
    """Transpose: always with ``perm``, of axes that are not negative."""
    rank = draft.rank()
    perm = draft.attributes.get("perm") or range(rank - 1, -1, -1)
    assert isinstance(perm, tuple | range)
    draft.attributes["perm"] = tuple(axis % rank for axis in perm)


def mean_variance_normalization(draft: LayerDraft) -> None:
    """MeanVarianceNormalization: axes sorted and not negative."""
    axes = draft.attributes["axes"]
    assert isinstance(axes, tuple)
    draft.attributes["axes"] = tuple(sorted(axis % draft.rank() for axis in axes))


def quantization(draft: LayerDraft) -> None:
    """QuantizeLinear, DequantizeLinear: no axis where there is one scale, no type that it has."""
    if not draft.has(1) or draft.rank(1) == 0:
        draft.take("axis")
    if draft.has(1):
        own = DTYPE_NUMBERS[draft.specs[draft.inputs[1]].dtype]
        for name in ("output_dtype", "precision"):
            if draft.attributes.get(name) == own:
                draft.take(name)


def einsum(draft: LayerDraft) -> None:
    """Einsum: no spaces in the equation."""
    draft.attributes["equation"] = "".join(str(draft.attributes["equation"]).split())


def concat(draft: LayerDraft) -> None:
    """Concat: without inputs that have no elements."""
    # A Concat of one tensor remains: it copies.
    filled = [name for name in draft.inputs if draft.specs[name].elements]
    draft.inputs = filled or draft.inputs[:1]


def recurrent(draft: LayerDraft) -> None:
    """LSTM, GRU, RNN: sizes and activations written, no lengths where all steps are used."""
    directions, _, hidden = draft.sizes(2)
    if directions not in (1, 2):
        raise ModelError(
            f"{draft.op} has weights for {directions} directions, not for one or two",
            hint=INVALID_MODEL,
        )
    attributes = draft.attributes
    attributes["hidden_size"] = hidden
    given = attributes.get("activations")
    per_direction = GATE_ACTIVATIONS[draft.op]
    if not given or (draft.op == "RNN" and given == defaults("RNN")["activations"]):
        attributes["activations"] = per_direction * directions
    for name in ("activation_alpha", "activation_beta"):
        if not attributes.get(name):
            attributes.pop(name, None)
    steps = draft.sizes()[1 if attributes["layout"] else 0]
    lengths = draft.integers(4)
    if lengths is not None and all(length == steps for length in lengths):
        draft.leave_out(4)
