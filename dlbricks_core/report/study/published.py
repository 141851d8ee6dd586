"""What the paper published about its own 50 models, to stand beside our figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlbricks_core.report.evaluation.terminal import TOLERANCES
from dlbricks_core.workflows import TILED_COMPOSER, Evaluation, Study

PAPER = (
    "Li, Dakkak, Xiong, Hwu: DLBricks: Composable Benchmark Generation to Reduce Deep Learning "
    "Benchmarking Effort on CPUs, ICPE 2020"
)

MODELS = 50
"""That the paper studied."""

_COLLECTION = "paper:"
_CLOSE = (3, 5, 9, 10)
"""Granularities whose geometric means the paper names together."""

_SYSTEM = "c5.2xlarge, G=1"


@dataclass(frozen=True)
class Published:
    """One of the paper's figures.

    Attributes:
        figure: Number of the plot that it belongs to.
        what: That it says.
        where: On which system and at which granularity; empty if it depends on neither.
        value: Of the paper; a fraction where ``text`` shows a percentage.
        text: The value as the paper words it.
        ours: The same of a study, ``None`` where the study does not tell.
        style: How to format a value.
    """

    figure: int
    what: str
    where: str
    value: float
    text: str
    ours: Callable[[Study], float | None]
    style: str

    def ours_text(self, study: Study) -> str:
        """Our value, for people."""
        value = self.ours(study)
        return "–" if value is None else format(value, self.style)


def comparable(study: Study) -> bool:
    """Whether all of the models are the paper's."""
    models = study.analysis.models
    return bool(models) and all(m.cut.model.source.startswith(_COLLECTION) for m in models)


def _at_one(figure: Callable[[Evaluation], float | None]) -> Callable[[Study], float | None]:
    """A figure of the paper's composer, layer by layer."""

    def ours(study: Study) -> float | None:
        way = study.by_granularity.get(1)
        return None if way is None else figure(way)

    return ours


def _farthest(study: Study) -> float | None:
    """The largest distance from 1 of the geometric means at some granularities."""
    found = [study.by_granularity.get(granularity) for granularity in _CLOSE]
    means = [way.geometric_mean for way in found if way is not None]
    known = [abs(mean - 1) for mean in means if mean is not None]
    return max(known) if len(known) == len(_CLOSE) else None


def _distance(way: Evaluation) -> float | None:
    mean = way.geometric_mean
    return None if mean is None else abs(mean - 1)


def _speedup(way: Evaluation) -> float | None:
    return way.speedups.paper.speedup if way.speedups.paper else None


def _tiled_speedup(study: Study) -> float | None:
    """Layer by layer too, where large layers are timed on a few of their rows."""
    return _speedup(study.by_composer[TILED_COMPOSER])


def _lowest(way: Evaluation) -> float | None:
    return min((model.normalized for model in way.models), default=None)


def _highest(way: Evaluation) -> float | None:
    return max((model.normalized for model in way.models), default=None)


PUBLISHED = (
    Published(5, "layers of all models", "", 10815, "10,815",
              lambda study: study.analysis.repetition.total.layers, ",.0f"),
    Published(5, "unique layers over all models", "", 1529, "1,529",
              lambda study: study.analysis.repetition.total.unique, ",.0f"),
    Published(5, "unique layers in % of all layers", "", 0.14, "14%",
              lambda study: study.analysis.repetition.total.unique_share, ".1%"),
    Published(10, "lowest normalized latency", _SYSTEM, 0.829, "82.9%", _at_one(_lowest), ".1%"),
    Published(10, "highest normalized latency", _SYSTEM, 0.981, "98.1%", _at_one(_highest), ".1%"),
    Published(11, "geometric mean of the normalized latencies", _SYSTEM, 0.918, "91.8%",
              _at_one(lambda way: way.geometric_mean), ".1%"),
    Published(11, "mean absolute error of the models, in the same data", _SYSTEM, 0.081, "8.1%",
              _at_one(lambda way: way.mape), ".1%"),
    Published(11, "models within ±10%, in the same data", _SYSTEM, 0.66, "66%",
              _at_one(lambda way: way.within(TOLERANCES[1])), ".0%"),
    Published(11, "distance of the geometric mean from 1", "four systems, G=1", 0.11,
              "at most 11%", _at_one(_distance), ".1%"),
    Published(11, "largest distance of the geometric mean from 1", "G=3, 5, 9 and 10", 0.05,
              "at most 5%", _farthest, ".1%"),
    Published(12, "benchmarking speedup by the paper's definition", "c5.xlarge, G=1", 4.4,
              "up to 4.4", _at_one(_speedup), ".2f"),
    Published(12, "the same, with large layers timed on tiles", "c5.xlarge, G=1", 4.4,
              "up to 4.4", _tiled_speedup, ".2f"),
)  # fmt: skip


def published(study: Study, figure: int) -> list[Published]:
    """What there is to compare in one figure; nothing where the models are others."""
    return [each for each in PUBLISHED if each.figure == figure] if comparable(study) else []
