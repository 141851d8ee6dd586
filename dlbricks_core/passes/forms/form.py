"""Canonical form of a layer, found once for all layers that differ only in names.

Layers repeat within a network and across the networks of a benchmark. So everything
about a layer that does not depend on names is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from dlbricks_core.errors import DLBricksError, ModelError, UnsupportedError, reason
from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec, TensorValue
from dlbricks_core.ir.attributes import tensor_array
from dlbricks_core.passes.forms.canonicalize import CANONICALIZE
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.forms.upgrade import UPGRADE
from dlbricks_core.passes.forms.validity import check_definition
from dlbricks_core.passes.pipeline import Property, check_order
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.shapes import infer

_PASSES = (UPGRADE, CANONICALIZE)
"""Passes over a draft, in order."""

check_order(_PASSES, given=[Property.INPUTS_STATIC, Property.DEFINED, Property.VALID])


@dataclass(frozen=True)
class Form:
    """Canonical form of a raw layer, with local tensor names.

    ``<0`` is the raw layer's first input, ``>0`` its first output.

    Attributes:
        layers: In topological order; empty where the results are known without any.
        specs: Specification of every result and every new constant, as far as known.
        constants: New constants.
        results: Outputs that no layer computes; ``None`` where the value is not kept.
        unsupported: Reason why there is no canonical form; ``layers`` then holds the raw layer.
    """

    layers: tuple[Layer, ...]
    specs: Mapping[str, TensorSpec]
    constants: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, Array | None] = field(default_factory=dict)
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class RawLayer:
    """A raw layer without names: everything that its form depends on; hashable.

    Attributes:
        op: Operator type.
        domain: A domain that operator definitions exist for.
        opset: Version of that domain's operator set.
        attributes: Sorted.
        inputs: Static specification of each input, ``None`` where one is left out.
        values: Position and value of those inputs whose values matter and are known.
        outputs: Whether each output is wanted.
    """

    op: str
    domain: str
    opset: int
    attributes: tuple[tuple[str, Attribute], ...]
    inputs: tuple[TensorSpec | None, ...]
    values: tuple[tuple[int, TensorValue], ...]
    outputs: tuple[bool, ...]


@lru_cache(maxsize=1 << 14)
def form_of(raw: RawLayer) -> Form:
    """The canonical form of a layer.

    Raises:
        ModelError: If the layer cannot work on its inputs.
    """
    schema = definition(raw.op, raw.domain, raw.opset)
    assert schema is not None
    check_definition(schema, dict(raw.attributes), raw.inputs, raw.outputs)
    specs = {f"<{i}": spec for i, spec in enumerate(raw.inputs) if spec is not None}
    values = {f"<{i}": tensor_array(value) for i, value in raw.values}
    layer = Layer(
        op=raw.op,
        inputs=tuple(f"<{i}" if spec is not None else "" for i, spec in enumerate(raw.inputs)),
        outputs=tuple(f">{i}" if wanted else "" for i, wanted in enumerate(raw.outputs)),
        attributes=dict(raw.attributes),
        domain=raw.domain,
    )
    if raw.domain:
        return Form((layer,), infer(layer, specs, values, raw.opset))
    draft = LayerDraft(layer.op, schema.since_version, dict(layer.attributes), list(layer.inputs),
                  list(layer.outputs), dict(specs), dict(values))  # fmt: skip
    try:
        for each in _PASSES:
            each.run(draft)
        return _finished(draft)
    except UnsupportedError as error:
        found = infer(layer, specs, values, raw.opset)
        return Form((layer,), found, unsupported=error.message)
    except (DLBricksError, MemoryError):
        raise
    except Exception as error:
        # The passes rely on the definition. A layer that breaks it may raise anything in them.
        raise ModelError(
            f"{raw.op} has attributes or inputs that do not fit its definition: {reason(error)}",
            hint="The file may not be a valid ONNX model; try onnx.checker on it.",
        ) from error


def _finished(draft: LayerDraft) -> Form:
    layers = list(draft.before)
    if any(name not in draft.results for name in draft.outputs):
        layers.append(Layer(draft.op, tuple(draft.inputs), tuple(draft.outputs), draft.attributes))
    layers += draft.after
    for layer in layers:
        if layer.op == "Identity":
            draft.specs[layer.outputs[0]] = draft.specs[layer.inputs[0]]
        else:
            draft.specs.update(infer(layer, draft.specs, draft.values))
    read = {name for layer in layers for name in layer.inputs if name[:1] != "<"}
    return Form(
        layers=tuple(layers),
        specs={name: spec for name, spec in draft.specs.items() if name[:1] != "<"},
        constants={name: value for name, value in draft.values.items()
                   if name in read and name not in draft.results},
        results=draft.results,
    )  # fmt: skip


def missing_reason(layer: Layer, outputs: Iterable[TensorSpec]) -> str:
    """Reason why a layer with static inputs has outputs without a static shape."""
    if any(spec.dtype == "undefined" for spec in outputs):
        return f"result that is no tensor ({layer.op}){_ADVICE.get(layer.op, '')}"
    return f"data-dependent shape ({layer.op})"


_ADVICE = {"ZipMap": "; exporters leave it out with the option zipmap=False"}
"""Advice on results that are no tensors by operator."""
