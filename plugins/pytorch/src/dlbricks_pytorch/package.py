"""Program files without their weights."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from dlbricks_core.ir.onnx_reader import MAX_CONSTANT_ELEMENTS

_log = logging.getLogger(__name__)

_WEIGHTS = "/data/weights/weight_"
_KEPT_BYTES = MAX_CONSTANT_ELEMENTS * 16  # of the widest type that torch has


def load_program(path: Path) -> torch.export.ExportedProgram:
    """What ``torch.export.load`` returns, with zeros that take no memory for large weights.

    Raises:
        Exception: Whatever torch raises for a file that it cannot read.
    """
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / path.name
        try:
            if _strip(path, stripped):
                with _LazyZeros():
                    return torch.export.load(stripped)
        except Exception as error:  # noqa: BLE001 - weights that share memory, or were pickled
            _log.info("%s is read with all its weights: %s", path.name, error)
        return torch.export.load(path)


def _strip(path: Path, stripped: Path) -> bool:
    """Copies a program without its large weights; whether there were any."""
    found = False
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(stripped, "w") as target:
        for entry in source.infolist():
            name = entry.filename
            large = _WEIGHTS in f"/{name}" and entry.file_size > _KEPT_BYTES
            found |= large
            with target.open(zipfile.ZipInfo(name), "w", force_zip64=True) as to:
                if not large:
                    with source.open(entry) as record:
                        shutil.copyfileobj(record, to)
    return found


class _LazyZeros(TorchFunctionMode):
    """Tensors of zeros get their memory from the system, which maps it when it is touched.

    That is what torch makes of a weight whose record is empty.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if (
            func is torch.zeros
            and len(args) == 1
            and kwargs
            and kwargs.keys() == {"dtype", "device"}
        ):
            dtype: torch.dtype = kwargs["dtype"]
            memory = np.zeros(max(math.prod(args[0]), 1) * dtype.itemsize, dtype=np.uint8)
            return torch.from_numpy(memory).view(dtype)[: math.prod(args[0])].reshape(args[0])
        return func(*args, **(kwargs or {}))
