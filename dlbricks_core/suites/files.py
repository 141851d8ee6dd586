"""Files of a suite that somebody else has written."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from dlbricks_core.errors import DLBricksError

HINT = "Make the folder anew with: dlbricks generate MODEL -o FOLDER"


def check_file(path: Path, most_bytes: int) -> None:
    """Makes sure that reading a file reads that file, and ends.

    Args:
        path: Of a file that somebody else has put there.
        most_bytes: The most that it may hold.

    Raises:
        DLBricksError: If it is missing, a link, a device, a pipe, or too large.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if stat.S_ISLNK(found.st_mode):
        raise DLBricksError(f"{path} is a link, not a file of the folder's own", hint=HINT)
    if not stat.S_ISREG(found.st_mode):
        raise DLBricksError(f"{path} is no regular file", hint=HINT)
    if found.st_size > most_bytes:
        raise DLBricksError(
            f"{path} has {found.st_size} bytes, and at most {most_bytes} are read", hint=HINT
        )


def check_inside(folder: Path, path: Path) -> None:
    """Makes sure that no link between a folder and a file in it leads elsewhere.

    Raises:
        DLBricksError: If one does.
    """
    for parent in path.parents:
        if parent == folder:
            return
        if parent.is_symlink():
            raise DLBricksError(f"{parent} is a link, not a folder of the suite's own", hint=HINT)


def check_content(path: Path, sha256: str) -> None:
    """Makes sure that a file holds what was written.

    Raises:
        DLBricksError: If it has another hash, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if found != sha256:
        raise DLBricksError(f"{path} was changed after it was written", hint=HINT)


def is_there(path: Path) -> bool:
    """Whether there is something, be it readable or not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True
