"""Lowers every layer of a raw model, in one sweep from the inputs to the outputs."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.errors import ModelError, shown
from dlbricks_core.ir import (
    CANONICAL_OPSET,
    Array,
    CanonicalModel,
    Layer,
    RawModel,
    TensorSpec,
    dtype_name,
)
from dlbricks_core.ir.attributes import tensor_value
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.operators.domains import operator_domains
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.drop_unread import drop_unread
from dlbricks_core.passes.evaluate import evaluate
from dlbricks_core.passes.forms.form import Form, RawLayer, form_of, missing_reason
from dlbricks_core.passes.lowering import Lowering, decided_by
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Property, check_order, properties
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.shapes import UNKNOWN
from dlbricks_core.passes.subgraphs import inline_branches


@properties(ensures=[Property.NAMES_RESOLVED])
def resolve_names(layer: Layer, lowering: Lowering) -> Layer:
    """Renames the tensors that a layer reads, where an Identity in between is gone."""
    aliases = lowering.aliases
    if aliases.keys().isdisjoint(layer.inputs):
        return layer
    return replace(layer, inputs=tuple([aliases.get(name, name) for name in layer.inputs]))


@properties(requires=[Property.NAMES_RESOLVED], ensures=[Property.MAY_BE_TIMED])
def keep_opaque(layer: Layer, lowering: Lowering) -> Layer | None:
    """Keeps a layer as it is if it is opaque from the start."""
    if not layer.opaque:
        return layer
    lowering.add_opaque(layer, layer.opaque)
    return None


@properties(
    requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED], ensures=[Property.TENSORS_ONLY]
)
def lower_sequences(layer: Layer, lowering: Lowering) -> Layer | None:
    """Lowers layers on sequences and optionals to layers on tensors, if constants decide these."""
    lowered = lowering.sequences.lowered(layer)
    if lowered is None:
        return layer
    for name, value in lowered.constants.items():
        lowering.tensors[name] = TensorSpec(dtype_name(value.dtype), value.shape)
        lowering.add_weight(name, value)
    for part in lowered.layers:
        is_idle = part.op == "Identity"
        lowering.proceed(part if is_idle else replace(part, opset=CANONICAL_OPSET))
    if layer.outputs[0] not in lowering.tensors:
        # Others may read the sequence itself; if nobody does, the layer is dropped.
        lowering.add_opaque(layer, missing_reason(layer, [UNKNOWN]))
    return None


@properties(
    requires=[Property.NAMES_RESOLVED, Property.TENSORS_ONLY], ensures=[Property.INPUTS_STATIC]
)
def require_shapes(layer: Layer, lowering: Lowering) -> Layer | None:
    """Makes a layer opaque if it reads a tensor without a known shape."""
    for name in layer.inputs:
        if name and not lowering.spec(name).is_static:
            origin = lowering.unshaped.get(name, name)
            reason = f"input without a known shape ({origin})"
            lowering.add_opaque(layer, f"{reason}{decided_by(layer, lowering)}", origin)
            return None
    return layer


_TEXT = "works on text, which is not timed"


@properties(requires=[Property.NOT_FOLDED, Property.NOT_IDLE], ensures=[Property.MAY_BE_TIMED])
def mark_opaque(layer: Layer, lowering: Lowering) -> Layer | None:
    """Makes a layer opaque if it works on text, or if its results have no static shape."""
    tensors = lowering.tensors
    results = [tensors[name] for name in layer.outputs if name]
    if any(tensors[n].dtype == "string" for n in (*layer.reads, *layer.outputs) if n):
        lowering.add_opaque(layer, _TEXT)
        return None
    if not all(spec.is_static for spec in results):
        reason = missing_reason(layer, results)
        lowering.add_opaque(layer, f"{reason}{decided_by(layer, lowering)}")
        return None
    return layer


@properties(requires=[Property.INPUTS_STATIC, Property.NO_SUBGRAPH], ensures=[Property.DEFINED])
def require_definitions(layer: Layer, lowering: Lowering) -> Layer | None:
    """Keeps a layer of an unknown operator if the producer describes its results."""
    opset = lowering.opset_of(layer)
    schema = definition(layer.op, layer.domain, opset)
    if schema is None:
        _add_described(layer, lowering)
        return None
    own = lowering.model.opsets.get(layer.domain, opset)
    other = definition(layer.op, layer.domain, own)
    if layer.domain and (other is None or other.since_version != schema.since_version):
        reason = f"function of opset {opset} of {layer.domain} in a model of opset {own}"
        lowering.add_opaque(layer, reason)
        return None
    return layer


def _add_described(layer: Layer, lowering: Lowering) -> None:
    """Adds a layer whose results have the shapes that the producer wrote."""
    outputs = [name for name in layer.outputs if name]
    if not all(lowering.declared[name].is_static for name in outputs):
        defined = {each.name for each in operator_domains()}
        advice = "" if layer.domain in defined else _ADVICE.get(layer.domain, "")
        lowering.add_opaque(layer, f"unknown operator {layer.qualified_op}{advice}")
        return
    lowering.tensors.update({name: lowering.declared[name] for name in outputs})
    described = mark_opaque.run(layer, lowering)
    if described is not None:
        lowering.layers.append(described)


_ADVICE = {
    "com.microsoft": "; it comes with dlbricks-contrib, which is not installed",
    "com.microsoft.nchwc": "; ONNX Runtime wrote it for one processor: name the file from "
    "before its optimizations",
}
"""Advice on operators without a definition by domain."""


@properties(
    requires=[
        Property.MAY_BE_TIMED,
        Property.NO_SUBGRAPH,
        Property.TENSORS_ONLY,
        Property.INPUTS_STATIC,
        Property.DEFINED,
    ],
    ensures=[Property.FORM_CANONICAL],
)
def canonical_forms(layer: Layer, lowering: Lowering) -> None:
    """Puts the canonical form of a layer in its place: most often one layer."""
    form = form_of(_without_names(layer, lowering))
    names = _names(form, layer, lowering)
    for local, spec in form.specs.items():
        name = names[local]
        if not spec.is_static:
            declared = lowering.declared.get(name, UNKNOWN)
            spec = declared if declared.is_static else spec
        lowering.tensors[name] = spec
    for local, value in (*form.constants.items(), *form.results.items()):
        lowering.add_weight(names[local], value)
    for part in form.layers:
        placed = Layer(
            part.op,
            tuple([names[name] for name in part.inputs]),
            tuple([names[name] for name in part.outputs]),
            part.attributes,
            part.domain,
            layer.name,
        )
        if form.unsupported:
            lowering.add_opaque(placed, form.unsupported)
        else:
            lowering.place(placed)


def _without_names(layer: Layer, lowering: Lowering) -> RawLayer:
    parameters = operator(layer.qualified_op).parameters
    values = lowering.values
    return RawLayer(
        op=layer.op,
        domain=layer.domain,
        opset=lowering.opset_of(layer),
        attributes=tuple(sorted(layer.attributes.items())),
        inputs=tuple([lowering.tensors[name] if name else None for name in layer.inputs]),
        values=tuple(
            [(position, tensor_value(values[name]))
             for position, name in enumerate(layer.inputs)
             if position in parameters and name in values]
        ),
        outputs=tuple([bool(name) for name in layer.outputs]),
    )  # fmt: skip


def _names(form: Form, layer: Layer, lowering: Lowering) -> dict[str, str]:
    """The model's name of each tensor of a form."""
    names = {"": ""}
    for i, name in enumerate(layer.inputs):
        names[f"<{i}"] = name
    for i, name in enumerate(layer.outputs):
        names[f">{i}"] = name
    anchor = next(name for name in layer.outputs if name)
    for local in form.specs:
        if local not in names:
            names[local] = lowering.new_name(f"{anchor}.{local}")
            lowering.tensors[names[local]] = form.specs[local]
    return names


