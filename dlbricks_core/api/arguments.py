"""Checks of arguments; otherwise a wrong type would fail somewhere deep inside."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.protocols import CONDITIONS
from dlbricks_core.scenarios import Scenario
from dlbricks_core.store import ResultStore

Conversion = Callable[[Any], Any]
"""A function that gives the value in the type that the library works with.

It raises ``TypeError`` or ``ValueError`` for anything else.
"""


def checked(**arguments: Any) -> dict[str, Any]:
    """Arguments of an API function in the types that the library works with.

    Args:
        **arguments: Values by the argument's name. An argument that is ``None`` is left out, so
            that the library's default holds.

    Raises:
        DLBricksError: If a value is not what the argument takes.

    Examples:
        >>> checked(threads=2, runs=None)
        {'threads': 2}
    """
    return {
        name: _converted(name, value)
        for name, value in arguments.items()
        if value is not None or name in _REQUIRED
    }


def _converted(name: str, value: Any) -> Any:
    convert, words = _TAKES[name]
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        known_as = _KNOWN_AS.get(name, name)
        raise DLBricksError(
            f"{known_as} cannot be {value!r:.80}", hint=f"{known_as} takes {words}."
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError
    return tuple(_text(each) for each in value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    return operator.index(value)


def _at_least(least: int) -> Conversion:
    def convert(value: Any) -> int:
        number = _whole(value)
        if number < least:
            raise ValueError
        return number

    return convert


def _number(value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError
    return float(value)


def _positive(value: Any) -> float:
    number = _number(value)
    if not number > 0:
        raise ValueError
    return number


def _by_name(convert: Conversion) -> Conversion:
    def convert_each(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return {_text(key): convert(each) for key, each in value.items()}

    return convert_each


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(_at_least(0)(size) for size in value)


def _store(value: Any) -> str | ResultStore:
    return value if isinstance(value, ResultStore) else os.fspath(value)


def _sizes(value: Any) -> tuple[int, ...]:
    """One size or several, each once."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return tuple(dict.fromkeys(map(_at_least(0), several)))


def _counts(value: Any) -> tuple[int, ...]:
    """One or several distinct numbers, each 1 or more."""
    found = _sizes(value)
    if not found or 0 in found:
        raise ValueError
    return found


def _scenario(value: Any) -> str:
    return Scenario(_text(value)).value


_TOKENS = "a whole number of tokens, or several of them"

_TAKES: Mapping[str, tuple[Conversion, str]] = {
    "backend": (_text, "the name of a backend, such as 'onnxruntime'"),
    "backends": (_texts, "a list of names, such as ['onnxruntime', 'pytorch']"),
    "granularity": (_at_least(1), "a whole number of layers, 1 or more"),
    "split": (_text, "the name of a split strategy, such as 'chain'"),
    "quantity": (_text, "the name of a quantity, such as 'load-time'"),
    "composer": (_text, "the name of a composer, such as 'segmented'"),
    "runs": (_at_least(1), "a whole number of runs, 1 or more"),
    "threads": (_at_least(1), "a whole number of threads, 1 or more"),
    "precision": (_number, "a share of the latency, such as 0.01 for 1%"),
    "budget_s": (_positive, "a number of seconds above 0, such as 60"),
    "condition": (_text, f"one of {', '.join(map(repr, CONDITIONS))}"),
    "protocol": (_text, "the name of a protocol, such as 'interleaved'"),
    "seed": (_at_least(0), "a whole number, 0 or more"),
    "timeout_s": (_positive, "a number of seconds above 0, such as 120"),
    "force": (_flag, "True or False"),
    "retry_failed": (_flag, "True or False"),
    "end_to_end": (_flag, "True or False"),
    "stored": (_flag, "True or False"),
    "predictor": (_text, "the name of a predictor, such as 'atlas'"),
    "system": (_text, "the name of a machine, or the start of its fingerprint"),
    "systems": (_texts, "a list of names, such as ['lab', '71bff16a']"),
    "models": (_texts, "a list of paths, models and collections, such as ['onnx:']"),
    "private": (_flag, "True or False"),
    "decoys": (_at_least(0), "a whole number, 0 or more"),
    "decoys_from": (_texts, "a list of models and collections, such as ['onnx:']"),
    "published": (_texts, "a list of models and collections, such as ['onnx:']"),
    "key": (Path, "a path"),
    "max_latency_ms": (_positive, "a number of milliseconds above 0, such as 50"),
    "require": (_texts, "a list of bounds, such as ['peak-memory<=500MiB']"),
    "by": (_text, "'latency', 'price', or the name of a quantity, such as 'peak-memory'"),
    "on": (_texts, "a list of names, such as ['71bff16a']"),
    "compared": (_texts, "a list of names, such as ['onnxruntime', 'pytorch']"),
    "prices": (Path, "a path"),
    "accuracies": (Path, "a path"),
    "min_accuracy": (_number, "a number in the unit of the file"),
    "scenario": (_scenario, f"one of {', '.join(repr(each.value) for each in Scenario)}"),
    "instances": (_counts, "a whole number of instances, 1 or more, or several of them"),
    "several_threads": (_counts, "a whole number of threads, 1 or more, or several of them"),
    "latency_bound_ms": (_positive, "a number of milliseconds above 0, such as 50"),
    "duration_s": (_positive, "a number of seconds above 0, such as 600"),
    "store": (_store, "a path, a URL or an open store"),
    "batch": (_at_least(0), "a whole number, 0 or more"),
    "prompt": (_sizes, _TOKENS),
    "generate": (_sizes, _TOKENS),
    "depth": (_sizes, _TOKENS),
    "batches": (_sizes, "a whole number of requests, or several of them"),
    "axes": (_by_name(_sizes), "sizes by name, such as {'sequence': [1, 128, 512]}"),
    "dims": (_by_name(_at_least(0)), "sizes by name, such as {'sequence': 128}"),
    "shapes": (_by_name(_shape), "shapes by name, such as {'data': (1, 3, 224, 224)}"),
    "values": (_by_name(_number), "numbers by name, such as {'sample_rate': 16000}"),
    "backend_options": (
        _by_name(lambda options: options),
        "options by backend, such as {'mxnet': {'engine': 'naive'}}",
    ),
    "fold_batchnorm": (_flag, "True or False"),
    "dtype": (_text, "the name of an element type, such as 'bfloat16'"),
}
"""Conversion of each argument, and a description of what it takes."""

_KNOWN_AS = {"batches": "batch", "compared": "backends", "several_threads": "threads"}
"""Names in messages for arguments whose conversion has another name here."""

_REQUIRED = frozenset({"backend", "backends", "scenario"})
