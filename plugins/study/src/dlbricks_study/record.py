"""Studies: figures by way of cutting and composing, and their files."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dlbricks_accuracy.evaluation import Evaluation

from dlbricks_core.compose.options import PAPER_COMPOSER
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import Benchmarking
from dlbricks_core.facts import Failure, Note
from dlbricks_core.figures.statistics import is_short, scatters
from dlbricks_core.files import opened
from dlbricks_core.importers import LoadOptions
from dlbricks_core.limits import Limit, LimitError, check_values
from dlbricks_core.passes.options import input_value
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_study.experiments import Study
from dlbricks_study.notes import note
from dlbricks_study.repetition import Count, Repetition, Similarity

STUDIES = Limit("DLBRICKS_MOST_STUDIES_MIB", 512, "MiB")
"""Text of a file of studies, after it is decompressed."""


def ways(study: Study) -> list[Evaluation]:
    """Evaluations of all ways: the paper's by granularity, then DLBricks' own composers."""
    return [*study.by_granularity.values(), *study.by_composer.values()]


def label(way: Evaluation) -> str:
    """Name of a way in tables: ``G=3``, or the composer's name."""
    options = way.result.cut_options
    return named(options.composer, options.granularity)[0]


def named(composer: str, granularity: int) -> tuple[str, bool]:
    """A way's label, and whether it is a composer of DLBricks' own."""
    own = composer != PAPER_COMPOSER
    return (composer if own else f"G={granularity}"), own


def definitions(way: Evaluation) -> dict[str, Benchmarking | None]:
    """Benchmarking speedups of a way by definition; ``None`` if one is not known."""
    found = {"paper": way.speedups.paper, "wall_clock": way.speedups.wall_clock}
    return {name: each if each and each.bricks_s else None for name, each in found.items()}


@dataclass(frozen=True)
class LeftOutModel:
    """A model that is not in the figures of some ways."""

    name: str  #: Name of the model.
    ways: Sequence[str]  #: Labels of the ways.
    reason: str  #: Why the first of the ways lacks the model.


def left_out_models(study: Study) -> list[LeftOutModel]:
    """Distinct models that the figures of some ways lack."""
    found: dict[str, list[tuple[str, str]]] = {}
    for way in ways(study):
        for each in way.left_out:
            found.setdefault(each.subject, []).append((label(way), each.reason))
    return [
        LeftOutModel(name, list(dict.fromkeys(where for where, _ in places)), places[0][1])
        for name, places in found.items()
    ]


def failures(study: Study) -> list[Failure]:
    """Distinct failures of all ways."""
    found = [f for way in ways(study) for f in way.result.failures]
    return list(dict.fromkeys([*study.unread, *found]))


def complete(study: Study) -> bool:
    """Whether every model is in the figures of every way."""
    return not (left_out_models(study) or failures(study))


def remarks(study: Study) -> list[Note]:
    """Remarks on the figures, the worst first."""
    ledger = study.default.result.ledger
    return [*ledger.warnings, *_apart(study), *_of_samples(study), *ledger.notes]


def _of_samples(study: Study) -> list[Note]:
    """Notes on bricks whose samples scatter or are short."""
    samples = {
        each.brick.signature: each.latency.samples
        for way in ways(study)
        for each in way.result.bricks
        if each.latency and each.latency.samples and not each.derived_from
    }
    scattered = sum(map(scatters, samples.values()))
    short = sum(map(is_short, samples.values()))
    found = []
    if scattered:
        found.append(note("samples-scatter", bricks=scattered, of_bricks=len(samples)))
    if short:
        found.append(note("bricks-below-1-ms", bricks=short, of_bricks=len(samples)))
    return found


def _apart(study: Study) -> list[Note]:
    """Notes on models whose errors may include drift of the machine."""
    every = {each.name for way in ways(study) for each in way.models}
    names = {each.name for way in ways(study) for each in way.models if not each.same_rounds}
    if not names:
        return []
    return [note("models-in-other-rounds", models=len(names), of_models=len(every))]


