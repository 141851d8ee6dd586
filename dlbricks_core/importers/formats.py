"""Kinds of files that are not models, recognized by their first bytes."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.errors import ModelError

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


# Checks of a model file before anything reads it.

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


# Advice on files that no importer reads: their kind, and how to convert them.

_TF = "python -m tf2onnx.convert makes an ONNX file of it (pip install tf2onnx)."
_WEIGHTS = "It contains weights without a graph: name the model's ONNX file or its code."

#: Advice by the ending of a file's name.
_ADVICE = {
    (".h5", ".hdf5", ".keras"): f"A Keras model: {_TF}",
    (".tflite", ".lite"): f"A TensorFlow Lite model: {_TF}",
    (".savedmodel", ".meta", ".pbtxt"): f"A TensorFlow model: {_TF}",
    (".mlmodel", ".mlpackage"): "A Core ML model: export the model that it was made from to ONNX.",
    (".caffemodel", ".prototxt"): "A Caffe model: convert it to ONNX first.",
    (".torchscript",): "A TorchScript file: export the module that it was made from, with "
    "torch.export or torch.onnx.",
    (".onnxtxt", ".textproto"): "A model as text: onnx.save(onnx.load(PATH), "
    "'model.onnx') makes an ONNX file of it.",
    (".ubj", ".cbm", ".txt", ".joblib"): "If it is a trained model of "
    "scikit-learn, XGBoost, LightGBM or CatBoost: skl2onnx or onnxmltools converts the "
    "trained model to an ONNX file.",
    (".pdmodel", ".pdiparams"): "A PaddlePaddle model: paddle2onnx makes an ONNX file of it.",
    (".xml",): "A graph of OpenVINO: the distribution of its backend reads it.",
    (".engine", ".plan", ".ort"): "Compiled for one runtime: name the ONNX file that it was made "
    "from.",
    (".gguf", ".ggml", ".npz", ".npy", ".msgpack"): _WEIGHTS,
    (".py",): "Python code: name a factory in it, torch:module:factory",
    ("config.json",): "The configuration of a language model is named as llm:PATH/config.json.",
    (".json",): "An MXNet graph is called NAME-symbol.json, with NAME-0000.params beside it.",
    (".zip", ".gz", ".tgz", ".tar", ".xz", ".bz2", ".zst", ".7z"): "An archive: unpack it first.",
}


def advice(spec: str) -> str:
    """Advice for a file by its name, followed by a space; empty if there is none."""
    name = spec.lower()
    found = next((text for suffixes, text in _ADVICE.items() if name.endswith(suffixes)), "")
    return f"{found.removesuffix('.')}. " if found else ""
