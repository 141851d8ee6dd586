"""Output files, written completely or not at all, so that an older file survives a failure."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dlbricks_core.errors import DLBricksError, or_room
from dlbricks_core.sanitize import without_secrets

_STDOUT = 1
_STREAMS = {"-": _STDOUT, "/dev/stdout": _STDOUT, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]{1,9})")
_MOST_LINKS = 40
"""Links that lead from one to the next, as the system allows."""


def write_json(data: Mapping[str, Any], path: Path) -> None:
    """Writes plain data to a JSON file; ``-`` is standard output.

    Raises:
        DLBricksError: If the file cannot be written.
    """
    text = json.dumps(data, indent=1, allow_nan=False)
    # The one control character that JSON leaves unescaped.
    write_text(text.replace("\x7f", "\\u007f") + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Writes a text file. A regular file is replaced only when the new one is complete.

    An open stream (standard output, ``/dev/fd/3``) is written to directly.

    Raises:
        DLBricksError: If the file cannot be written.
    """
    write_bytes(text.encode("utf-8", "backslashreplace"), path)


def write_bytes(content: bytes, path: Path) -> None:
    """Writes bytes to a file, in the same way as :func:`write_text`."""
    with file_error(path):
        descriptor = _descriptor(path)
        if descriptor is None:
            _write_file(content, Path(os.path.realpath(path)))
        elif descriptor == _STDOUT:
            # Flushed first, so that earlier output comes first.
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        else:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)


def check_writable(path: Path) -> None:
    """Checks that :func:`write_text` can write a file, and leaves nothing behind.

    Raises:
        DLBricksError: If the file cannot be written.
    """
    _check_no_address(path)
    with file_error(path):
        descriptor = _descriptor(path)
        if descriptor is not None:
            descriptor = _standard_output() if descriptor == _STDOUT else descriptor
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise PermissionError(0, "it is not open for writing")
            return
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if not target.parent.is_dir():
            raise FileNotFoundError(0, f"there is no folder {target.parent}")
        if target.is_file():
            os.close(os.open(target, os.O_WRONLY))
        elif _exists(target) and not os.access(target, os.W_OK):
            raise PermissionError(0, "it may not be written")
        if not _in_place(target):
            tempfile.TemporaryFile(dir=target.parent).close()


def check_folder(path: Path) -> None:
    """Checks that files can be written to a folder, which need not exist yet.

    Raises:
        DLBricksError: If the folder cannot be created or written to.
    """
    _check_no_address(path)
    with file_error(f"the folder {path}"):
        nearest = next(each for each in (path, *path.absolute().parents) if _exists(each))
        tempfile.TemporaryFile(dir=nearest).close()


def _check_no_address(path: Path) -> None:
    """Refuses the address of a database: what is printed of a file would hold its password."""
    if (shown := without_secrets(str(path))) != str(path):
        raise DLBricksError(
            f"{shown} is the address of a database, not a file", "Give the path of a file."
        )


def to_standard_output(path: Path | None) -> bool:
    """Whether a path names standard output in any way."""
    if path is None:
        return False
    with suppress(OSError):
        return _descriptor(path) == _STDOUT
    return False


@contextmanager
def file_error(path: Path | str) -> Iterator[None]:
    """Turns an error of the operating system into one with a hint for the user."""
    try:
        yield
    except OSError as error:
        name = "standard output" if str(path) == "-" else path
        raise DLBricksError(
            f"{name} cannot be written: {error.strerror}", hint=or_room(error, "Name another one.")
        ) from error


def _descriptor(path: Path) -> int | None:
    """Descriptor of the open stream that a path names; ``None`` for an ordinary file."""
    name = str(path)
    for _ in range(_MOST_LINKS):
        if name in _STREAMS:
            return _STREAMS[name]
        if found := _DESCRIPTOR.fullmatch(name):
            return int(found[1])
        try:
            name = str(Path(name).parent / Path(name).readlink())
        except OSError:
            break
    # The very file that standard output was redirected to.
    with suppress(OSError):
        if os.path.samestat(path.stat(), os.fstat(_standard_output())):
            return _STDOUT
    return None


def _standard_output() -> int:
    """Descriptor of standard output: not 1 in a command, where plugins may write to that one."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # it is closed, or no file
        return _STDOUT


def _exists(path: Path) -> bool:
    """Whether a path exists; unlike :meth:`Path.exists`, an invalid name raises an error."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _in_place(path: Path) -> bool:
    """Whether a file must be written in place, because a new file would differ in identity."""
    if not _exists(path):
        return False
    found = path.stat()
    return (
        not stat.S_ISREG(found.st_mode)
        or found.st_nlink > 1
        or found.st_uid != os.geteuid()
        or not os.access(path.parent, os.W_OK)
    )


def _write_file(content: bytes, path: Path) -> None:
    if _in_place(path):
        path.write_bytes(content)
        return
    temporary = path.with_name(f".dlbricks-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            if _exists(path):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
