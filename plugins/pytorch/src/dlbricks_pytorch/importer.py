"""PyTorch's programs, modules and factories of modules, into the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.ir import Model, read_model

if TYPE_CHECKING:
    import torch

_SUFFIX = ".pt2"


class PytorchImporter(Importer):
    """Reads ``.pt2`` files, which ``torch.export.save`` writes.

    Like every file that torch loads, one from a source that you do not trust may run code.
    """

    name = "pytorch"
    suffixes = (_SUFFIX,)
    isolated = True

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> Model:
        """Reads a program; dimensions that were exported as dynamic stay so.

        Raises:
            ModelError: If the file is missing or damaged, or ONNX has no counterpart of one
                of its operators.
        """
        return from_exported(_load(path), name=path.stem, source=str(path))


def from_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str = "",
    source: str = "",
) -> Model:
    """Lowers a module, in inference mode; its weights are not read.

    A large module may be built, with its inputs, under torch's ``FakeTensorMode``: it then
    has no weights at all.

    Args:
        module: Any that ``torch.export`` can follow.
        example_inputs: Its positional arguments; only types and shapes matter.
        example_kwargs: Its keyword arguments.
        dynamic_shapes: Which dimensions may vary, as ``torch.export.export`` takes it.
        name: What to call the model; the class's name by default.
        source: Where it came from.

    Raises:
        ModelError: If torch cannot follow the module, or ONNX has no counterpart of an
            operator.

    Example:
        >>> from_module(torch.nn.Linear(8, 4), (torch.randn(1, 8),))
    """
    from dlbricks_pytorch.export import trace

    program = trace(module, example_inputs, example_kwargs or {}, dynamic_shapes)
    return from_exported(program, name=name or type(module).__name__, source=source)


def from_exported(
    program: torch.export.ExportedProgram, *, name: str = "program", source: str = ""
) -> Model:
    """Lowers what ``torch.export.export`` returned.

    Args:
        program: Of a module in inference mode.
        name: What to call the model.
        source: Where it came from.

    Raises:
        ModelError: If ONNX has no counterpart of an operator.

    Example:
        >>> from_exported(torch.export.export(torch.nn.ReLU().eval(), (torch.randn(1, 8),)))
    """
    from dlbricks_pytorch.export import to_proto

    return read_model(to_proto(program), name=name, source=source)


def _load(path: Path) -> torch.export.ExportedProgram:
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not a file", hint="Name a .pt2 file in it.")
    if not path.exists():
        raise ModelError(f"{path} does not exist", hint="Check the path's spelling.")
    import torch

    from dlbricks_pytorch.package import load_program

    try:
        return load_program(path)
    except Exception as error:  # torch raises whatever its readers of zip, JSON and pickle raise
        raise ModelError(
            f"{path} is no program that torch {torch.__version__} can read",
            hint="Write it with torch.export.save(torch.export.export(module, inputs), path); "
            "torch.save files hold no graph.",
        ) from error
