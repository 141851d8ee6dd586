"""Damaged copies of JSON documents, drawn with a seed, and what importers make of them."""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import NO_OPTIONS, ImportOptions
from dlbricks_core.worker import RemoteError, WorkerError, WorkerProcess

_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 7, 255, 2**31, 2**62, -(2**63), 2**70, 1.5, 1e308, "", "x", "None",
    10**400, 5e-324, float("inf"), float("nan"), "n" * 10_000, {"n" * 10_000: 1},
    "(1, 48", "(4611686018427387904, 4)", "-1", "99999999999", "\x1b[31mred", "é", "a" * 5000,
    "__import__('os').system('false')", [], {}, [[]], [0], [0, 0, 0], {"a": 1}, [[[[[0]]]]],
)  # fmt: skip
_TIMEOUT_S = 60.0

Mutate = Callable[[bytes, random.Random], bytes]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A document with one to three changes, or its text cut or with other bytes."""
    if rng.random() < 0.1:
        return _cut(content, rng)
    document = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_CHANGES)(document, rng)
    return json.dumps(document).encode()


def _cut(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    if rng.random() < 0.5:
        return content[:place]
    return content[:place] + rng.randbytes(rng.randrange(1, 4)) + content[place + 1 :]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Containers with the keys of what they hold."""
    left = [document]
    while left:
        at = left.pop()
        for key in list(at) if isinstance(at, dict) else range(len(at)):
            yield at, key
            if isinstance(at[key], dict | list):
                left.append(at[key])


def _drawn(document: Any, rng: random.Random) -> tuple[Any, Any]:
    return rng.choice([*_places(document)] or [({"": 0}, "")])


def _replace(document: Any, rng: random.Random) -> None:
    at, key = _drawn(document, rng)
    at[key] = copy.deepcopy(rng.choice(_ODD))


def _remove(document: Any, rng: random.Random) -> None:
    at, key = _drawn(document, rng)
    del at[key]


def _swap(document: Any, rng: random.Random) -> None:
    (at, key), (other, place) = _drawn(document, rng), _drawn(document, rng)
    at[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(at[key])


def _repeat(document: Any, rng: random.Random) -> None:
    lists = [at for at, _ in _places(document) if isinstance(at, list)]
    if lists:
        at = rng.choice(lists)
        at.insert(rng.randrange(len(at) + 1), copy.deepcopy(rng.choice(at)))


def _shift(document: Any, rng: random.Random) -> None:
    """Another number in the place of one."""
    numbers = [(at, key) for at, key in _places(document) if type(at[key]) is int]
    if numbers:
        at, key = rng.choice(numbers)
        at[key] += rng.choice((-2, -1, 1, 2, 1000, 2**31))


_CHANGES = (_replace, _replace, _remove, _swap, _repeat, _shift, _shift)


def outcomes(
    target: str,
    content: bytes,
    write: Callable[[bytes], Path],
    count: int,
    seed: int,
    options: ImportOptions = NO_OPTIONS,
    mutate: Mutate = mutated,
) -> tuple[Counter[str], list[str]]:
    """What an importer makes of damaged copies.

    Args:
        target: ``"module:Class"`` of the importer.
        content: The document before it is damaged.
        write: Puts a document into a file and returns what to import.
        count: How many copies.
        seed: Of what is drawn.
        options: For the importer.
        mutate: Draws a damaged document.

    Returns:
        Counts of files that were ``"read"`` and ``"refused"``, and what went wrong with others.
    """
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    worker: WorkerProcess | None = None
    for number in range(count):
        path = write(mutate(content, random.Random(f"{seed}/{number}")))
        worker = worker or WorkerProcess("dlbricks_core.importers.host:ImportHost")
        try:
            worker.call("raw", target, path, options, timeout=_TIMEOUT_S)
            counts["read"] += 1
        except (RemoteError, WorkerError) as error:
            wrong.append(f"{number}: {type(error).__name__}: {error.message} {error.args}")
            if isinstance(error, WorkerError):
                worker.close()
                worker = None
        except DLBricksError as error:
            counts["refused"] += 1
            if path.name not in error.message or len(error.message.splitlines()) > 1:
                wrong.append(f"{number}: not one line with the file's name: {error.message!r}")
    if worker is not None:
        worker.close()
    return counts, wrong


def report(run: Callable[[int, int], tuple[Counter[str], list[str]]], default: int) -> None:
    """Prints the outcomes of as many copies as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts, wrong = run(given.count, given.seed)
    print(dict(counts), len(wrong), "wrong")
    print("\n".join(wrong))
