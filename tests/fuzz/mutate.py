"""Mutates small models and reads each as ``dlbricks show``, ``analyze`` and ``graph`` do.

    python tests/fuzz/mutate.py 10000 --seed 1 --keep findings/

Every mutated file must be read, or refused with one line and a hint: no other exception, no
crash, not longer than some seconds, not more than 2 GB. Files run in child processes, some
hundred each; the same count and seed give the same files. With ``--keep``, what fails is kept
as a file. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto

from dlbricks_core.report.tables import Console

sys.path.insert(0, str(Path(__file__).parent))
from dlbricks_graph.command import ShowOperationsJob, graph_data, graph_svg
from dlbricks_graph.costs import LayerCosts
from dlbricks_graph.drawing import Picture
from dlbricks_study.repeats import analysis_data, print_analysis
from dlbricks_study.repetition import analyze
from seeds import EXTERNAL_DATA, operator_seeds, seeds

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options.models import Models
from dlbricks_core.commands.show.inspection import inspect_data, print_inspection
from dlbricks_core.errors import DLBricksError, UnboundDimensionsError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.passes import normalize

_LIMIT_S = 10
_LIMIT_BYTES = 2 << 30
_BATCH = 250

_INTEGERS = (
    *(-(2**63), -(2**31), -65, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 255, 1000, 4097),
    *(65536, 10**6, 2**31 - 1, 2**31, 2**32, 2**36, 10**12, 2**62, 2**63 - 1),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", "a", "x", "\x1b[31m", "a b", "[/x]", "../x", "/etc/hostname", "\u202e", "ai.onnx",
          "n" * 300, "\n", "SAME_UPPER", "-1", "99999999999999999999")  # fmt: skip
#: Fields of what layers do and how large tensors are: every other mutation is one of these.
_NUMBERS = {"dim_value", "dims", "f", "i", "int64_data", "ints", "op_type", "raw_data", "t"}
_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
_KINDS = {
    Field.TYPE_INT32: "int",
    Field.TYPE_INT64: "int",
    Field.TYPE_UINT64: "int",
    Field.TYPE_ENUM: "int",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_DOUBLE: "float",
    Field.TYPE_STRING: "text",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_MESSAGE: "message",
}


class Mutator:
    """Draws mutations; one seed, one sequence of them."""

    def __init__(self, seed: int, *, operators: bool = False) -> None:
        self.rng = random.Random(seed)
        self.models = {**seeds(), **(operator_seeds() if operators else {})}
        self._parts: dict[str, list[Any]] = {}
        for model in self.models.values():
            for message, field in places(model):
                values = getattr(message, field.name)
                many = values if field.is_repeated else [values]
                self._parts.setdefault(field.full_name, []).extend(many)

    def file(self) -> bytes:
        """The bytes of one mutated file."""
        proto = ModelProto()
        proto.CopyFrom(self.rng.choice(list(self.models.values())))
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            self._mutate(proto)
        raw = proto.SerializeToString()
        return self._mutated_bytes(raw) if self.rng.random() < 0.25 else raw

    def mutated(self, raw: bytes, rng: random.Random) -> bytes:
        """A copy of a file with one more mutation, drawn from ``rng``."""
        self.rng = rng
        proto = ModelProto()
        try:
            proto.ParseFromString(raw)
        except DecodeError:
            return self._mutated_bytes(raw)
        if rng.random() < 0.1 or not places(proto):
            return self._mutated_bytes(raw)
        try:
            self._mutate(proto)
        except KeyError:  # a field that no model has had before
            return self._mutated_bytes(raw)
        return proto.SerializeToString()

    def _mutate(self, proto: ModelProto) -> None:
        found = places(proto)
        # Fields of one name have the same chance, however often they occur.
        by_name: dict[str, list[tuple[Message, Any]]] = {}
        for message, field in found:
            by_name.setdefault(field.full_name, []).append((message, field))
        names = sorted(by_name)
        if self.rng.random() < 0.5:
            names = [name for name in names if name.rpartition(".")[2] in _NUMBERS] or names
        message, field = self.rng.choice(by_name[self.rng.choice(names)])
        try:
            if field.is_repeated:
                self._mutate_list(getattr(message, field.name), field)
            elif self.rng.random() < 0.1:
                message.ClearField(field.name)
            elif _KINDS[field.type] == "message":
                getattr(message, field.name).CopyFrom(self.rng.choice(self._parts[field.full_name]))
            else:
                setattr(message, field.name, self._value(field, getattr(message, field.name)))
        except (TypeError, ValueError):
            pass  # a value that does not fit the field: the file stays as it was

    def _mutate_list(self, values: Any, field: Any) -> None:
        kind = _KINDS[field.type]
        position = self.rng.randrange(len(values))
        action = self.rng.choice(("delete", "double", "swap", "change", "change", "change"))
        if action == "delete":
            del values[position]
        elif action == "double":
            values.append(values[position])
        elif action == "swap":
            other = self.rng.randrange(len(values))
            if kind == "message":
                kept = type(values[0])()
                kept.CopyFrom(values[position])
                values[position].CopyFrom(values[other])
                values[other].CopyFrom(kept)
            else:
                values[position], values[other] = values[other], values[position]
        elif kind == "message":
            values[position].CopyFrom(self.rng.choice(self._parts[field.full_name]))
        else:
            values[position] = self._value(field, values[position])

    def _value(self, field: Any, old: Any) -> Any:
        rng, kind = self.rng, _KINDS[field.type]
        if rng.random() < 0.3:
            return rng.choice(self._parts[field.full_name])
        if field.type == Field.TYPE_ENUM:
            return rng.choice(list(field.enum_type.values_by_number))
        if kind == "int":
            return rng.choice((*_INTEGERS, old + 1, old - 1, -old))
        if kind == "float":
            return rng.choice((*_FLOATS, -old))
        if kind == "bytes":
            return self._mutated_bytes(old)
        return rng.choice(_OPERATORS) if field.name == "op_type" else rng.choice(_TEXTS)

    def _mutated_bytes(self, raw: bytes) -> bytes:
        rng = self.rng
        data = bytearray(raw)
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            at = rng.randrange(len(data) + 1)
            action = rng.choice(("flip", "set", "cut", "insert", "copy", "end"))
            if action == "flip" and at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            elif action == "set" and at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif action == "cut":
                del data[at : at + rng.randrange(1, 9)]
            elif action == "insert":
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            elif action == "copy":
                data[at:at] = data[at : at + rng.randrange(1, 40)]
            elif rng.random() < 0.2:
                del data[at:]
        return bytes(data)


def places(message: Message) -> list[tuple[Message, Any]]:
    """Every field that is set in a message and those inside, with the message that has it."""
    found = []
    for field, value in message.ListFields():
        found.append((message, field))
        if _KINDS[field.type] == "message":
            for inner in value if field.is_repeated else [value]:
                found += places(inner)
    return found


def load(path: Path) -> CanonicalModel:
    """The file as a model in canonical form, with two for every open size."""
    raw = OnnxImporter().load(path)
    try:
        return normalize(raw)
    except UnboundDimensionsError:
        sizes = {
            dim if isinstance(dim, str) else f"{name}.{axis}": 2
            for name in raw.inputs
            for axis, dim in enumerate(raw.tensors[name].shape or ())
            if not isinstance(dim, int)
        }
        return normalize(raw, dims=sizes)


def look(path: Path) -> str:
    """Does with a file what commands do that run nothing.

    Returns:
        What refused it; empty if it was read.
    """
    try:
        model = load(path)
    except DLBricksError as error:
        return checked(error)
    console = Console(file=io.StringIO(), width=80)
    for granularity, strategy in ((1, "chain"), (3, "chain"), (64, "segments")):
        bricks = BrickSet.of([model], granularity, strategy, rereading=True)
    json.dumps(inspect_data(bricks), allow_nan=False)
    print_inspection(console, bricks, layers=True)
    analysis = analyze([model])
    json.dumps(analysis_data(analysis), allow_nan=False)
    print_analysis(console, analysis)
    (cut,) = BrickSet.of([model]).models
    picture = Picture(cut, LayerCosts.of(cut))
    json.dumps(graph_data(picture, ShowOperationsJob(models=Models(()))), allow_nan=False)
    graph_svg(picture)
    return ""


def checked(error: DLBricksError) -> str:
    """The error's message, if it is one that users may see."""
    assert error.hint, f"no hint: {error.message}"
    assert "\n" not in error.message + error.hint, f"several lines: {error.message!r}"
    assert "memory" not in error.message, error.message
    return error.message


