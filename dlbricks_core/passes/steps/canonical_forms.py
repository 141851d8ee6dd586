"""Puts the canonical form of a layer in its place."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.ir.attributes import tensor_value
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.forms.form import Form, RawLayer, form_of
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.shapes import UNKNOWN
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _canonical_forms(layer: Layer, lowering: Lowering) -> None:
    """Places the layers that the form of a layer consists of: most often one."""
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


CANONICAL_FORMS: Step = Pass.of(
    _canonical_forms,
    requires=[
        Property.MAY_BE_TIMED,
        Property.NO_SUBGRAPH,
        Property.TENSORS_ONLY,
        Property.INPUTS_STATIC,
        Property.DEFINED,
    ],
    ensures=[Property.FORM_CANONICAL],
)