@dataclass(frozen=True)
class SamplingSpan:
    """Time in which the samples of a study were taken."""

    begin: datetime  #: Time of the first sample, with time zone.
    end: datetime  #: Time of the last sample, with time zone.
    sessions: int  #: Number of sessions that took samples.

    @classmethod
    def of(cls, study: Study) -> SamplingSpan | None:
        """Time span of a study; ``None`` if it has no samples."""
        taken = [
            samples
            for way in ways(study)
            for measurement in way.result.ledger.measurements.values()
            for samples in measurement.observations
        ]
        if not taken:
            return None
        times = [each.taken_at.astimezone(UTC) for each in taken]
        return cls(min(times), max(times), len({each.session for each in taken}))

    def __str__(self) -> str:
        begin, end = (f"{time:%Y-%m-%d %H:%M} UTC" for time in (self.begin, self.end))
        return f"{begin} to {end}" if begin != end else begin


@dataclass(frozen=True)
class ModelRecord:
    """A model of a study."""

    name: str  #: Name by the user.
    source: str  #: Where it came from, such as ``paper:1``.
    repetition: Repetition  #: Its layers.
    #: Latency of the whole model in milliseconds; ``None`` if it was not measured.
    measured_ms: float | None
    interval_ms: tuple[float, float] | None  #: 90% interval of the latency in milliseconds.
    runs: int  #: Number of samples that the latency rests on.


@dataclass(frozen=True)
class WayRecord:
    """One way of cutting and composing."""

    label: str  #: Name in tables.
    own: bool  #: Whether the composer is DLBricks' own, not the paper's.
    data: Mapping[str, Any]  #: JSON object with ``composer``, ``granularity``, ``mape`` and so on.

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
    """A study, read from its JSON object."""

    data: Mapping[str, Any]  #: Object that ``study.json`` holds.

    @cached_property
    def models(self) -> Sequence[ModelRecord]:
        """All models, in the order in which they were named."""
        return [
            ModelRecord(
                each["name"],
                each["source"],
                _repetition(each),
                each["measured"],
                each["measured_interval"],
                len(each["measured_samples"]),
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
    def span(self) -> SamplingSpan | None:
        """Time in which the samples were taken; ``None`` if there are no samples."""
        found = self.data["measured"]
        if not found["begin"]:
            return None
        begin, end = (datetime.fromisoformat(found[name]) for name in ("begin", "end"))
        return SamplingSpan(begin, end, found["sessions"])

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
            values={name: input_value(value) for name, value in found["values"].items()},
            dtype=found.get("dtype"),
            outputs=tuple(found.get("outputs") or ()),
            form=found.get("form") or "",
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
        with opened(path) as raw, lzma.open(raw) if path.suffix == ".xz" else raw as file:
            content = file.read(STUDIES.most * 2**20 + 1)
    except (OSError, EOFError, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise DLBricksError(f"{path} cannot be read: {why}", hint=hint) from error
    if len(content) > STUDIES.most * 2**20:
        raise DLBricksError(f"{path} holds {STUDIES.words}", hint=STUDIES.hint)
    try:
        found = [StudyRecord(data) for data in _objects(content.decode())]
    except LimitError as error:
        raise DLBricksError(f"{path} holds {error}", hint=error.limit.hint) from error
    except RecursionError as error:
        raise DLBricksError(f"{path} is nested too deeply", hint=hint) from error
    except ValueError as error:
        raise DLBricksError(f"{path} is not JSON: {error}", hint=hint) from error
    for record in found:
        if lacking := {"evaluations", "bricks", "published"}.difference(record.data):
            raise DLBricksError(f"{path} holds no study: {min(lacking)} is missing", hint=hint)
        if (version := record.data.get("schema_version")) != SCHEMA_VERSION:
            raise DLBricksError(
                f"{path} holds a study of version {version!r:.20}; this DLBricks reads version "
                f"{SCHEMA_VERSION}",
                hint="Use the DLBricks that wrote it, or make the study again.",
            )
    return found


_NOT_BLANK = re.compile(r"\S")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects that follow each other."""
    check_values(text)
    decoder = json.JSONDecoder()
    end = 0
    while found := _NOT_BLANK.search(text, end):
        data, end = decoder.raw_decode(text, found.start())
        if not isinstance(data, dict):
            raise ValueError("an object is expected")  # noqa: TRY004 - told like other bad JSON
        yield data
