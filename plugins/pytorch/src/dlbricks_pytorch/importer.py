"""PyTorch's programs, modules and factories of modules, into the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.importers.files import check_file
from dlbricks_core.ir import RawModel, read_model
from dlbricks_pytorch.causes import one_line
from dlbricks_pytorch.kinds import kind_of

if TYPE_CHECKING:
    import torch

_SUFFIX = ".pt2"
#: What else PyTorch writes: read where a program is in it, told apart where not.
_OTHERS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl", ".ptl")


class PytorchImporter(Importer):
    """Reads ``.pt2`` files, which ``torch.export.save`` writes, without running code of theirs.

    Weights are not read, and nothing is unpickled.
    """

    name = "pytorch"
    suffixes = (_SUFFIX,)
    isolated = True

    def handles(self, spec: str) -> bool:
        """Whether PyTorch writes files of such names; what they are is seen when they are read."""
        return spec.endswith((_SUFFIX, *_OTHERS))

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a program; dimensions that were exported as dynamic stay so.

        Raises:
            ModelError: If the file is missing or damaged, holds weights or a pickle only, or
                ONNX has no counterpart of one of its operators.
        """
        check_file(path, f"{_SUFFIX} file")
        try:
            kind = kind_of(path)
            if kind is None:
                from dlbricks_pytorch.package import load_program

                return from_exported(load_program(path), name=path.stem, source=str(path))
        except DLBricksError as error:
            told = error.message if str(path) in error.message else f"{path}: {error.message}"
            raise type(error)(told, hint=error.hint) from error
        except Exception as error:  # torch trusts a program to be what it wrote
            raise ModelError(
                f"{path} is damaged, or says what torch cannot: {one_line(error)}",
                hint="Write it again with torch.export.save.",
            ) from error
        raise ModelError(f"{path} {kind.what}", hint=kind.hint)


def from_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str = "",
    source: str = "",
) -> RawModel:
    """Lowers a module, in inference mode; its weights are not read.

    A large module may be built on torch's meta device, or with its inputs under
    ``FakeTensorMode``: it then has no weights at all.

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
) -> RawModel:
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
