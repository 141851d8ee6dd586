"""MXNet's own models in their native form, for comparison with the exported and lowered ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, Network
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import trace
from dlbricks_mxnet.paper.catalogue import ENTRIES
from dlbricks_mxnet.symbol_file import load_symbol, read_graph

_NEAR_ONE = ("gamma", "var")
"""Suffixes of the names of scales and variances, which are drawn near 1; others are near 0."""


def original(network: Network) -> tuple[Any, dict[str, Array]]:
    """Symbol of a model in its native form, and values for its parameters.

    Parameters that the IR knows have its values. Parameters that the export folded away or packed
    differently get random values, which only need to be ordinary numbers.

    Args:
        network: Network with the producer's tensor names.

    Raises:
        UnsupportedError: If the symbol's shapes do not follow from the network's inputs.
    """
    mx = import_mxnet()
    symbol = _symbol(network.model.source)
    shapes = {name: value.shape for name, value in network.inputs.items()}
    arguments, _, states = symbol.infer_shape(**shapes)
    if arguments is None:
        raise UnsupportedError(f"{network.model.source}: {mx.__name__} cannot infer its shapes")
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    wanted = dict(zip(names, [*arguments, *states], strict=True))
    rng = np.random.default_rng(0)
    values = {}
    for name, shape in wanted.items():
        if name in network.inputs:
            continue
        known = network.weights.get(name)
        if known is not None and known.shape == tuple(shape):
            values[name] = known
        else:
            center = 1.0 if name.endswith(_NEAR_ONE) else 0.0
            values[name] = (center + rng.uniform(-0.05, 0.05, shape)).astype(np.float32)
    return symbol, values


def _symbol(source: str) -> Any:
    mx = import_mxnet()
    collection, _, name = source.partition(":")
    if collection == "mxnet" and not Path(source).exists():
        with mx.name.NameManager():
            return mx.gluon.model_zoo.vision.get_model(name)(mx.sym.var("data"))
    if collection == "paper" and name in ENTRIES:
        with mx.name.NameManager():
            return trace(ENTRIES[name].build(), ENTRIES[name].inputs)[0]
    return load_symbol(read_graph(Path(source)))