@properties(requires=[Property.FORM_CANONICAL])
def check_rows(layer: Layer, lowering: Lowering) -> Layer:
    """Refuses a lookup beyond the end of a table, such as one of learned positions."""
    if layer.op != "Gather" or layer.domain:
        return layer
    table, rows = layer.inputs
    wanted, axis = lowering.values.get(rows), layer.attributes["axis"]
    assert isinstance(axis, int)
    size = lowering.tensors[table].sizes[axis]
    beyond = [] if wanted is None else wanted[(wanted < -size) | (wanted >= size)].tolist()
    if beyond:
        raise ModelError(
            f"it reads row {beyond[-1]} of {shown(table)}, which has {size}",
            hint="Choose smaller sizes: of learned positions, a text cannot have more.",
        )
    return layer


@properties(requires=[Property.FORM_CANONICAL], ensures=[Property.NOT_FOLDED])
def fold_constants(layer: Layer, lowering: Lowering) -> Layer | None:
    """Turns the results of a layer that reads only weights into weights."""
    weights = lowering.weights
    reads_weights = layer.inputs and all(name in weights for name in layer.reads)
    return None if reads_weights and _is_folded(layer, lowering) else layer


def _is_folded(layer: Layer, lowering: Lowering) -> bool:
    if layer.domain or not operator(layer.op).folded:
        return False
    outputs = [name for name in layer.outputs if name]
    inputs = [lowering.values.get(name) if name else None for name in layer.inputs]
    known = all(value is not None or not name
                for name, value in zip(layer.inputs, inputs, strict=True))  # fmt: skip
    specs = [lowering.tensors[name] for name in outputs]
    static = all(spec.is_static for spec in specs)
    if known and not (static and any(s.elements > MAX_CONSTANT_ELEMENTS for s in specs)):
        results = _results(layer, inputs, lowering)
        if results is not None:
            for name, value in zip(outputs, results, strict=True):
                lowering.tensors[name] = TensorSpec(lowering.tensors[name].dtype, value.shape)
                lowering.add_weight(name, value)
            return True
    if static:
        lowering.weights.update(outputs)
        if not known:
            _keep(layer, lowering)
    return static


