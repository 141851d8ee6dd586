"""Tensor data in files beside a model, read as the onnx checker demands.

A model file names other files. It may only name regular files in its own folder. Other files
may belong to somebody else, and devices or pipes may never end.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from onnx import TensorProto

from dlbricks_core.errors import ModelError, reason, shown
from dlbricks_core.ir.tensors import DTYPE_NAMES, data_bytes

_LFS_POINTER = b"version https://git-lfs"
_SAVE_AGAIN = "Save the model again with its external data in a file beside it."
_COPY = "Copy the file itself into the model's folder, as one that has no other name."


@dataclass(frozen=True, slots=True)
class DataRange:
    """Place of a tensor's data: a range of bytes of a file in the model's folder.

    Attributes:
        location: The file, relative to the folder.
        offset: Position of the first byte.
        length: Number of bytes; ``None`` where it follows from the tensor's type and shape.
    """

    location: str
    offset: int
    length: int | None

    @classmethod
    def of(cls, tensor: TensorProto) -> DataRange:
        """Place that the tensor names.

        Raises:
            ModelError: If that place is outside of the model's folder.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        length = _number(entries, "length") if "length" in entries else None
        location = os.fsdecode(entries.get("location", ""))
        _check_location(location)
        return cls(location, _number(entries, "offset"), length)


def _number(entries: dict[str, str], key: str) -> int:
    text = entries.get(key, "0")
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**63:
        raise ModelError(f"{key} {shown(str(text))} of its external data is not a number of bytes",
                         hint=_SAVE_AGAIN)  # fmt: skip
    return number


def _check_location(location: str) -> None:
    path = PurePosixPath(os.path.normpath(location)) if location else PurePosixPath()
    if "\0" in location or not path.name:
        raise ModelError(f"its external data lie in {shown(location)}, which is not a file name",
                         hint=_SAVE_AGAIN)  # fmt: skip
    if path.is_absolute() or path.parts[0] == "..":
        raise ModelError(
            f"its external data lie outside of the model's folder, in {shown(location)}",
            hint="A model may only read files of its own folder; copy the data there.",
        )


class ExternalFiles:
    """The files that one model's tensors may lie in.

    Args:
        folder: Folder that their names are relative to; ``None`` if the model has no files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._found = cache(self._find)

    def check(self, tensor: TensorProto) -> None:
        """Checks the place of a tensor's data, without opening a file.

        Raises:
            ModelError: If the model may not read that place.
        """
        self._found(DataRange.of(tensor).location)

    def read(self, tensor: TensorProto) -> bytes | None:
        """A tensor's data; ``None`` if the file is not there.

        Args:
            tensor: A tensor of few elements: all of it is read.

        Raises:
            ModelError: If the model may not read that place, or the data do not fit.
        """
        place = DataRange.of(tensor)
        path = self._found(place.location)
        needed = data_bytes(DTYPE_NAMES[tensor.data_type], math.prod(tensor.dims))
        if place.length not in (None, needed):
            raise ModelError(
                f"its external data have {place.length} bytes, its type and shape say {needed}",
                hint=_SAVE_AGAIN,
            )
        if path is None:
            return None
        with _opened(path, place.location) as descriptor:
            data = os.pread(descriptor, needed, place.offset)
            head = os.pread(descriptor, len(_LFS_POINTER), 0) if len(data) < needed else b""
        if head == _LFS_POINTER:
            raise ModelError(
                f"its external data lie in {shown(place.location)}, which is a Git LFS pointer",
                hint="Fetch the file itself: git lfs pull",
            )
        if len(data) < needed:
            raise ModelError(
                f"its external data end early: {shown(place.location)} holds {len(data)} of "
                f"{needed} bytes",
                hint="Check that the file was copied completely.",
            )
        return data

    def _find(self, location: str) -> Path | None:
        """The regular file of that name; ``None`` if nothing is there."""
        if self._folder is None:
            return None
        try:
            folder = self._folder.resolve()
            wanted = folder / os.path.normpath(location)
            # The file's own name is not followed: a link stays one, to be refused.
            path = wanted.parent.resolve() / wanted.name
            if not path.is_relative_to(folder):
                raise ModelError(
                    f"its external data lie outside of the model's folder, in {shown(location)}",
                    hint="A folder on the way is a link; copy the data into the model's folder.",
                )
            _check_kind(path.lstat(), location)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, RuntimeError) as error:
            raise ModelError(
                f"its external data in {shown(location)} cannot be read: {reason(error)}",
                hint=_SAVE_AGAIN,
            ) from error
        return path


def _check_kind(status: os.stat_result, location: str) -> None:
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    if status.st_nlink > 1:
        kind = "a file with several names (hard links)"
    elif stat.S_ISREG(status.st_mode):
        return
    raise ModelError(f"its external data lie in {shown(location)}, which is {kind}", hint=_COPY)


@contextmanager
def _opened(path: Path, location: str) -> Iterator[int]:
    """A file that was checked, open for reading; checked again, for it may have changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(
            f"its external data in {shown(location)} cannot be read: {error.strerror}",
            hint="Check the file's permissions.",
        ) from error
    try:
        _check_kind(os.fstat(descriptor), location)
        yield descriptor
    finally:
        os.close(descriptor)
