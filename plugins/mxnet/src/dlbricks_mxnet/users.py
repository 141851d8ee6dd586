"""Models as MXNet's users run them: hybridized Gluon blocks."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from dlbricks_core.backends import Array, BackendSettings, Opened, Watch
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.importer import from_block, params_file
from dlbricks_mxnet.loading import place
from dlbricks_mxnet.symbol_file import load_symbol, read_graph

mx = import_mxnet()

_WEIGHTS = mx.init.Xavier(rnd_type="uniform", factor_type="in", magnitude=6)
"""Weights of the zoo's networks. Variances stay the same from layer to layer, so that no activation
is denormal. MXNet draws normal numbers of that variance five times more slowly: the 103 million of
VGG's first dense layer take 3.7 s rather than 0.7."""


def open_block(
    model: CanonicalModel,
    inputs: Mapping[str, Array],
    settings: BackendSettings,
    profiled_runs: int,
) -> Opened:
    """The block of a model file with its own weights, or a network of the zoo.

    Args:
        model: The imported model.
        inputs: Value of each input by name.
        settings: Options of the backend.
        profiled_runs: Fewest runs that are profiled, after a first one.
    """
    gc.collect()  # blocks refer to themselves, so the one before is still in memory
    block = _block(model)
    static = settings.options.get("executor") == "static"
    block.hybridize(static_alloc=static, static_shape=static)
    fed = [place(inputs[name]) for name in model.inputs]

    def run() -> Any:
        results = block(*fed)
        for result in results if isinstance(results, list | tuple) else (results,):
            result.wait_to_read()
        return results

    return _profiled(block, run, fed, model, profiled_runs) if profiled_runs else Opened(run)


def _profiled(
    block: Any,
    run: Callable[[], object],
    fed: Sequence[NDArray],
    model: CanonicalModel,
    runs: int,
) -> Opened:
    """The block with the time of each operator; no times if MXNet reports another order."""
    from dlbricks_mxnet.hybridized import profile

    run()
    begin = perf_counter()
    try:
        found = profile(block, fed, model, runs)
    except (BackendError, mx.MXNetError):
        found = None
    return Opened(run, found, perf_counter() - begin)


def _block(model: CanonicalModel) -> Any:
    """The block with weights, not hybridized."""
    collection, _, name = model.source.partition(":")
    if collection != "mxnet" or Path(model.source).exists():
        return _block_of_file(Path(model.source), list(model.inputs))
    # A name manager of its own, as in the import: operators have the same names.
    with mx.name.NameManager():
        block = mx.gluon.model_zoo.vision.get_model(name)
    for key, parameter in block.collect_params().items():
        if key.endswith("weight"):
            parameter.init = None  # VGG's own is normal as well
    block.initialize(_WEIGHTS)
    return block


def _block_of_file(path: Path, inputs: list[str]) -> Any:
    """A block with the weights of the ``.params`` file beside the symbol, or with drawn weights."""
    symbol = load_symbol(read_graph(path))
    block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(name) for name in inputs])
    file = params_file(path)
    if file is None:
        block.initialize(_WEIGHTS)
        return block
    block.collect_params().load(
        str(file), ctx=mx.cpu(), restore_prefix="", ignore_extra=True,
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
