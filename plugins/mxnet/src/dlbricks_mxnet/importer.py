"""MXNet's model files, Gluon blocks and symbols, into the IR."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core import ir
from dlbricks_core.errors import ModelError, UnsupportedError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.importers.base import cut
from dlbricks_core.importers.formats import check_file
from dlbricks_core.ir import RawModel, TensorSpec, dtype_name, numpy_dtype
from dlbricks_mxnet.framework import import_mxnet, one_line
from dlbricks_mxnet.params import TYPES, read_specs
from dlbricks_mxnet.symbol_file import load_symbol, parsed_shape, read_graph, variables_of

Shapes = Mapping[str, tuple[int, ...]]

_SUFFIX = "-symbol.json"
_WEIGHTS = ".params"


class MxnetImporter(Importer):
    """Reads ``NAME-symbol.json``, with the ``NAME-0000.params`` or ``NAME.params`` beside it.

    The file rarely says the shapes of its inputs: the options do. Without parameters beside the
    file, the shapes of weights follow from the shapes of inputs.
    """

    name = "mxnet"
    suffixes = (_SUFFIX,)
    isolated = True
    lacks_ranks = True

    def handles(self, spec: str) -> bool:
        """Whether it is a graph by its name, or the weights of one, which need it."""
        return spec.endswith((_SUFFIX, _WEIGHTS))

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads the graph, and the shapes of its weights.

        Raises:
            ModelError: If a file is missing or damaged, or an input has no shape.
            UnsupportedError: If ONNX has no counterpart of an operator.
        """
        if path.name.endswith(_WEIGHTS):
            raise _weights_alone(path)
        try:
            graph = read_graph(path)
            symbol = load_symbol(graph)
            params = _params(path, symbol, options)
            shapes, types = _declared(variables_of(graph), {_plain(key) for key in params}, options)
            name = path.name.removesuffix(_SUFFIX)
            return from_symbol(symbol, params, shapes, types=types, name=name, source=str(path))
        except (ModelError, UnsupportedError) as error:
            told = error.message if str(path) in error.message else f"{path}: {error.message}"
            raise type(error)(told, hint=error.hint) from error
        except Exception as error:  # MXNet and its exporter trust a file to be what they wrote
            raise ModelError(
                f"{path} is damaged, or says what MXNet cannot: "
                f"{type(error).__name__}: {one_line(error)}"[:300],
                hint="Fetch it again, or save it again with net.export().",
            ) from error


def from_symbol(
    symbol: Any,
    params: Mapping[str, Any],
    shapes: Shapes,
    *,
    types: Mapping[str, str] | None = None,
    name: str = "symbol",
    source: str = "",
) -> RawModel:
    """Lowers an MXNet symbol.

    Args:
        symbol: Of the network's outputs.
        params: Its weights and states by variable name: arrays, specifications, or ``None``
            where the shape follows from the inputs. Values are not read.
        shapes: Shape of every other variable.
        types: Element type of inputs that are not ``"float32"``.
        name: Name of the model.
        source: Where it came from.

    Raises:
        ModelError: If shapes are missing or contradict each other.
        UnsupportedError: If ONNX has no counterpart of an operator.

    Example:
        >>> x = mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=4, name="fc"))
        >>> from_symbol(x, {"fc_weight": None, "fc_bias": None}, {"x": (1, 8)})
    """
    from dlbricks_mxnet.export import export
    from dlbricks_mxnet.export_graph import without_losses
    from dlbricks_mxnet.export_pads import merge_pads

    symbol = merge_pads(without_losses(symbol))
    types = types or {}
    params = {_plain(key): _spec(value) for key, value in params.items()}
    types = {**_short_types(symbol, params), **types}
    inputs = {k: TensorSpec(types.get(k, "float32"), tuple(s)) for k, s in shapes.items()}
    missing = [k for k in symbol.list_inputs() if k not in params and k not in inputs]
    if missing:
        raise ModelError(
            f"{name}: no shape for the input{'s' * (len(missing) > 1)} {cut(missing)}",
            hint=f"Give it, such as --dim {shlex.quote(missing[0])}=1x3x224x224.",
        )
    model = ir.read_model(export(symbol, inputs, params), name=name, source=source)
    return dataclasses.replace(
        model,
        inputs=tuple(k for k in model.inputs if k not in params),
        weights=model.weights.union(k for k in model.inputs if k in params),
    )


def _short_types(symbol: Any, params: Mapping[str, TensorSpec | None]) -> dict[str, str]:
    """Float types other than float32 that inputs need, because weights have them.

    Graphs rarely say the types of their inputs.
    """
    known = {key: numpy_dtype(spec.dtype) for key, spec in params.items() if spec}
    if all(dtype == np.float32 for dtype in known.values()):
        return {}
    arguments, _, _ = symbol.infer_type_partial(
        **{key: dtype for key, dtype in known.items() if key in symbol.list_inputs()}
    )
    found = zip(symbol.list_arguments(), arguments or (), strict=False)
    names = {key: dtype_name(np.dtype(dtype)) for key, dtype in found if dtype and key not in known}
    return {key: name for key, name in names.items() if name in ("float16", "float64")}


