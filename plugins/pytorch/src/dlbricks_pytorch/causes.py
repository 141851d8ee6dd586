"""Explains exceptions of PyTorch, or of the user's own code, in one line: reason and place."""

from __future__ import annotations

import contextlib
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MOST_LETTERS = 240
"""Maximum number of letters of a cause that are shown."""

_PATHS = sysconfig.get_paths()
_PACKAGES = (_PATHS["purelib"] + os.sep, _PATHS["platlib"] + os.sep)
_OWN = (_PATHS["stdlib"] + os.sep, str(Path(__file__).parent), "<")
_LIBRARIES = ("torch", "functorch", "onnxscript", "onnx_ir")


@dataclass(frozen=True)
class Reason:
    """Meaning of one kind of exceptions.

    Attributes:
        pattern: Pattern of the exception's type and message.
        text: Meaning, which may use the pattern's groups; empty for the message itself.
        hint: Advice to the user.
    """

    pattern: str
    text: str
    hint: str


_REASONS = (
    Reason(
        r"GuardOnDataDependent|data-dependent|DataDependent",
        "its control flow or a size depends on the values of a tensor",
        "Decide by shapes or numbers instead, or write it with torch.where or torch.cond.",
    ),
    Reason(
        r"PackedParams|__obj_flatten__|torch\.classes\.(\w+)",
        "its weights are packed into an object that torch.export cannot follow",
        "Export the module before it is quantized or packed; quantized ONNX files can be read.",
    ),
    Reason(
        r"but ?got FakeTensor|FakeTensor.*(integer|size)",
        "a size in it comes from the values of a tensor, as in packed sequences",
        "Give such sizes as numbers; call recurrent layers on the padded tensor.",
    ),
    Reason(
        r"(?:no fake impl|Operator does not support running with fake|no .*Meta.* kernel).*",
        "",
        "Register a fake implementation of that operator: torch.library.register_fake.",
    ),
    Reason(
        r"(?:Unsupported input type|unsupported type|not a (?:valid|supported) input).*",
        "",
        "Example inputs are tensors, numbers, texts, None, and tuples, lists or dictionaries "
        "of those.",
    ),
)
_DEFAULT_HINT = "See that module(*inputs) runs by itself, with the example inputs."


def told(error: BaseException) -> tuple[str, str]:
    """Reason for an exception in one line, and advice to the user."""
    line = one_line(error)
    for reason in _REASONS:
        if re.search(reason.pattern, line):
            return reason.text or line, reason.hint
    return line, _DEFAULT_HINT


def one_line(error: BaseException) -> str:
    """Type of an exception and its message, or the first line of a long message."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:  # noqa: BLE001 - the user's own exception may fail to describe itself
        lines = []
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def place(error: BaseException) -> str:
    """Place in the user's own code, as ``" (file.py:12)"``; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno or 0)
    places = [
        (frame.filename, frame.lineno or 0)
        for each in chain(error)
        for frame in traceback.extract_tb(each.__traceback__)
        if not _is_foreign(frame.filename)
    ]
    return _shown(*places[-1]) if places else ""


def _is_foreign(file: str) -> bool:
    """Whether a file is not the user's own, but belongs to Python, torch or DLBricks."""
    for folder in _PACKAGES:
        if file.startswith(folder):
            return Path(file.removeprefix(folder)).parts[0] in _LIBRARIES
    return file.startswith(_OWN)


def lacking_module(error: BaseException) -> str:
    """Name of the missing module that caused an error; empty for another cause."""
    absent = (each.name for each in chain(error) if isinstance(each, ModuleNotFoundError))
    return next(filter(None, absent), "")


def lacks_arguments(error: BaseException, function: str) -> bool:
    """Whether the call of a function itself lacked arguments, rather than a call inside it."""
    name = re.escape(function.rpartition(".")[2])
    missing = re.search(rf"\b{name}\(\) missing \d+ required", one_line(error))
    return isinstance(error, TypeError) and missing is not None


def noted_place(stack: str) -> str:
    """The last place in a stack trace that torch recorded for an operator."""
    found: list[tuple[str, str]] = re.findall(r'File "([^"\n]+)", line (\d+)', stack)
    return _shown(found[-1][0], int(found[-1][1])) if found else ""


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes, the last cause last."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__


def _shown(file: str, line: int) -> str:
    with contextlib.suppress(ValueError, OSError):
        file = str(Path(file).relative_to(Path.cwd()))
    return f" ({file}:{line})"
