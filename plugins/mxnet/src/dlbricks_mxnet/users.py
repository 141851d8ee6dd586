"""Models as MXNet's users run them: hybridized Gluon blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from dlbricks_core.backends import Array, BackendSettings, Opened, Watch
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import from_block, params_file
from dlbricks_mxnet.loading import place
from dlbricks_mxnet.symbol_file import load_symbol, read_graph

mx = import_mxnet()


def open_block(
    model: CanonicalModel, inputs: Mapping[str, Array], settings: BackendSettings
) -> Opened:
    """The block of a model file with its own weights, or a network of the zoo.

    Args:
        model: The imported model.
        inputs: Value of each input by name.
        settings: Options of the backend.
    """
    names = list(model.inputs)
    collection, _, name = model.source.partition(":")
    if collection == "mxnet" and not Path(model.source).exists():
        block = mx.gluon.model_zoo.vision.get_model(name)
        # Variances stay the same from layer to layer, so that no activation is denormal.
        block.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    else:
        block = _block_of_file(Path(model.source), names)
    static = settings.options.get("executor") == "static"
    block.hybridize(static_alloc=static, static_shape=static)
    fed = [place(inputs[name]) for name in names]

    def run() -> Any:
        results = block(*fed)
        for result in results if isinstance(results, list | tuple) else (results,):
            result.wait_to_read()
        return results

    return Opened(run)


def _block_of_file(path: Path, inputs: list[str]) -> Any:
    """A block with the weights of the ``.params`` file beside the symbol."""
    symbol = load_symbol(read_graph(path))
    block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(name) for name in inputs])
    block.collect_params().load(
        str(params_file(path)), ctx=mx.cpu(), restore_prefix="", ignore_extra=True,
        cast_dtype=True, dtype_source="saved",
    )  # fmt: skip
    return block


def watch(target: object) -> AbstractContextManager[Watch] | None:
    """A context that times calls of a hybrid block; ``None`` for anything else."""
    return _watched(target) if isinstance(target, mx.gluon.HybridBlock) else None


@contextmanager
def _watched(block: Any) -> Iterator[Watch]:
    """Times calls until their results are in memory: MXNet's calls return before."""
    seen = Watch(int(os.environ.get("OMP_NUM_THREADS") or physical_cores_available()))
    begins: list[float] = []
    shapes: dict[str, tuple[int, ...]] = {}

    def before(_: Any, inputs: Any) -> None:
        shapes.clear()
        shapes.update({f"data{i}": each.shape for i, each in enumerate(inputs)})
        begins.append(perf_counter())

    def after(_: Any, __: Any, results: Any) -> None:
        for result in results if isinstance(results, list | tuple) else (results,):
            result.wait_to_read()
        seen.samples_ms.append((perf_counter() - begins.pop()) * 1e3)

    hooks = [block.register_forward_pre_hook(before), block.register_forward_hook(after)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.detach()
    if shapes:
        seen.source = from_block(block, shapes)