_ARRANGING = frozenset({"copy", "gather", "transpose", "view"})
"""Classes of layers that arrange elements anew."""


def _keep(layer: Layer, lowering: Lowering) -> None:
    """Keeps a folded layer for frameworks that compute it in each run.

    Rearranging a weight costs nothing in each run: frameworks read it through strides, and
    exporters write such layers although the program has none. A layer that reads only known values
    represents a weight that the file lacks.
    """
    kind = operator(layer.op).kind
    arranges = isinstance(kind, str) and kind.partition(":")[0] in _ARRANGING and layer.op != "Cast"
    if not arranges or not lowering.computed.isdisjoint(layer.reads):
        lowering.folded.append(layer)
        lowering.computed.update(filter(None, layer.outputs))


def _results(
    layer: Layer, inputs: list[Array | None], lowering: Lowering
) -> tuple[Array, ...] | None:
    if layer.op == "Identity":
        value = inputs[0]
        return None if value is None else (value,)
    return evaluate(layer, inputs, lowering.tensors)


@properties(requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED])
def place_identity(layer: Layer, lowering: Lowering) -> Layer | None:
    """Adds an Identity, whose canonical form equals its raw form for every type."""
    if not _is_identity(layer):
        return layer
    lowering.tensors[layer.outputs[0]] = lowering.tensors[layer.inputs[0]]
    lowering.place(layer)
    return None


@properties(requires=[Property.FORM_CANONICAL, Property.NOT_FOLDED], ensures=[Property.NOT_IDLE])
def drop_identity(layer: Layer, lowering: Lowering) -> Layer | None:
    """Removes an Identity by renaming, unless both names are needed outside of the layers."""
    return None if _is_identity(layer) and _is_dropped(layer, lowering) else layer


def _is_identity(layer: Layer) -> bool:
    return layer.op == "Identity" and not layer.domain


def _is_dropped(layer: Layer, lowering: Lowering) -> bool:
    (source,), (result,) = layer.inputs, layer.outputs
    captured, outputs = lowering.captured, lowering.model.output_names
    if result in captured or (result in outputs and source in captured):
        lowering.kept_for_captures = True
        return False
    if result in outputs:
        if source in lowering.fixed or source in lowering.renamed:
            return False
        lowering.renamed[source] = result
    lowering.aliases[result] = source
    return True


TO_FORM = (
    resolve_names,
    keep_opaque,
    place_identity,
    inline_branches,
    lower_sequences,
    require_shapes,
    require_definitions,
    canonical_forms,
)
"""Steps that every layer of a raw model goes through."""

FROM_FORM = (check_rows, fold_constants, drop_identity, mark_opaque)
"""Steps that every layer in canonical form goes through."""

check_order((*TO_FORM, *FROM_FORM))


@properties(
    requires=[Property.INPUTS_SIZED, Property.INPUTS_LIMITED, Property.LAYERS_LIVE],
    ensures=[
        Property.LAYERS_CANONICAL,
        Property.SHAPES_STATIC,
        Property.CONSTANTS_FOLDED,
        Property.IDENTITIES_NEEDED,
    ],
)
def lower_layers(model: RawModel, options: NormalizeOptions) -> CanonicalModel:
    """The model with every layer in canonical form, or opaque with the reason."""
    lowering = Lowering(model, TO_FORM, FROM_FORM)
    for layer in model.layers:
        lowering.take(layer)
    lowered = lowering.finish()
    if lowering.inlined and lowering.kept_for_captures:
        # Names that only the inlined subgraphs captured are free now.
        again = lower_layers(drop_unread(lowered, options).as_raw(), options)
        return replace(
            again,
            folded=lowered.folded.before(again.folded) if lowered.folded else again.folded,
            loop_steps=lowered.loop_steps + again.loop_steps,
        )
    return lowered
