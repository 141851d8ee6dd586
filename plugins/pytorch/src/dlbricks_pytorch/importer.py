"""PyTorch's programs, modules and factories of modules, into the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbricks_core import ir
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.importers.formats import check_file
from dlbricks_core.ir import RawModel
from dlbricks_pytorch.causes import one_line
from dlbricks_pytorch.kinds import kind_of

if TYPE_CHECKING:
    import torch

_SUFFIX = ".pt2"
#: Suffixes of other files of PyTorch: programs in them are read, other content is identified.
_OTHERS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl", ".ptl")


class PytorchImporter(Importer):
    """Reads ``.pt2`` files of ``torch.export.save``, without running code from them.

    Weights are not read, and nothing is unpickled.
    """

    name = "pytorch"
    suffixes = (_SUFFIX,)
    isolated = True

    def handles(self, spec: str) -> bool:
        """Whether PyTorch writes files with such names. Their content is checked on reading."""
        return spec.endswith((_SUFFIX, *_OTHERS))

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a program. Dimensions that were exported as dynamic stay dynamic.

        Raises:
            ModelError: If the file is missing or damaged, contains only weights, a pickle or a
                module in training mode, or ONNX has no counterpart of an operator.
        """
        check_file(path, f"{_SUFFIX} file")
        try:
            kind = kind_of(path)
            if kind is None:
                from dlbricks_pytorch.conditions import of_file, with_conditions
                from dlbricks_pytorch.package import load_program

                model = from_exported(load_program(path), name=path.stem, source=str(path))
                return with_conditions(model, *of_file(path))
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
        dynamic_shapes: Dimensions that may vary, as for ``torch.export.export``.
        name: Name of the model; the name of the class by default.
        source: Source of the model.

    Raises:
        ModelError: If torch cannot follow the module, or ONNX has no counterpart of an
            operator.

    Example:
        >>> from_module(torch.nn.Linear(8, 4), (torch.randn(1, 8),))
    """
    from dlbricks_pytorch.conditions import of_program, with_conditions
    from dlbricks_pytorch.export import to_proto, trace

    program = trace(module, example_inputs, example_kwargs or {}, dynamic_shapes)
    demanded = of_program(program)
    model = ir.read_model(to_proto(program), name=name or type(module).__name__, source=source)
    return with_conditions(model, *demanded)


def from_exported(
    program: torch.export.ExportedProgram, *, name: str = "program", source: str = ""
) -> RawModel:
    """Lowers what ``torch.export.export`` returned.

    Args:
        program: Program of a module in inference mode.
        name: Name of the model.
        source: Source of the model.

    Raises:
        ModelError: If the module was in training mode, or ONNX has no counterpart of an operator.

    Example:
        >>> from_exported(torch.export.export(torch.nn.ReLU().eval(), (torch.randn(1, 8),)))
    """
    from dlbricks_pytorch.conditions import of_program, with_conditions
    from dlbricks_pytorch.export import to_proto
    from dlbricks_pytorch.training import check_inference

    check_inference(program)
    demanded = of_program(program)  # lowering drops some of it
    model = ir.read_model(to_proto(program), name=name, source=source)
    return with_conditions(model, *demanded)
