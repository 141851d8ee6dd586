"""Checks of a suite's files, which somebody else has written."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from dlbricks_core.errors import DLBricksError

HINT = "Create the folder again with: dlbricks suite write MODEL -o FOLDER"


def check_file(path: Path, most_bytes: int) -> None:
    """Checks that a path is a regular file of limited size, so that reading it ends.

    Args:
        path: Path of an untrusted file.
        most_bytes: Maximum size in bytes.

    Raises:
        DLBricksError: If the file is missing, a link, a device, a pipe, or too large.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if stat.S_ISLNK(found.st_mode):
        raise DLBricksError(f"{path} is a link, not a file of the folder's own", hint=HINT)
    if not stat.S_ISREG(found.st_mode):
        raise DLBricksError(f"{path} is not a regular file", hint=HINT)
    if found.st_size > most_bytes:
        raise DLBricksError(
            f"{path} has {found.st_size} bytes, and at most {most_bytes} are read", hint=HINT
        )


def check_inside(folder: Path, path: Path) -> None:
    """Checks that no folder between a suite's folder and a file in it is a link.

    Raises:
        DLBricksError: If one is.
    """
    for parent in path.parents:
        if parent == folder:
            return
        if parent.is_symlink():
            raise DLBricksError(f"{parent} is a link, not a folder of the suite's own", hint=HINT)


def check_content(path: Path, sha256: str) -> None:
    """Checks that a file is unchanged.

    Raises:
        DLBricksError: If the file has another hash, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if found != sha256:
        raise DLBricksError(f"{path} was changed after it was written", hint=HINT)


def is_there(path: Path) -> bool:
    """Whether a path exists, readable or not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True
