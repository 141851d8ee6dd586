"""Figures that the DLBricks paper published about its own 50 networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlbricks_core.importers import Publication, PublishedFigure

_SYSTEM = "c5.2xlarge, G=1"

#: Granularities whose geometric means the paper names together.
_CLOSE = (3, 5, 9, 10)

_Study = Mapping[str, Any]
_Way = Mapping[str, Any]


def _at(study: _Study, granularity: int, composer: str = "sequential") -> _Way | None:
    """Figures of one composer, usually the paper's, at one granularity."""
    return next(
        (
            way
            for way in study["evaluations"]
            if (way["composer"], way["granularity"]) == (composer, granularity)
        ),
        None,
    )


def _at_one(figure: Callable[[_Way], float | None]) -> Callable[[_Study], float | None]:
    """A figure of the paper's composer, layer by layer."""

    def ours(study: _Study) -> float | None:
        way = _at(study, 1)
        return None if way is None else figure(way)

    return ours


def _distance(way: _Way) -> float | None:
    mean = way["geometric_mean"]
    return None if mean is None else abs(mean - 1)


def _farthest(study: _Study) -> float | None:
    """Largest distance of the geometric means from 1 at some granularities."""
    ways = [way for granularity in _CLOSE if (way := _at(study, granularity))]
    known = [distance for way in ways if (distance := _distance(way)) is not None]
    return max(known) if len(known) == len(_CLOSE) else None


def _speedup(way: _Way) -> float | None:
    found = way["speedup"]["paper"]
    return found["speedup"] if found else None


def _lowest(way: _Way) -> float | None:
    return min((model["normalized"] for model in way["models"]), default=None)


def _highest(way: _Way) -> float | None:
    return max((model["normalized"] for model in way["models"]), default=None)


PUBLISHED = Publication(
    source="Li, Dakkak, Xiong, Hwu: DLBricks: Composable Benchmark Generation to Reduce Deep "
    "Learning Benchmarking Effort on CPUs, ICPE 2020",
    models=50,
    figures=(
        PublishedFigure(5, "layers of all models", "", 10815, "10,815",
                        lambda study: study["totals"]["layers"], ",.0f"),
        PublishedFigure(5, "unique layers over all models", "", 1529, "1,529",
                        lambda study: study["totals"]["unique_layers"], ",.0f"),
        PublishedFigure(5, "unique layers in % of all layers", "", 0.14, "14%",
                        lambda study: study["totals"]["unique_share"], ".1%"),
        PublishedFigure(10, "lowest normalized latency", _SYSTEM, 0.829, "82.9%",
                        _at_one(_lowest), ".1%"),
        PublishedFigure(10, "highest normalized latency", _SYSTEM, 0.981, "98.1%",
                        _at_one(_highest), ".1%"),
        PublishedFigure(11, "geometric mean of the normalized latencies", _SYSTEM, 0.918, "91.8%",
                        _at_one(lambda way: way["geometric_mean"]), ".1%"),
        PublishedFigure(11, "mean absolute error of the models, in the same data", _SYSTEM, 0.081,
                        "8.1%", _at_one(lambda way: way["mape"]), ".1%"),
        PublishedFigure(11, "models within ±10%, in the same data", _SYSTEM, 0.66, "66%",
                        _at_one(lambda way: way["within_10_percent"]), ".0%"),
        PublishedFigure(11, "distance of the geometric mean from 1", "four systems, G=1", 0.11,
                        "at most 11%", _at_one(_distance), ".1%"),
        PublishedFigure(11, "largest distance of the geometric mean from 1", "G=3, 5, 9 and 10",
                        0.05, "at most 5%", _farthest, ".1%"),
        PublishedFigure(12, "benchmarking speedup by the paper's definition", "c5.xlarge, G=1",
                        4.4, "up to 4.4", _at_one(_speedup), ".2f"),
    ),
)  # fmt: skip
