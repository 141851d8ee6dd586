"""Passes ensure what they promise, and run in an order that gives each what it requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx.parser
import pytest

from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CANONICAL_OPSET, CanonicalModel, Layer, RawModel, read_model
from dlbricks_core.ir.limits import MAX_ELEMENTS
from dlbricks_core.operators import operator
from dlbricks_core.passes.bind_sizes import bind_sizes
from dlbricks_core.passes.lower_layers import FROM_FORM, TO_FORM, lower_layers
from dlbricks_core.passes.normalize import BINDING, ENSURED, FINISHING, PREPARING
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property, check_order
from dlbricks_core.passes.schemas import defaults

CanonicalModel = RawModel | CanonicalModel
PASSES = (*BINDING, *PREPARING, lower_layers, *FINISHING)

TEXTS = {
    "dynamic": """(float[N, 8] x, float[8, 4] w) => (float[N, 4] y) {
        unread = Relu(x)
        number = Constant<value_int = 1>()
        shape = Shape(x)
        same = Identity(x)
        y = MatMul(same, w) }""",
    "folded": """(float[N, 8, 3, 3] x, float[N] unused) => (float[N, 4, 3, 3] y) {
        w = Constant<value_float = 1.0>()
        shape = Constant<value_ints = [4, 8, 1, 1]>()
        kernel = Expand(w, shape)
        channels = Constant<value_ints = [4]>()
        ones = Expand(w, channels)
        c = Conv(x, kernel)
        y = BatchNormalization(c, ones, ones, ones, ones) }""",
    "branch": """(float[N, 8] x) => (float[N, 8] y) {
        yes = Constant<value_int = 1>()
        condition = Cast<to = 9>(yes)
        same = Identity(x)
        y = If(condition) <
            then_branch = a () => (float[N, 8] t) { t = Relu(same) },
            else_branch = b () => (float[N, 8] e) { e = Neg(same) }> }""",
    "opaque": """(float[N, 8] x, bool c) => (y) {
        found = NonZero(x)
        y = Cast<to = 1>(found) }""",
}


def texts(name: str) -> RawModel:
    header = '<ir_version: 10, opset_import: ["" : 17]> graph '
    return read_model(onnx.parser.parse_model(header + TEXTS[name]), name=name)


def raw_models() -> list[RawModel]:
    light = LightModels()
    return [*map(texts, TEXTS), *(light.load(name) for name in light.names()[:3])]


def ordinary(model: CanonicalModel) -> list[Layer]:
    return [layer for layer in model.layers if not layer.opaque]


def read(model: CanonicalModel) -> set[str]:
    return {name for layer in model.layers for name in layer.reads}.union(model.outputs)


def leads_on(model: CanonicalModel) -> bool:
    wanted = read(model)
    return all(not wanted.isdisjoint(layer.outputs) for layer in model.layers)


def is_canonical(model: CanonicalModel) -> bool:
    layers = [layer for layer in ordinary(model) if not layer.domain]
    return model.opsets[""] == CANONICAL_OPSET and all(
        not layer.opset and defaults(layer.op).keys() - layer.attributes.keys() <= _DROPPED
        for layer in layers
    )


#: Attributes with a default that canonical layers may lack: the rest of the layer decides.
_DROPPED = {"allowzero", "auto_pad", "axis", "axes", "cubic_coeff_a", "extrapolation_value",
            "momentum", "nearest_mode", "noop_with_empty_axes", "num_outputs", "seed",
            "training_mode"}  # fmt: skip


def is_static(model: CanonicalModel) -> bool:
    unknown = {name for layer in model.layers if layer.opaque for name in layer.outputs}
    return all(spec.is_static for name, spec in model.tensors.items()
               if name not in unknown and name in read(model))  # fmt: skip


def is_folded(model: CanonicalModel) -> bool:
    layers = [layer for layer in ordinary(model) if layer.inputs and not layer.domain]
    return not any(
        model.weights.issuperset(layer.reads) and operator(layer.op).folded for layer in layers
    )


def needs_identities(model: CanonicalModel) -> bool:
    kept = {*model.inputs, *model.outputs, *(n for each in model.layers for n in each.captures)}
    return all(kept.intersection(layer.outputs) for layer in model.layers if layer.op == "Identity")


def follows_convolution(model: CanonicalModel, layer: Layer) -> bool:
    data = layer.inputs[0]
    producer = model.producers.get(data)
    alone = len(model.consumers[data]) == 1
    return producer is not None and alone and model.layers[producer].op == "Conv"


#: What each property of a whole model means.
HOLDS: Mapping[Property, Callable[[CanonicalModel], bool]] = {
    Property.INPUTS_SIZED: lambda m: all(
        m.tensors[n].is_static for n in m.inputs if m.tensors[n].dtype != "undefined"
    ),
    Property.INPUTS_FIXED: lambda m: "c" not in m.inputs,
    Property.INPUTS_LIMITED: lambda m: all(
        not spec.is_static or spec.elements <= MAX_ELEMENTS for spec in map(m.tensors.get, m.inputs)
    ),
    Property.LAYERS_LIVE: leads_on,
    Property.LAYERS_CANONICAL: is_canonical,
    Property.SHAPES_STATIC: is_static,
    Property.CONSTANTS_FOLDED: is_folded,
    Property.IDENTITIES_NEEDED: needs_identities,
    Property.NOTHING_UNREAD: lambda m: m.tensors.keys() - read(m) <= {
        *m.inputs, *(name for layer in m.layers for name in layer.outputs)
    },
    Property.BATCH_NORMALIZATION_FOLDED: lambda m: not any(
        layer.op == "BatchNormalization" and follows_convolution(m, layer) for layer in m.layers
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(each, marks=pytest.mark.long) if each.name == "light_densenet121" else each
        for each in raw_models()
    ],
    ids=lambda model: model.name,
)
def test_properties_that_a_pass_ensures_hold_from_then_on(model: RawModel) -> None:
    values = {"c": 1.0} if "c" in model.inputs else {}
    options = NormalizeOptions(batch=2, values=values, fold_batchnorm=True)
    held: set[Property] = set()
    for each in PASSES:
        assert each.requires <= held
        model = each.run(model, options)
        held |= each.ensures
        assert [found for found in held if not HOLDS[found](model)] == []
    assert held == ENSURED


@pytest.mark.parametrize("which", sorted(HOLDS, key=lambda each: each.name))
def test_every_property_is_false_of_some_model(which: Property) -> None:
    """A check that no model fails would prove nothing."""
    huge = bind_sizes.run(texts("dynamic"), NormalizeOptions(batch=2**40))
    assert not all(HOLDS[which](model) for model in (huge, *map(texts, TEXTS)))


@pytest.mark.parametrize("passes", [PASSES, (*TO_FORM, *FROM_FORM)])
def test_a_pass_that_comes_too_early_is_named(passes: tuple[Pass, ...]) -> None:
    check_order(passes)
    late = next(each for each in reversed(passes) if each.requires)
    with pytest.raises(ValueError, match=f"{late.run.__qualname__} comes too early"):
        check_order((late, *passes))


def test_requirements_are_stated_in_words() -> None:
    with pytest.raises(ValueError, match="it requires: every input has a static shape"):
        check_order([BINDING[1]])
