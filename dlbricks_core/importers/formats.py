"""Kinds of files that are not models, recognized by their first bytes."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 512
"""Number of bytes at the beginning of a file that show its kind."""


@dataclass(frozen=True)
class FileFormat:
    """A kind of file that is often mistaken for a model.

    Attributes:
        name: Name of the kind, with its article.
        hint: Advice for the user.
    """

    name: str
    hint: str


_UNPACK = "Unpack it and name the model file in it."
_EXPORT = "Export the model to ONNX with the framework that wrote it, and name that file."
_DOWNLOAD = "Fetch the file again: this is another file. Look at its first lines."

#: Position of bytes in the file, the bytes, and their meaning. No ONNX model has them there.
_SIGNATURES = (
    (0, b"version https://git-lfs", FileFormat("a Git LFS pointer", "Fetch it: git lfs pull")),
    (
        0,
        b"PK\x03\x04",
        FileFormat(
            "a zip archive (PyTorch's .pt, .pth and .pt2 files are, too)",
            f"{_UNPACK} A PyTorch program has the suffix .pt2.",
        ),
    ),
    (0, b"PK\x05\x06", FileFormat("an empty zip archive", _DOWNLOAD)),
    (0, b"\x1f\x8b", FileFormat("a gzip archive", _UNPACK)),
    (0, b"BZh", FileFormat("a bzip2 archive", _UNPACK)),
    (0, b"\xfd7zXZ\x00", FileFormat("an xz archive", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", FileFormat("a zstd archive", _UNPACK)),
    (0, b"\x04\x22\x4d\x18", FileFormat("an lz4 archive", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", FileFormat("a 7z archive", _UNPACK)),
    (0, b"Rar!\x1a\x07", FileFormat("a rar archive", _UNPACK)),
    (257, b"ustar", FileFormat("a tar archive", _UNPACK)),
    (0, b"\x89HDF\r\n\x1a\n", FileFormat("an HDF5 file (Keras writes them)", _EXPORT)),
    (0, b"\x93NUMPY", FileFormat("a numpy array", _EXPORT)),
    (4, b"TFL3", FileFormat("a TensorFlow Lite model", _EXPORT)),
    (
        4,
        b"ORTM",
        FileFormat(
            "a model in ONNX Runtime's own format", "Name the .onnx file that it was made of."
        ),
    ),
    (0, b"GGUF", FileFormat("a GGUF model", _EXPORT)),
    (0, b"SQLite format 3\x00", FileFormat("an SQLite database", _DOWNLOAD)),
    (0, b"\x7fELF", FileFormat("a program", _DOWNLOAD)),
    (0, b"MZ", FileFormat("a program", _DOWNLOAD)),
    (0, b"%PDF", FileFormat("a PDF document", _DOWNLOAD)),
    (0, b"\x89PNG", FileFormat("a picture", _DOWNLOAD)),
    (0, b"\xff\xd8\xff", FileFormat("a picture", _DOWNLOAD)),
    (0, b"GIF8", FileFormat("a picture", _DOWNLOAD)),
    (0, b"RIFF", FileFormat("a picture or a sound", _DOWNLOAD)),
    (
        0,
        b"\x12\x01\x00\x00\x00\x00\x00\x00",
        FileFormat("a file of MXNet's parameters", "Name the -symbol.json file beside it."),
    ),
    *(
        (
            0,
            bytes((0x80, version)),
            FileFormat("a pickle, which would run code when it is read", _EXPORT),
        )
        for version in range(2, 6)
    ),
)

_SAFETENSORS = FileFormat("a file of weights (safetensors), without a model's layers", _EXPORT)
_HTML = FileFormat(
    "an HTML page", "The download gave an error or a login page; fetch the file again."
)
_JSON = FileFormat("a JSON file", "MXNet's models end in -symbol.json; other JSON is not a model.")
_TEXT = FileFormat("a text file", _DOWNLOAD)


def kind_of(head: bytes) -> FileFormat | None:
    """Kind of a file that is certainly not a serialized model; ``None`` for all others.

    Args:
        head: The first :data:`HEAD_BYTES` of the file, or all of a shorter one.
    """
    for offset, magic, kind in _SIGNATURES:
        if head[offset : offset + len(magic)] == magic:
            return kind
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 2**31:
        return _SAFETENSORS
    return _kind_of_text(head)


def _kind_of_text(head: bytes) -> FileFormat | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return _HTML
    # Serialized messages begin with control characters.
    if not head.strip() or not all(byte >= 32 or byte in b"\t\r\n\f" for byte in head):
        return None
    return _JSON if start.startswith((b"{", b"[")) else _TEXT
