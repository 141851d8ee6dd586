"""Identifies files without a program, without unpickling, and gives advice on them."""

from __future__ import annotations

import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlbricks_pytorch.archive import Archive, program_entry

_EXPORT = "torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"
_FACTORY = "torch:package.module:factory"
_MOST_PICKLE_BYTES = 4 << 20
_MOST_OPCODES = 20_000
"""Maximum bytes of a pickle that are looked at, and number of its operations."""

_CLASS_OPCODES = ("GLOBAL", "STACK_GLOBAL")
#: Modules of the first classes in pickles of plain weights.
_OF_WEIGHTS = re.compile(r"collections |torch\._utils |torch \w*Storage|torch\.storage |_codecs ")


@dataclass(frozen=True)
class Kind:
    """A kind of file, with advice to the user.

    Attributes:
        what: Predicate of a sentence whose subject is the file's name.
        hint: Advice.
    """

    what: str
    hint: str


_STATE_DICT = Kind(
    "is a state dict or checkpoint: weights without a graph",
    f"Build the module in a factory ({_FACTORY}), or export it: {_EXPORT}",
)
_SCRIPT = Kind(
    "is a TorchScript file, which torch.export cannot read",
    f"Export the module that it was made from: {_EXPORT}",
)
_COMPILED = Kind(
    "holds a compiled library (AOTInductor), not a program",
    f"Export the module that it was made from: {_EXPORT}",
)
_UNKNOWN_ARCHIVE = Kind("is an archive without a program of PyTorch", f"Write one: {_EXPORT}")
_SAFETENSORS = Kind("is a safetensors file: weights without a graph", _STATE_DICT.hint)
_OLD_ARCHIVE = Kind("is a tar archive of an old torch.save, without a graph", _STATE_DICT.hint)


def kind_of(path: Path) -> Kind | None:
    """Kind of a readable file; ``None`` for an exported program.

    Raises:
        ModelError: If the file is a damaged archive.
    """
    with path.open("rb") as file:
        start = file.read(64)
    if zipfile.is_zipfile(path):
        return _archive(path)
    return next((kind for check in _STARTS if (kind := check(path, start))), _nothing(path, start))


def _archive(path: Path) -> Kind | None:
    with Archive(path) as archive:
        names = archive.names
        if program_entry(names):
            return None
        if any(name.startswith("data/aotinductor/") for name in names):
            return _COMPILED
        if any(name.startswith("code/") for name in names):
            return _SCRIPT
        if "data.pkl" in names:
            size = min(archive.size("data.pkl"), _MOST_PICKLE_BYTES)
            return _pickled(archive.read("data.pkl", size) if size < _MOST_PICKLE_BYTES else b"")
    return _UNKNOWN_ARCHIVE


def _pickle(path: Path, start: bytes) -> Kind | None:
    """Kind of a file that ``torch.save`` or ``pickle`` wrote without an archive."""
    if not re.match(rb"\x80[\x02-\x05]", start):
        return None
    with path.open("rb") as file:
        content = file.read(_MOST_PICKLE_BYTES)
    return _pickled(content)


def _pickled(content: bytes) -> Kind:
    classes = [name for name in _classes(content) if not _OF_WEIGHTS.match(name)]
    if not classes:
        return _STATE_DICT
    module, _, name = classes[0].rpartition(" ")
    return Kind(
        f"is a pickled {module}.{name}"[:120] + ", not a program; unpickling may run code",
        f"Return the module from a factory ({_FACTORY}), or export it: {_EXPORT}",
    )


def _classes(content: bytes) -> Iterator[str]:
    """Classes in a pickle, as ``module name``, without loading it."""
    texts: list[str] = []
    rest = content
    for _ in range(8):  # pickles may follow each other
        try:
            end = 0
            for count, (opcode, argument, place) in enumerate(pickletools.genops(rest)):
                end = place + 1
                if count > _MOST_OPCODES:
                    return
                if opcode.name in _CLASS_OPCODES:
                    yield argument if argument else " ".join(texts[-2:])
                elif isinstance(argument, str):
                    texts.append(argument)
        except Exception:  # noqa: BLE001 - a part of a pickle, or what follows the last
            return
        rest = rest[end:]


def _safetensors(path: Path, start: bytes) -> Kind | None:
    long_enough = len(start) > 9 and start[8:9] == b"{"
    if long_enough and struct.unpack("<Q", start[:8])[0] <= path.stat().st_size - 8:
        return _SAFETENSORS
    return None


def _tar(path: Path, start: bytes) -> Kind | None:
    return _OLD_ARCHIVE if start.startswith((b"storages", b"././@LongLink", b"pickle")) else None


def _nothing(path: Path, start: bytes) -> Kind:
    del start
    return Kind(
        "is empty" if not path.stat().st_size else "is not a file written by PyTorch, or truncated",
        f"Fetch it again, or write it with {_EXPORT}",
    )


_STARTS: tuple[Callable[[Path, bytes], Kind | None], ...] = (_pickle, _safetensors, _tar)