def from_block(
    block: Any,
    shapes: Shapes,
    *,
    types: Mapping[str, str] | None = None,
    name: str = "",
    source: str = "",
) -> RawModel:
    """Lowers a Gluon block; its parameters need not be initialized.

    Args:
        block: A ``HybridBlock``.
        shapes: Shape of every argument of the block, in their order; the names are free.
        types: Element type of inputs that are not ``"float32"``.
        name: Name of the model; the block's name by default.
        source: Where it came from.

    Raises:
        ModelError: If the block cannot be traced, or shapes contradict each other.
        UnsupportedError: If ONNX has no counterpart of an operator.

    Example:
        >>> net = mx.gluon.nn.Dense(10)
        >>> from_block(net, {"data": (1, 64)})
    """
    symbol, params = trace(block, shapes)
    name = name or block.name or type(block).__name__
    return from_symbol(symbol, params, shapes, types=types, name=name, source=source)


def trace(block: Any, shapes: Shapes) -> tuple[Any, dict[str, TensorSpec | None]]:
    """A block as a symbol, and the specification of its parameters as far as it is known.

    Raises:
        ModelError: If it is no ``HybridBlock``, or runs Python that symbols cannot follow.
    """
    mx = import_mxnet()
    if not isinstance(block, mx.gluon.HybridBlock):
        raise ModelError(
            f"{type(block).__name__} is not a HybridBlock",
            hint="Only hybrid blocks have a graph; derive from mxnet.gluon.HybridBlock.",
        )
    try:
        results = block(*(mx.sym.var(key) for key in shapes))
    except Exception as error:
        raise ModelError(
            f"{block.name} cannot be traced: {type(error).__name__}: {error}".splitlines()[0],
            hint="See that it hybridizes and takes as many inputs as there are shapes.",
        ) from error
    symbol = mx.sym.Group(_flat(results))
    params = {}
    for key, parameter in block.collect_params().items():
        known = parameter.shape is not None and all(size > 0 for size in parameter.shape)
        dtype = dtype_name(np.dtype(parameter.dtype))
        params[key] = TensorSpec(dtype, tuple(parameter.shape)) if known else None
    return symbol, params


def _flat(results: Any) -> list[Any]:
    if isinstance(results, list | tuple):
        return [symbol for result in results for symbol in _flat(result)]
    return [results]


def _plain(key: str) -> str:
    """A parameter's name without the kind that parameter files put in front."""
    return key.removeprefix("arg:").removeprefix("aux:")


def _spec(value: Any) -> TensorSpec | None:
    if value is None or isinstance(value, TensorSpec):
        return value
    return TensorSpec(dtype_name(np.dtype(value.dtype)), tuple(value.shape))


def _weights_alone(path: Path) -> ModelError:
    check_file(path, f"{_SUFFIX} file")
    graph = path.with_name(re.sub(r"(-\d+)?\.params$", _SUFFIX, path.name))
    hint = f"Name the graph beside it: {shlex.quote(str(graph))}"
    if not graph.is_file():
        hint = f"Name its graph, {graph.name}; net.export() writes both."
    return ModelError(f"{path} holds weights of MXNet without a graph", hint=hint)


def _params(path: Path, symbol: Any, options: ImportOptions) -> Mapping[str, TensorSpec | None]:
    """Weights of a graph, with their shapes where a file beside it has them.

    Raises:
        ModelError: If there is no such file, and the options give no input a shape.
    """
    file = params_file(path)
    if file is not None:
        return read_specs(file)
    names = symbol.list_inputs()
    if options.shapes.keys().isdisjoint(names):
        stem = path.name.removesuffix(_SUFFIX)
        raise ModelError(
            f"{path} has no parameters beside it, and no input has a shape",
            hint=f"Put {stem}-0000.params or {stem}.params into the same folder, or give the shape "
            f"of each input: --dim {shlex.quote(names[0])}=1x3x224x224.",
        )
    return dict.fromkeys(name for name in names if name not in options.shapes)


def params_file(path: Path) -> Path | None:
    """The parameters that belong to a graph; the last epoch where there are several."""
    stem = path.name.removesuffix(_SUFFIX)
    numbered = re.compile(re.escape(stem) + r"-\d+\.params")
    epochs = sorted(file for file in path.parent.iterdir() if numbered.fullmatch(file.name))
    candidates = [*epochs[::-1], path.with_name(f"{stem}.params")]
    return next((file for file in candidates if file.is_file()), None)


def _declared(
    variables: Mapping[str, Mapping[str, str]], weights: Collection[str], options: ImportOptions
) -> tuple[Shapes, Mapping[str, str]]:
    """Shapes and types that the user or the graph gives to inputs.

    A graph gives shapes of weights as well. They have no batch axis, and are open where a layer
    infers them from its first input: the file of the weights has them.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, str] = {}
    for name, attributes in variables.items():
        if name in weights:
            continue
        shape = parsed_shape(attributes.get("__shape__"))
        if shape and all(size > 0 for size in shape[1:]):
            shapes[name] = (options.batch or max(shape[0], 1), *shape[1:])
        if attributes.get("__dtype__", "-1").isdigit():
            types[name] = TYPES[int(attributes["__dtype__"])]
    own = set(variables) - set(weights)
    return {**shapes, **{k: s for k, s in options.shapes.items() if k in own}}, types
