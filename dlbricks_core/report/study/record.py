"""Studies read from JSON. The page and the tables of a study need only its JSON object."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dlbricks_core.analysis import Count, Repetition, Similarity
from dlbricks_core.errors import DLBricksError
from dlbricks_core.report.study.ways import Span, named
from dlbricks_core.workflows import LoadOptions

_LARGEST = 512 << 20
"""Maximum bytes of an unpacked file of studies."""


@dataclass(frozen=True)
class ModelRecord:
    """A model of a study.

    Attributes:
        name: What the user calls it.
        source: Where it came from, such as ``paper:1``.
        repetition: Its layers.
        measured_ms: Latency of the whole model in milliseconds; ``None`` if it was not measured.
        interval_ms: 90% interval of the latency in milliseconds.
        runs: Number of samples that the latency rests on.
    """

    name: str
    source: str
    repetition: Repetition
    measured_ms: float | None
    interval_ms: tuple[float, float] | None
    runs: int


@dataclass(frozen=True)
class WayRecord:
    """One way of cutting and composing.

    Attributes:
        label: Name in tables.
        own: Whether the composer is DLBricks' own, not the paper's.
        data: JSON object with ``composer``, ``granularity``, ``mape`` and so on.
    """

    label: str
    own: bool
    data: Mapping[str, Any]

    @property
    def composer(self) -> str:
        """Name of the composer."""
        return str(self.data["composer"])

    @property
    def granularity(self) -> int:
        """Maximum number of layers in a brick."""
        return int(self.data["granularity"])

    @property
    def models(self) -> Sequence[Mapping[str, Any]]:
        """Models with a complete estimate and a measured latency."""
        found: Sequence[Mapping[str, Any]] = self.data["models"]
        return found

    @property
    def speedups(self) -> Mapping[str, Mapping[str, float] | None]:
        """Benchmarking speedups by definition."""
        found: Mapping[str, Mapping[str, float] | None] = self.data["speedup"]
        return found

    def of(self, model: ModelRecord) -> Mapping[str, Any] | None:
        """Figures of a model in this way; ``None`` if the way has none."""
        return self._by_model.get((model.name, model.source))

    @cached_property
    def _by_model(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        return {(each["name"], each["source"]): each for each in self.models}


@dataclass(frozen=True)
class StudyRecord:
    """A study, read from its JSON object.

    Attributes:
        data: Object that ``study.json`` holds.
    """

    data: Mapping[str, Any]

    @cached_property
    def models(self) -> Sequence[ModelRecord]:
        """All models, in the order in which they were named."""
        return [
            ModelRecord(
                each["name"],
                each["source"],
                _repetition(each),
                each["measured_ms"],
                each["measured_interval_ms"],
                len(each["measured_samples_ms"]),
            )
            for each in self.data["models"]
        ]

    @cached_property
    def repetition(self) -> Repetition:
        """Layers of all models together."""
        return _repetition(self.data["totals"])

    @cached_property
    def similarity(self) -> Similarity:
        """Similarity of all pairs of models."""
        found = self.data["similarity"]
        return Similarity(tuple(found["names"]), tuple(map(tuple, found["matrix"])))

    @cached_property
    def ways(self) -> Sequence[WayRecord]:
        """The paper's way by granularity, then DLBricks' own composers."""
        return [WayRecord(*named(each["composer"], each["granularity"]), each)
                for each in self.data["evaluations"]]  # fmt: skip

    @property
    def of_paper(self) -> Sequence[WayRecord]:
        """The paper's way, by granularity."""
        return [way for way in self.ways if not way.own]

    @property
    def own(self) -> Sequence[WayRecord]:
        """DLBricks' own composers."""
        return [way for way in self.ways if way.own]

    @property
    def finest(self) -> WayRecord:
        """The paper's way at the smallest granularity: usually layer by layer."""
        return min(self.of_paper, key=lambda way: way.granularity)

    @property
    def span(self) -> Span | None:
        """Time in which the samples were taken; ``None`` if there are no samples."""
        found = self.data["measured"]
        if not found["begin"]:
            return None
        begin, end = (datetime.fromisoformat(found[name]) for name in ("begin", "end"))
        return Span(begin, end, found["sessions"])

    @property
    def load(self) -> LoadOptions | None:
        """Options with which the models were read; ``None`` if unknown."""
        found = self.data["settings"]
        if found["batch"] is None:
            return None
        shapes = {name: tuple(sizes) for name, sizes in found["shapes"].items()}
        return LoadOptions(
            batch=found["batch"],
            dims=found["dims"],
            shapes=shapes,
            fold_batchnorm=found["fold_batchnorm"],
            values=found["values"],
            dtype=found.get("dtype"),
        )

    @property
    def bricks(self) -> Iterator[Mapping[str, Any]]:
        """Unique bricks of each way, with the latencies that estimates and speedups rest on."""
        return iter(self.data["bricks"])

    def published(self, figure: int) -> list[Mapping[str, Any]]:
        """Numbers published for one of the paper's figures, with ours; empty for other models."""
        found = self.data["published"]
        return [each for each in found["figures"] if each["figure"] == figure] if found else []


def _repetition(data: Mapping[str, Any]) -> Repetition:
    types = {
        name: Count(count["layers"], count["unique"]) for name, count in data["operators"].items()
    }
    return Repetition(Count(data["layers"], data["unique_layers"]), types)


def read_studies(path: Path) -> list[StudyRecord]:
    """Reads studies from a file: a ``study.json``, or one study per line; ``.xz`` is unpacked.

    Raises:
        DLBricksError: If the file cannot be read or does not hold studies.
    """
    hint = "Name a study.json, or a file that holds one such object a line."
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DLBricksError(f"{path} cannot be read: {error}", hint=hint) from error
    if len(content) > _LARGEST:
        raise DLBricksError(f"{path} holds more than {_LARGEST >> 20} MiB", hint=hint)
    try:
        found = [StudyRecord(data) for data in _objects(content.decode())]
    except ValueError as error:
        raise DLBricksError(f"{path} is not JSON: {error}", hint=hint) from error
    for record in found:
        if lacking := {"evaluations", "bricks", "published"}.difference(record.data):
            raise DLBricksError(f"{path} holds no study: {min(lacking)} is missing", hint=hint)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects that follow each other."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        data, end = decoder.raw_decode(text)
        if not isinstance(data, dict):
            raise ValueError("an object is expected")  # noqa: TRY004 - told like other bad JSON
        yield data
        text = text[end:]
