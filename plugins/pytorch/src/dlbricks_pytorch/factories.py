"""Modules that the user's own Python code builds, by name on the command line."""

from __future__ import annotations

import importlib
import inspect
import math
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.importers.base import cut
from dlbricks_core.ir import RawModel
from dlbricks_pytorch.causes import lacking_module, lacks_arguments, one_line, place
from dlbricks_pytorch.importer import from_exported, from_module

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

_FORM = "Write torch:package.module:factory; modules are found from the current directory on."
_RETURN = (
    "It returns (module, example_inputs) or (module, example_inputs, example_kwargs), "
    "or a module whose example_inputs attribute holds them, or an exported program."
)
_ALONE = "A factory is called without arguments: write one that gives them."
_CALL = "it"
"""Name of the factory in errors about its call."""

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class TorchFactories(ModelCollection):
    """``torch:package.module:factory`` is what ``factory()`` in ``package.module`` returns.

    A factory takes no arguments and returns ``(module, example_inputs)``, with keyword
    arguments for the module as a third item if it needs them; or a module with the attribute
    ``example_inputs``; or a program of ``torch.export``. A dictionary for the inputs means keyword
    arguments, where the module has all of its keys for parameters. There is no list of all
    factories: ``torch:`` alone means none.
    """

    name = "torch"
    isolated = True
    runs_code = True
    pattern = "package.module:factory"

    def names(self) -> Sequence[str]:
        """No names, because they are those of the user's own code."""
        return ()

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Calls the factory and lowers what it returns.

        A batch size or input shape in the options resizes the example inputs.

        Raises:
            ModelError: If there is no such factory, it fails, returns something else, or
                its module cannot be lowered.
        """
        made = made_by(name)
        label, source = name.rpartition(":")[2], f"{self.name}:{name}"
        lowered = partial(_lowered, made, options, label, source)
        try:
            return _guarded(name, "lowering it", lowered)
        except DLBricksError as error:
            told = error.message if source in error.message else f"{source}: {error.message}"
            raise type(error)(told, hint=error.hint) from error


def made_by(name: str) -> Made | torch.export.ExportedProgram:
    """Module or program that the factory ``package.module:factory`` makes.

    Raises:
        ModelError: If there is no such factory, it fails, or returns something else.
    """
    return _guarded(name, _CALL, partial(_made, name, _factory(name)))


@dataclass(frozen=True)
class Made:
    """Result of a factory."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def _lowered(
    made: Made | torch.export.ExportedProgram, options: ImportOptions, name: str, source: str
) -> RawModel:
    if not isinstance(made, Made):
        return from_exported(made, name=name, source=source)
    sized = _resized(made, options)
    return from_module(sized.module, sized.args, sized.kwargs, name=name, source=source)


def _guarded(name: str, what: str, call: Callable[[], T]) -> T:
    """Result of the user's own code. Any exception, including an exit, becomes a ModelError."""
    try:
        return call()
    except DLBricksError:
        raise
    except BaseException as error:  # its process has no other user
        raise _failure(name, what, error) from error


def _failure(name: str, what: str, error: BaseException) -> ModelError:
    """The error for users: the missing module or argument, or else the exception."""
    missing = lacking_module(error)
    if missing:
        return ModelError(
            f"torch:{name}: {what}{place(error)} needs the module {missing!r}, which is not "
            "installed here",
            hint=f"Install what provides it beside DLBricks ({sys.executable}).",
        )
    module, _, attribute = name.partition(":")
    hint = f"Try: python -c {shlex.quote(f'import {module}')}"
    if what == _CALL:
        code = f"import {module}; {module}.{attribute}()"
        hint = (
            _ALONE if lacks_arguments(error, attribute) else f"Try: python -c {shlex.quote(code)}"
        )
    return ModelError(f"torch:{name}: {what} failed{place(error)}: {one_line(error)}", hint=hint)


def _made(name: str, factory: Any) -> Made | torch.export.ExportedProgram:
    import torch

    if isinstance(factory, torch.nn.Module):
        return _checked(name, factory)
    lacking = _arguments(factory)
    if lacking:
        raise ModelError(
            f"torch:{name} needs the arguments {cut(lacking)}",
            hint=_ALONE,
        )
    return _checked(name, factory())


