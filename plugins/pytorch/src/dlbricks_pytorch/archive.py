"""PyTorch's zip archives, read in pieces whose sizes are checked first."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlbricks_core.errors import ModelError

MOST_ENTRIES = 100_000
"""Maximum entries of an archive: torch writes one for each weight."""
MOST_JSON_BYTES = 128 << 20
"""Maximum bytes of a description: torch's for the largest language models have 20 MB."""
MOST_VALUE_BYTES = 256 << 20
"""Maximum bytes of the values of all small weights."""
_MOST_READ_BYTES = 256 << 20
"""Bytes of one read at which a file counts as damaged."""

_MODEL = re.compile(r"models/([\w.-]+)\.json")
_OLD_PROGRAM = "serialized_exported_program.json"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HINT = "Fetch it again, or write it again with torch.export.save."


class _Pieces(io.FileIO):
    """A file that is read in pieces, because a directory of entries may claim any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        rest = size is None or size < 0
        content = super().read(_MOST_READ_BYTES if rest else min(size or 0, _MOST_READ_BYTES))
        if len(content or b"") == _MOST_READ_BYTES:
            raise zipfile.BadZipFile("the directory of its entries is too large")
        return content or b""


class Archive:
    """The entries of an archive below its one folder.

    Args:
        path: Path of a regular file.

    Raises:
        ModelError: If the file is not an archive, or has too many entries.
    """

    def __init__(self, path: Path) -> None:
        self._file = _Pieces(path)
        try:
            self._zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
            self._file.close()
            raise ModelError(f"damaged archive: {error}", hint=_HINT) from error
        entries = self._zip.infolist()
        if len(entries) > MOST_ENTRIES:
            self.close()
            raise ModelError(
                f"an archive of {len(entries)} entries; {MOST_ENTRIES} is the limit", hint=_HINT
            )
        root = _root(entries)
        self._entries = {entry.filename.removeprefix(root): entry for entry in entries}
        self._left = MOST_VALUE_BYTES

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries."""
        return tuple(self._entries)

    def size(self, name: str) -> int:
        """Size in bytes of an existing entry, as declared by the archive."""
        return self._entries[name].file_size

    def json(self, name: str) -> Any:
        """A description.

        Raises:
            ModelError: If it is missing, too large, or no JSON.
        """
        content = self.read(name, MOST_JSON_BYTES)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"its entry {name!r} is not JSON", hint=_HINT) from error

    def values(self, name: str) -> bytes:
        """The values of a small weight.

        Raises:
            ModelError: If they are missing, or the values read so far are too many.
        """
        content = self.read(name, self._left)
        self._left -= len(content)
        return content

    def read(self, name: str, most: int) -> bytes:
        """Content of an entry.

        Raises:
            ModelError: If it is missing, damaged, or has more bytes than ``most``.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ModelError(f"it has no entry {name!r}", hint=_HINT)
        if entry.file_size > most:
            raise ModelError(
                f"its entry {name!r} unpacks to {entry.file_size / 1e6:.0f} MB; "
                f"{most / 1e6:.0f} MB is the limit",
                hint=_HINT,
            )
        if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
            raise ModelError(
                f"its entry {name!r} is encrypted or packed in a way that torch does not write",
                hint=_HINT,
            )
        try:
            with self._zip.open(entry) as file:
                # Without a number, an entry of another size than declared unpacks to 2 GB.
                return file.read(entry.file_size + 1)
        except Exception as error:  # zipfile and its unpackers raise many kinds
            raise ModelError(f"its entry {name!r} is damaged: {error}", hint=_HINT) from error

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()
        self._file.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _root(entries: list[zipfile.ZipInfo]) -> str:
    """The common folder of all entries, with its slash; empty if there is none."""
    roots = {entry.filename.partition("/")[0] + "/" for entry in entries}
    root = roots.pop() if len(roots) == 1 else ""
    return root if all(entry.filename.startswith(root) for entry in entries) else ""


def program_entry(names: Sequence[str]) -> str | None:
    """The entry with an exported program, among the names of all; ``None`` if there is none."""
    found = [name for name in names if _MODEL.fullmatch(name)]
    preferred = [name for name in found if model_of(name) == "model"]
    return next(iter(preferred or found), _OLD_PROGRAM if _OLD_PROGRAM in names else None)


def model_of(entry: str) -> str:
    """Name of the model in an entry; empty in the layout of torch 2.7 and earlier."""
    match = _MODEL.fullmatch(entry)
    return match[1] if match else ""
