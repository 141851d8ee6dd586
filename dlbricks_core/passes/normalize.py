"""Raw models to canonical form: the passes, in order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dlbricks_core.errors import INVALID_MODEL, WRONG_SIZES, WRONG_VALUES, Border, ModelError
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes.bind_sizes import BIND_SIZES
from dlbricks_core.passes.bind_values import BIND_VALUES
from dlbricks_core.passes.drop_dead_layers import DROP_DEAD_LAYERS
from dlbricks_core.passes.drop_unread import DROP_UNREAD
from dlbricks_core.passes.fold_batchnorm import FOLD_BATCHNORM
from dlbricks_core.passes.limit_inputs import LIMIT_INPUTS
from dlbricks_core.passes.lower_layers import LOWER_LAYERS
from dlbricks_core.passes.options import InputValue, NormalizeOptions
from dlbricks_core.passes.pipeline import check_order

BINDING = (BIND_SIZES, BIND_VALUES)
"""Passes that apply the sizes and values that the user gives."""

PREPARING = (LIMIT_INPUTS, DROP_DEAD_LAYERS)
"""Passes over the raw model with static inputs."""

FINISHING = (DROP_UNREAD, FOLD_BATCHNORM)
"""Passes over the canonical model."""

ENSURED = check_order((*BINDING, *PREPARING, LOWER_LAYERS, *FINISHING))
"""Properties of every model that :func:`normalize` returns."""

_NO_DIMS: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
_NO_VALUES: Mapping[str, InputValue] = MappingProxyType({})


def normalize(
    model: RawModel,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] = _NO_DIMS,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Mapping[str, InputValue] = _NO_VALUES,
    fold_batchnorm: bool = False,
) -> CanonicalModel:
    """Brings a raw model into the canonical form that ``docs/reference/ir.md`` defines.

    Names of inputs, outputs and of every tensor that remains are kept.

    Args:
        model: Model as :func:`dlbricks_core.ir.read_model` returns it.
        batch: Size of the first dimension of every input where that is dynamic.
        dims: Size by name of the dynamic dimension, or by ``input.axis`` (``data.2``).
        shapes: Whole shapes by input; the only way for inputs of which not even the rank is known.
        values: Constant value of an input, by its name: one number for all elements, or one for
            each element; ``None`` for an optional input that is left out.
        fold_batchnorm: Whether to fold each BatchNormalization into the convolution or
            Gemm before it, as optimizing runtimes do.

    Raises:
        UnboundDimensionsError: If a dynamic dimension of an input is left without a size.
        ModelError: If a name in ``dims`` or ``values`` matches nothing, an input cannot hold
            its value, or a layer does not fit its inputs.

    Examples:
        >>> model = normalize(read_model(onnx.load("bert.onnx"), name="bert"),
        ...                   batch=1, dims={"sequence": 128})
    """
    options = NormalizeOptions(batch, dims, shapes, values, fold_batchnorm)
    sized = all(model.tensors[name].is_static for name in model.inputs)
    for binding in BINDING:
        model = binding.run(model, options)
    try:
        with Border(model.source or model.name):
            return _canonical(model, options)
    except ModelError as error:
        if sized and error.hint == WRONG_SIZES:
            hint = WRONG_VALUES if values else INVALID_MODEL
            raise ModelError(error.message, hint=hint) from error
        raise


def _canonical(model: RawModel, options: NormalizeOptions) -> CanonicalModel:
    for preparing in PREPARING:
        model = preparing.run(model, options)
    canonical = LOWER_LAYERS.run(model, options)
    for finishing in FINISHING:
        canonical = finishing.run(canonical, options)
    return canonical