def _arguments(factory: Callable[..., Any]) -> list[str]:
    """Names of the arguments without which a function cannot be called.

    A decorator may supply the arguments of the wrapped function, so its own count.
    """
    try:
        parameters = inspect.signature(factory, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return []
    varying = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty
            and each.kind not in varying]  # fmt: skip


def _factory(name: str) -> Any:
    module_name, _, attributes = name.partition(":")
    if not module_name or not attributes:
        raise ModelError(f"torch:{name} names no factory", hint=_FORM)
    if module_name.endswith(".py") or not _DOTTED.fullmatch(module_name):
        stem = module_name.removesuffix(".py").strip("./").replace("/", ".")
        meant = f" Perhaps torch:{stem}:{attributes}" if _DOTTED.fullmatch(stem) else ""
        raise ModelError(
            f"torch:{name}: {module_name} is not the name of a module", hint=_FORM + meant
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    found: Any = _guarded(name, f"importing {module_name}", partial(_imported, name, module_name))
    for attribute in attributes.split("."):
        at = partial(getattr, found, attribute, _ABSENT)
        inner = _guarded(name, f"finding {attribute}", at)
        if inner is _ABSENT:
            raise ModelError(
                f"torch:{name}: {module_name} has no {attribute!r}",
                hint=f"It has {cut(_callables(found)) or 'no functions'}.",
            )
        found = inner
    if not callable(found):
        raise ModelError(f"torch:{name} is not a function", hint=_RETURN)
    return found


_ABSENT = object()


def _imported(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise ModelError(f"torch:{name}: there is no module {error.name!r}", _FORM) from error
        raise


def _callables(module: Any) -> list[str]:
    return [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and not key.startswith("_")
    ]


def _checked(name: str, result: Any) -> Made | torch.export.ExportedProgram:
    import torch

    if isinstance(result, torch.export.ExportedProgram):
        return result
    if isinstance(result, torch.nn.Module):
        inputs = getattr(result, "example_inputs", None)
        result = (result, inputs) if inputs is not None else (result,)
    parts = tuple(result) if isinstance(result, tuple | list) else (result,)
    if not parts or not isinstance(parts[0], torch.nn.Module):
        raise ModelError(f"torch:{name} returned {_kind(result)}, not a torch module", hint=_RETURN)
    if isinstance(parts[0], torch.jit.ScriptModule):
        raise ModelError(
            f"torch:{name} returned a TorchScript module, which torch.export cannot follow",
            hint="Return the module that it was made from.",
        )
    if len(parts) == 1 or parts[1] is None:
        raise ModelError(f"torch:{name} gives its module no example inputs", hint=_RETURN)
    if len(parts) > 3 or not isinstance(parts[-1], dict if len(parts) == 3 else object):
        raise ModelError(f"torch:{name} returned {len(parts)} things: {cut([*map(_kind, parts)])}",
                         hint=_RETURN)  # fmt: skip
    inputs = tuple(parts[1]) if isinstance(parts[1], tuple | list) else (parts[1],)
    made = Made(parts[0], inputs, parts[2] if len(parts) == 3 else {})
    return _fitting(name, made)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return type(value).__name__


def _fitting(name: str, made: Made) -> Made:
    """The inputs in the form of the module's forward: a single dictionary may hold keywords."""
    signature = inspect.signature(made.module.forward)
    if len(made.args) == 1 and isinstance(made.args[0], dict) and not made.kwargs:
        keywords = made.args[0]
        if all(key in signature.parameters for key in keywords) and _binds(signature, (), keywords):
            return Made(made.module, (), keywords)
    problem = _binds(signature, made.args, made.kwargs)
    if problem is not True:
        raise ModelError(
            f"torch:{name}: its example inputs do not fit "
            f"{type(made.module).__name__}.forward{signature}: {problem}",
            hint=_RETURN,
        )
    return made


def _binds(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """True if a function accepts arguments, otherwise the reason."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return True


def _resized(made: Made, options: ImportOptions) -> Made:
    """The result with example inputs of the requested sizes."""
    import torch

    if options.batch is None and not options.shapes:
        return made
    bound = inspect.signature(made.module.forward).bind(*made.args, **made.kwargs)
    tensors = [v for v in (*made.args, *made.kwargs.values()) if isinstance(v, torch.Tensor)]
    batch = tensors[0].shape[0] if tensors and tensors[0].dim() else None

    def resize(key: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            # Tuples of tensors, such as caches, also have the batch as the first axis.
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
