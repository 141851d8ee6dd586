"""Raw model to canonical form, in one sweep from the inputs to the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dlbricks_core.errors import Border, ModelError, shown
from dlbricks_core.ir import (
    CANONICAL_OPSET,
    CanonicalModel,
    Layer,
    RawModel,
    TensorSpec,
    dtype_name,
)
from dlbricks_core.ir.attributes import has_subgraphs, tensor_value
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS, check_shape
from dlbricks_core.ir.parameters import PARAMETER_INPUTS
from dlbricks_core.passes.batchnorm import fold_batch_normalization
from dlbricks_core.passes.bind import bind
from dlbricks_core.passes.branches import chosen_branch
from dlbricks_core.passes.cleanup import live_layers, rename, tidy
from dlbricks_core.passes.draft import Array
from dlbricks_core.passes.fold import STAYS, evaluate
from dlbricks_core.passes.form import Form, RawLayer, form_of, missing_reason
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.sequences import Lowered, Sequences
from dlbricks_core.passes.shapes import UNKNOWN

_NO_DIMS: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
_NO_VALUES: Mapping[str, float] = MappingProxyType({})

_NOTHING: frozenset[int] = frozenset()

_TEXT = "works on text, which is not timed"

# Inputs that are parameters only in definitions older than the canonical one.
_PARAMETERS = {**PARAMETER_INPUTS, "Upsample": frozenset({1})}


def normalize(
    model: RawModel,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] = _NO_DIMS,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Mapping[str, float] = _NO_VALUES,
    fold_batchnorm: bool = False,
) -> CanonicalModel:
    """Brings a raw model into the canonical form that ``docs/reference/ir.md`` defines.

    Names of inputs, outputs and of every tensor that remains are kept.

    Args:
        model: As :func:`dlbricks_core.ir.read_model` gives it.
        batch: Size of the first dimension of every input where that is dynamic.
        dims: Size by name of the dynamic dimension, or by ``input.axis`` (``data.2``).
        shapes: Whole shapes by input; the only way for inputs of which not even the rank is known.
        values: Number that all elements of an input always have, by its name.
        fold_batchnorm: Whether to fold each BatchNormalization into the convolution or
            Gemm before it, as optimizing runtimes do.

    Raises:
        UnboundDimensionsError: If a dynamic dimension of an input is left without a size.
        ModelError: If a name in ``dims`` or ``values`` matches nothing, an input cannot hold
            its value, or a layer does not fit its inputs.

    Example:
        >>> model = normalize(read_model(onnx.load("bert.onnx"), name="bert"),
        ...                   batch=1, dims={"sequence": 128})
    """
    model = bind(model, batch=batch, dims=dims, shapes=shapes, values=values)
    with Border(model.source or model.name):
        _check_inputs(model)
        normal = _swept(model)
        return fold_batch_normalization(normal) if fold_batchnorm else normal


def _check_inputs(model: RawModel) -> None:
    for name in model.inputs:
        with Border("input", name):
            check_shape(model.tensors[name].shape or ())


def _swept(model: RawModel) -> CanonicalModel:
    sweep = _Sweep(model)
    for layer in live_layers(model.layers, model.outputs):
        sweep.take(layer)
    normal = tidy(sweep.finish())
    # Names that only the inlined subgraphs captured are free now.
    return _swept(normal.as_raw()) if sweep.inlined and sweep.kept_for_captures else normal


class _Sweep:
    """What is known about the part of the model that has been passed."""

    def __init__(self, model: RawModel) -> None:
        self.model = model
        #: What the producer says about tensors, where inference has no answer.
        self.declared: dict[str, TensorSpec] = dict(model.tensors)
        self.weights = set(model.weights)
        self.values: dict[str, Array] = dict(model.constants)
        self.tensors: dict[str, TensorSpec] = {
            name: model.tensors[name] for name in (*model.inputs, *model.weights)
        }
        self.layers: list[Layer] = []
        self.sequences = Sequences(self.tensors, self.values, self._new_name)
        #: Results of idle layers, by the tensor that they are the same as.
        self.aliases: dict[str, str] = {}
        #: New names of tensors that an idle layer turned into an output.
        self.renamed: dict[str, str] = {}
        #: Tensors whose names somebody outside of the layers uses.
        self.fixed = {*model.inputs, *model.outputs, *model.weights}
        self.outputs = frozenset(model.outputs)
        self.captured = {name for layer in model.layers for name in layer.captures}
        self.inlined = False
        self.kept_for_captures = False

    def finish(self) -> CanonicalModel:
        """The swept model."""
        for name in self.model.outputs:
            self._spec(name)
        normal = CanonicalModel(
            name=self.model.name,
            layers=tuple(self.layers),
            inputs=self.model.inputs,
            outputs=self.model.outputs,
            tensors=self.tensors,
            weights=frozenset(self.weights),
            constants=self.values,
            opsets={**self.model.opsets, "": CANONICAL_OPSET},
            source=self.model.source,
        )
        return rename(normal, self.renamed)

    def take(self, layer: Layer) -> None:
        """Adds what becomes of the next layer.

        Raises:
            ModelError: If it does not fit its inputs or its definition; names it.
        """
        name = layer.name or next(filter(None, layer.outputs), "")
        with Border("layer", name):
            self._take(layer)

    def _take(self, layer: Layer) -> None:
        aliases = self.aliases
        inputs = tuple([aliases.get(name, name) for name in layer.inputs])
        if layer.opaque:
            self._add_opaque(replace(layer, inputs=inputs), layer.opaque)
        elif layer.op == "Identity" and not layer.domain:
            self.tensors[layer.outputs[0]] = self.tensors[inputs[0]]
            self._place(replace(layer, inputs=inputs))
        elif has_subgraphs(layer.attributes):
            self._take_subgraph(replace(layer, inputs=inputs))
        elif (lowered := self.sequences.lowered(replace(layer, inputs=inputs))) is not None:
            self._take_lowered(lowered, replace(layer, inputs=inputs))
        else:
            self._take_plain(layer, inputs, layer.opset or self.model.opsets.get(layer.domain, 1))

    def _spec(self, name: str) -> TensorSpec:
        """Specification of a tensor that was passed.

        Raises:
            ModelError: If it was dropped: layers have results that only training asks for.
        """
        if name not in self.tensors:
            raise ModelError(
                f"no layer gives {shown(name)} when the model is not trained",
                hint="Export the model for inference.",
            )
        return self.tensors[name]

    def _take_lowered(self, lowered: Lowered, layer: Layer) -> None:
        for name, value in lowered.constants.items():
            self.tensors[name] = TensorSpec(dtype_name(value.dtype), value.shape)
            self._add_weight(name, value)
        for part in lowered.layers:
            if part.op == "Identity":
                self.take(part)
            else:
                self._take_plain(part, part.inputs, CANONICAL_OPSET)
        if layer.outputs[0] not in self.tensors:
            # Others may read the sequence itself; if nobody does, the layer is dropped.
            self._add_opaque(layer, missing_reason(layer, [UNKNOWN]))

    def _take_plain(self, layer: Layer, inputs: tuple[str, ...], opset: int) -> None:
        specs = []
        for name in inputs:
            spec = self._spec(name) if name else None
            if spec is not None and not spec.is_static:
                self._add_opaque(
                    replace(layer, inputs=inputs), f"input without a known shape ({name})"
                )
                return
            specs.append(spec)
        schema = definition(layer.op, layer.domain, opset)
        if schema is None:
            self._take_unknown(replace(layer, inputs=inputs))
            return
        own = self.model.opsets.get(layer.domain, opset)
        other = definition(layer.op, layer.domain, own)
        if layer.domain and (other is None or other.since_version != schema.since_version):
            reason = f"function of opset {opset} of {layer.domain} in a model of opset {own}"
            self._add_opaque(replace(layer, inputs=inputs), reason)
            return
        parameters = _PARAMETERS.get(layer.op, _NOTHING)
        raw = RawLayer(
            op=layer.op,
            domain=layer.domain,
            opset=opset,
            attributes=tuple(sorted(layer.attributes.items())),
            inputs=tuple(specs),
            values=tuple(
                [(position, tensor_value(self.values[name]))
                 for position, name in enumerate(inputs)
                 if position in parameters and name in self.values]
            ),
            outputs=tuple([bool(name) for name in layer.outputs]),
        )  # fmt: skip
        self._add_form(form_of(raw), layer, inputs)

    def _add_form(self, form: Form, layer: Layer, inputs: tuple[str, ...]) -> None:
        names = {"": ""}
        for i, name in enumerate(inputs):
            names[f"<{i}"] = name
        for i, name in enumerate(layer.outputs):
            names[f">{i}"] = name
        anchor = next(name for name in layer.outputs if name)
        for local, spec in form.specs.items():
            if local not in names:
                names[local] = self._new_name(f"{anchor}.{local}")
            name = names[local]
            if not spec.is_static:
                declared = self.declared.get(name, UNKNOWN)
                spec = declared if declared.is_static else spec
            self.tensors[name] = spec
        for local, value in form.constants.items():
            self._add_weight(names[local], value)
        for local, result in form.results.items():
            self._add_weight(names[local], result)
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
                self._add_opaque(placed, form.unsupported)
            else:
                self._place(placed)

    def _new_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.tensors or name in self.declared:
            number += 1
            name = f"{wanted}.{number}"
        return name

    def _add_weight(self, name: str, value: Array | None) -> None:
        self.weights.add(name)
        if value is not None:
            self.values[name] = value

    def _place(self, layer: Layer) -> None:
        """Adds a layer in canonical form, unless it is idle or reads only weights."""
        weights, tensors = self.weights, self.tensors
        if layer.inputs and all(name in weights for name in layer.reads) and self._fold(layer):
            return
        if layer.op == "Identity" and not layer.domain and self._is_idle(layer):
            return
        results = [tensors[name] for name in layer.outputs if name]
        if self._works_on_text(layer):
            self._add_opaque(layer, _TEXT)
        elif all(spec.is_static for spec in results):
            self.layers.append(layer)
        else:
            self._add_opaque(layer, missing_reason(layer, results))

    def _works_on_text(self, layer: Layer) -> bool:
        return any(self.tensors[n].dtype == "string" for n in (*layer.reads, *layer.outputs) if n)

    def _is_idle(self, layer: Layer) -> bool:
        """Removes an Identity by renaming, where names allow it."""
        (source,), (result,) = layer.inputs, layer.outputs
        if result in self.captured or (result in self.outputs and source in self.captured):
            self.kept_for_captures = True
            return False
        if result in self.outputs:
            if source in self.fixed or source in self.renamed:
                return False
            self.renamed[source] = result
        self.aliases[result] = source
        return True

    def _fold(self, layer: Layer) -> bool:
        """Makes the results of a layer that reads only weights weights themselves."""
        if layer.domain or layer.op in STAYS:
            return False
        outputs = [name for name in layer.outputs if name]
        inputs = [self.values.get(name) if name else None for name in layer.inputs]
        known = all(value is not None or not name
                    for name, value in zip(layer.inputs, inputs, strict=True))  # fmt: skip
        specs = [self.tensors[name] for name in outputs]
        static = all(spec.is_static for spec in specs)
        if known and not (static and any(s.elements > MAX_CONSTANT_ELEMENTS for s in specs)):
            results = self._evaluate(layer, inputs)
            if results is not None:
                for name, value in zip(outputs, results, strict=True):
                    self.tensors[name] = TensorSpec(self.tensors[name].dtype, value.shape)
                    self._add_weight(name, value)
                return True
        if static:
            self.weights.update(outputs)
        return static

    def _evaluate(self, layer: Layer, inputs: list[Array | None]) -> tuple[Array, ...] | None:
        if layer.op == "Identity":
            value = inputs[0]
            return None if value is None else (value,)
        return evaluate(layer, inputs, self.tensors)

    def _take_unknown(self, layer: Layer) -> None:
        """An operator without a definition: the producer may say what it gives."""
        outputs = [name for name in layer.outputs if name]
        if not all(self.declared[name].is_static for name in outputs):
            self._add_opaque(layer, f"unknown operator {layer.qualified_op}")
            return
        self.tensors.update({name: self.declared[name] for name in outputs})
        if self._works_on_text(layer):
            self._add_opaque(layer, _TEXT)
        else:
            self.layers.append(layer)

    def _take_subgraph(self, layer: Layer) -> None:
        branch = chosen_branch(layer, self.values, self.tensors, self.model.opsets)
        if branch is None:
            self._add_opaque(layer, f"subgraph ({layer.op}){self._open(layer)}")
            return
        for name, spec in branch.tensors.items():
            self.declared.setdefault(name, spec)
        for name in branch.weights:
            self.tensors[name] = branch.tensors[name]
            self._add_weight(name, branch.constants.get(name))
        self.inlined = True
        self.captured.update(name for inner in branch.layers for name in inner.captures)
        for inner in branch.layers:
            self.take(inner)

    def _open(self, layer: Layer) -> str:
        """What would decide the branch of an ``If``, where that is numbers that users can give."""
        made = {name: each for each in self.layers for name in each.outputs}
        seen: set[str] = set()
        asked = [layer.inputs[0]] if layer.op == "If" else []
        while asked:
            name = asked.pop()
            if name not in seen:
                seen.add(name)
                asked += made[name].reads if name in made else ()
        deciding = [name for name in self.model.inputs if name in seen]
        specs = [self.tensors[name] for name in deciding]
        if not specs or not all(spec.is_static and spec.elements == 1 for spec in specs):
            return ""
        return f", decided by the input {' and '.join(deciding)}: --value gives it a number"

    def _add_opaque(self, layer: Layer, reason: str) -> None:
        for name in layer.outputs:
            if name:
                spec = self.tensors.get(name, UNKNOWN)
                declared = self.declared.get(name, UNKNOWN)
                self.tensors[name] = spec if spec.is_static else declared
        self.layers.append(replace(layer, opaque=reason))
