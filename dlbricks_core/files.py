"""Files that users name, which somebody else may have written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """A regular file, opened to read its bytes. Opening a pipe or a device could wait for ever.

    Raises:
        OSError: If it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def content(path: Path, most_bytes: int) -> bytes:
    """Bytes of a regular file.

    Args:
        path: Path of the file.
        most_bytes: Maximum size of the file in bytes.

    Raises:
        OSError: If it cannot be read, is not a regular file, or is larger.
    """
    with opened(path) as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        size, unit = (
            (most_bytes / 2**20, "MiB") if most_bytes >= 2**20 else (most_bytes / 2**10, "KiB")
        )
        reason = f"it is too large: at most {size:,.0f} {unit} are read"
        raise OSError(errno.EFBIG, reason, str(path))
    return found
