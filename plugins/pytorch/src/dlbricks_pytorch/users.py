"""Models as PyTorch's users run them: the module itself, on its example inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dlbricks_core.backends import Array, Opened, Watch
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.factories import Made, made_by
from dlbricks_pytorch.importer import from_module
from dlbricks_pytorch.tensors import from_numpy

SOURCE = "torch:"
"""Prefix of the source of a model that a factory makes."""


def open_module(
    model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int = 0
) -> Opened:
    """The module that the model's factory makes, in evaluation mode.

    Args:
        model: The imported module.
        inputs: Value of each input by name. They replace example inputs of another shape, since
            the import may have been of another batch size.
        profiled_runs: Fewest runs that are profiled, after a first one; 0 for no profile.

    Raises:
        UnsupportedError: If the factory makes a program, a module without weights, or one with
            other inputs than the import has.
    """
    made = made_by(model.source.removeprefix(SOURCE))
    if not isinstance(made, Made):
        raise UnsupportedError(f"{model.source} makes an exported program, not a module")
    module = made.module.eval()
    if any(each.is_meta for each in module.parameters()):
        raise UnsupportedError(f"{model.source} makes a module without weights")
    args, kwargs = _fed(made, model, inputs)
    run = partial(module, *args, **kwargs)
    return _profiled(run, model, profiled_runs) if profiled_runs else Opened(run)


def _profiled(run: Callable[[], object], model: CanonicalModel, runs: int) -> Opened:
    """The module with the time of each operator; none where one run calls others than the next."""
    from dlbricks_pytorch.traced import profile

    def timed() -> float:
        begin = perf_counter()
        run()
        return (perf_counter() - begin) * 1e3

    run()
    begin = perf_counter()
    found = profile(timed, model, runs)
    return Opened(run, found, perf_counter() - begin)


def _fed(
    made: Made, model: CanonicalModel, inputs: Mapping[str, Array]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the module: its examples, or drawn values where these have another shape."""
    leaves, structure = pytree.tree_flatten((made.args, dict(made.kwargs)))
    examples = [each for each in leaves if isinstance(each, torch.Tensor)]
    shapes = [tuple(each.shape) for each in examples]
    if shapes != [model.tensors[name].shape for name in model.inputs]:
        if len(examples) != len(model.inputs):
            raise UnsupportedError(f"the import of {model.source} has other inputs than its module")
        drawn = iter([from_numpy(inputs[name]) for name in model.inputs])
        leaves = [next(drawn) if isinstance(each, torch.Tensor) else each for each in leaves]
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return args, kwargs


def watch(target: object) -> AbstractContextManager[Watch] | None:
    """A context that times calls of a module; ``None`` for anything else."""
    return _watched(target) if isinstance(target, torch.nn.Module) else None


@contextmanager
def _watched(module: torch.nn.Module) -> Iterator[Watch]:
    seen = Watch(torch.get_num_threads())
    begins: list[float] = []
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls[:] = [(args, kwargs)]
        begins.append(perf_counter())

    def after(*_: Any) -> None:
        seen.samples_ms.append((perf_counter() - begins.pop()) * 1e3)

    hooks = [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after),
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
    if calls:
        (args, kwargs), *_ = calls
        seen.source = from_module(module, args, kwargs)