class TooLong(BaseException):
    """A file took longer than the limit; nothing that guards against errors may catch it."""


def _too_long(signum: int, frame: Any) -> None:
    raise TooLong


def run_batch(files: list[bytes], first: int, folder: Path) -> list[tuple[int, str]]:
    """Looks at files in a child process, which is replaced where one ends it.

    Returns:
        The number of each file and what came of it: empty if it was read, its error's words
        behind ``refused:``, or what else happened.
    """
    found: list[tuple[int, str]] = []
    while len(found) < len(files):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _look_at_all(files[len(found) :], first + len(found), folder, writing)
        os.close(writing)
        with os.fdopen(reading) as lines:
            found += [(number, text) for number, text in map(json.loads, lines)]
        _, status = os.waitpid(child, 0)
        if status:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "exit"
            found.append((first + len(found), f"CRASH: {how}"))
    return found


def _look_at_all(files: list[bytes], first: int, folder: Path, writing: int) -> None:
    faulthandler.disable()
    warnings.simplefilter("ignore")
    limit = _LIMIT_BYTES + _address_space()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _too_long)
    path = folder / "mutated.onnx"
    for number, raw in enumerate(files, first):
        path.write_bytes(raw)
        signal.alarm(_LIMIT_S)
        try:
            refused = look(path)
            text = f"refused: {refused}" if refused else ""
        except TooLong:
            text = f"HANG: more than {_LIMIT_S} s"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        signal.alarm(0)
        os.write(writing, (json.dumps((number, text)) + "\n").encode())
    os._exit(0)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def run(count: int, seed: int, keep: Path | None, *, operators: bool = False) -> int:
    """Looks at mutated files and prints what came of them; returns the number that failed."""
    mutator = Mutator(seed, operators=operators)
    results: list[str] = []
    failed = 0
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dlbricks-fuzz-") as name:
        folder = Path(name)
        (folder / "data.bin").write_bytes(EXTERNAL_DATA)
        for first in range(0, count, _BATCH):
            files = [mutator.file() for _ in range(min(_BATCH, count - first))]
            for number, text in run_batch(files, first, folder):
                results.append(text)
                if text and not text.startswith("refused:"):
                    failed += 1
                    print(f"file {number} of seed {seed}: {text[:300]}")
                    if keep:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f"{seed}-{number}.onnx").write_bytes(files[number - first])
    kinds = Counter("read" if not text else text.partition(":")[0] for text in results)
    listed = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
    print(f"{count} files of seed {seed} in {time.perf_counter() - begin:.0f} s: {listed}")
    return failed


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, help="mutated files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for files that fail")
    parser.add_argument(
        "--operators", action="store_true", help="begin with the onnx package's cases as well"
    )
    given = parser.parse_args()
    sys.exit(bool(run(given.count, given.seed, given.keep, operators=given.operators)))


if __name__ == "__main__":
    main()
