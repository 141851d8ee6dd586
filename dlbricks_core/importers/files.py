"""Checks of a model file before anything reads it."""

from __future__ import annotations

import stat
from pathlib import Path

from dlbricks_core.errors import ModelError

_LFS_POINTER = b"version https://git-lfs"


def check_file(path: Path, kind: str, most_bytes: int | None = None) -> None:
    """Checks that a file can be read to its end.

    Args:
        path: Path of the file, as the user gave it.
        kind: Expected kind of file, such as ``".pt2 file"``.
        most_bytes: Maximum size of the file.

    Raises:
        ModelError: If it is missing, a folder, a device or pipe, a Git LFS pointer, too large,
            or may not be read.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelError(f"{path} is a folder, not a file", hint=f"Name a {kind} in it.")
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is a device or pipe, not a file", hint=f"Name a {kind}.")
        with path.open("rb") as file:
            start = file.read(len(_LFS_POINTER))
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist", hint="Check the path's spelling.") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be read: {why}", hint="Check its permissions.") from error
    if start == _LFS_POINTER:
        raise ModelError(
            f"{path} is a Git LFS pointer, not the model itself", hint="Fetch it: git lfs pull"
        )
    if most_bytes is not None and status.st_size > most_bytes:
        raise ModelError(
            f"{path} has {status.st_size / 1e6:.0f} MB; {most_bytes / 1e6:.0f} MB is the limit",
            hint=f"See that it really is a {kind}.",
        )
