"""Modules that the user's own Python code builds, by name on the command line."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.ir import Model
from dlbricks_pytorch.importer import from_module

if TYPE_CHECKING:
    import torch

_FORM = "Write torch:package.module:factory; modules are found from the current directory on."
_RETURN = (
    "It returns (module, example_inputs) or (module, example_inputs, example_kwargs), "
    "or a module whose example_inputs attribute holds them."
)


class TorchFactories(ModelCollection):
    """``torch:package.module:factory`` is what ``factory()`` in ``package.module`` returns.

    A factory takes no arguments and returns ``(module, example_inputs)``, with keyword
    arguments for the module as a third item if it needs them; or a module that has them in
    its attribute ``example_inputs``. There is no list of all factories: ``torch:`` alone
    means none.
    """

    name = "torch"
    isolated = True
    pattern = "package.module:factory"

    def names(self) -> Sequence[str]:
        """None: the names are those of the user's own code."""
        return ()

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> Model:
        """Calls the factory and lowers what it returns.

        A batch size or input shape in the options resizes the example inputs.

        Raises:
            ModelError: If there is no such factory, it fails, returns something else, or
                its module cannot be lowered.
        """
        made = _made(name)
        made = _resized(made, options)
        return from_module(
            made.module,
            made.args,
            made.kwargs,
            name=name.rpartition(":")[2],
            source=f"{self.name}:{name}",
        )


@dataclass(frozen=True)
class Made:
    """What a factory returned."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def _made(name: str) -> Made:
    import torch

    factory = _factory(name)
    if isinstance(factory, torch.nn.Module):
        return _checked(name, factory)
    try:
        result = factory()
    except Exception as error:  # the user's own code
        raise ModelError(
            f"torch:{name} failed: {_one_line(error)}",
            hint="A factory is called without arguments.",
        ) from error
    return _checked(name, result)


def _factory(name: str) -> Callable[[], Any]:
    module_name, _, attributes = name.partition(":")
    if not module_name or not attributes:
        raise ModelError(f"torch:{name} names no factory", hint=_FORM)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ModelError(f"torch:{name}: there is no module {error.name!r}", hint=_FORM) from error
    except Exception as error:  # the user's own code
        raise ModelError(
            f"torch:{name}: importing {module_name} failed: {_one_line(error)}",
            hint=f"Try: python -c 'import {module_name}'",
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise ModelError(
                f"torch:{name}: {module_name} has no {attribute!r}",
                hint=f"It has {_callables(found) or 'no functions'}.",
            )
        found = getattr(found, attribute)
    if not callable(found):
        raise ModelError(f"torch:{name} is no function", hint=_RETURN)
    return found  # type: ignore[no-any-return]


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _callables(module: Any) -> str:
    own = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and not key.startswith("_")
    ]
    return ", ".join(own[:8]) + (", ..." if len(own) > 8 else "")


def _checked(name: str, result: Any) -> Made:
    import torch

    if isinstance(result, torch.nn.Module):
        inputs = getattr(result, "example_inputs", None)
        result = (result, inputs) if inputs is not None else (result,)
    parts = result if isinstance(result, tuple) else (result,)
    if not parts or not isinstance(parts[0], torch.nn.Module):
        raise ModelError(
            f"torch:{name} returned {type(result).__name__}, not a torch module", hint=_RETURN
        )
    if not 2 <= len(parts) <= 3 or not isinstance(parts[-1], dict if len(parts) == 3 else object):
        raise ModelError(f"torch:{name} gives its module no example inputs", hint=_RETURN)
    inputs = parts[1] if isinstance(parts[1], tuple | list) else (parts[1],)
    return Made(parts[0], tuple(inputs), parts[2] if len(parts) == 3 else {})


def _resized(made: Made, options: ImportOptions) -> Made:
    """With example inputs of the sizes that the user asks for."""
    import torch

    if options.batch is None and not options.shapes:
        return made
    bound = inspect.signature(made.module.forward).bind(*made.args, **made.kwargs)
    tensors = [v for v in (*made.args, *made.kwargs.values()) if isinstance(v, torch.Tensor)]
    batch = tensors[0].shape[0] if tensors and tensors[0].dim() else None

    def resize(key: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            # Tuples of tensors, such as caches, have the batch in front as well.
            if isinstance(value, tuple | list):
                return type(value)(resize("", each) for each in value)
            return value
        if key in options.shapes:
            return _filled(value, options.shapes[key])
        if options.batch is not None and value.dim() and value.shape[0] == batch:
            return _filled(value, (options.batch, *value.shape[1:]))
        return value

    arguments = {key: resize(key, value) for key, value in bound.arguments.items()}
    bound.arguments.update(arguments)
    return Made(made.module, bound.args, bound.kwargs)


def _filled(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The tensor's values, repeated or cut to fill another shape."""
    flat = tensor.flatten()
    elements = math.prod(shape)
    return flat.repeat(math.ceil(elements / max(flat.numel(), 1)))[:elements].reshape(tuple(shape))
