"""Modules on torch's meta device, which have shapes but no values.

Tensors on the meta device cannot be combined with tensors on another device: an example input on
the CPU, or a mask that ``forward`` makes there, ends the export. The module's tensors therefore
become fake CPU tensors during the export. Fake tensors take no memory either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
"""Positional and keyword arguments of a module."""


@contextlib.contextmanager
def on_cpu(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[Arguments]:
    """Puts a module on the CPU, without values, as far as it is on the meta device.

    The module is as it was when the context ends.

    Args:
        module: Any module.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Yields:
        The arguments, on the CPU as well.
    """
    given = pytree.tree_leaves((args, kwargs))
    held = chain(module.parameters(), module.buffers(), given)
    if not any(_is_meta(each) for each in held):
        yield args, kwargs
        return
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    moved: dict[int, torch.Tensor] = {}

    def move(value: Any) -> Any:
        """The fake tensor for one on the meta device; tensors that are shared stay shared."""
        if not _is_meta(value):
            return value
        if id(value) not in moved:
            moved[id(value)] = _fake(value, mode)
        return moved[id(value)]

    replaced: list[tuple[dict[str, Any], str, Any]] = []
    try:
        replaced.extend(_replaced(module, move))
        # With one fake input, torch treats all other inputs and the weights as fake, too.
        inputs = (mode.from_tensor(each) if _is_real(each) else move(each) for each in given)
        structure = pytree.tree_structure((args, kwargs))
        yield pytree.tree_unflatten(list(inputs), structure)
    finally:
        for place, name, tensor in replaced:
            place[name] = tensor


def _is_meta(value: Any) -> bool:
    is_plain = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
    return is_plain and value.device.type == "meta"


def _is_real(value: Any) -> bool:
    is_plain = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
    return is_plain and value.device.type != "meta"


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def _replaced(
    module: torch.nn.Module, move: Callable[[Any], Any]
) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Replaces a module's tensors on the meta device; yields the place and the original of each."""
    for part in module.modules():
        for place in (part._parameters, part._buffers):
            for name, tensor in list(place.items()):
                if _is_meta(tensor):
                    place[name] = move(tensor)
                    yield place, name, tensor
