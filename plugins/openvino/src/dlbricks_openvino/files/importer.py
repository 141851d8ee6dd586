"""Importer of OpenVINO's own files."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.importers.formats import check_file
from dlbricks_core.ir import RawModel
from dlbricks_openvino.files import SUFFIX
from dlbricks_openvino.messages import one_line

_START = b"<net"
_HEAD_BYTES = 4096


class OpenvinoImporter(Importer):
    """Reads ``NAME.xml`` with the ``NAME.bin`` beside it; large weights are not read."""

    name = "openvino"
    suffixes = (SUFFIX,)
    isolated = True

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a graph. Dimensions that it leaves open stay open.

        Raises:
            ModelError: If a file is missing or damaged, or ONNX has no counterpart of an operator.
        """
        check_file(path, f"{SUFFIX} file of OpenVINO")
        if _START not in path.read_bytes()[:_HEAD_BYTES]:
            raise ModelError(
                f"{path} is not a file of OpenVINO: it has no network",
                hint="Name the .xml file that ov.save_model or ovc wrote.",
            )
        weights = path.with_suffix(".bin")
        if not weights.is_file():
            raise ModelError(
                f"{path} has no weights beside it",
                hint=f"Put {weights.name}, which was written with it, into the same folder.",
            )
        from dlbricks_openvino.files.reading import read_named
        from dlbricks_openvino.files.translation import translated

        try:
            return translated(read_named(path), name=path.stem, source=str(path))
        except DLBricksError as error:
            raise type(error)(f"{path}: {error.message}", hint=error.hint) from error
        except Exception as error:  # OpenVINO trusts a file to be what it wrote
            raise ModelError(
                f"{path} is damaged, or says what OpenVINO cannot: {one_line(error)}",
                hint="Save it again with ov.save_model.",
            ) from error
