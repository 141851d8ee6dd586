"""An analysis of models as a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup

from dlbricks_core.analysis import Analysis, ModelAnalysis, Repetition, Similarity
from dlbricks_core.facts import Failure
from dlbricks_core.report import heading
from dlbricks_core.report.analysis import words
from dlbricks_core.report.html.plots import Point, bars, dots, stacked
from dlbricks_core.report.html.tables import Column, Table, table
from dlbricks_core.report.html.templating import page, render
from dlbricks_core.report.remarks import Effect, Remark
from dlbricks_core.report.tables import quantity

_TYPES = 5
"""Number of operator types that a plot distinguishes; the others share one more colour."""

_ROWS = 20
_CELL, _LARGE_CELL = 15, 34
_FEW = 14
"""Maximum number of models for which the cells of a heat map have room for figures."""

_PAIRS = 30
"""Number of pairs of models that are listed where a matrix would be too large."""

_CHARACTER = 7.0
"""Maximum mean width of a character, in pixels."""

_STEPS = (0.0, 0.05, 0.2, 0.5, 1.0)


def analysis_page(analysis: Analysis, unread: Sequence[Failure] = ()) -> str:
    """An analysis as an HTML page.

    Args:
        analysis: The analysis.
        unread: Models that could not be loaded.
    """
    models, several = analysis.models, len(analysis.models) > 1
    who = models[0].name if len(models) == 1 else heading.count(len(models), "model")
    first, *more = words.answer(analysis)
    what = "layers, repetition and similarity" if several else "layers and repetition"
    return page(
        "analysis/page.html",
        title=f"{who}: {what}",
        answer=[first.removeprefix(f"{who}: "), *more],
        remarks=[Remark(Effect.NOTE, text) for text in words.notes(analysis)],
        failures=[(each.where, each.reason) for each in unread],
        several=several,
        unique_plot=unique_plot(models),
        models=_models(analysis),
        flops_plot=_flops_plot(models),
        types_plot=types_plot(models, analysis.repetition),
        all_types_plot=all_types_plot(analysis.repetition),
        types=types_table(analysis.repetition),
        heat_map=heat_map(analysis.similarity) if several else None,
        similarity=similarity_table(analysis.similarity),
    )


def _models(analysis: Analysis) -> Table:
    rows = [
        [
            each.name,
            f"{count.layers:,}",
            f"{count.unique:,}",
            words.share(count),
            words.flops(each.work),
            words.moved(each.work),
            f"{quantity(each.work.weight_bytes)}B",
        ]
        for each in analysis.models
        for count in [each.repetition.total]
    ]
    if len(analysis.models) > 1:
        total = analysis.repetition.total
        rows.append(["all", f"{total.layers:,}", f"{total.unique:,}", words.share(total),
                     words.all_flops(analysis), "", ""])  # fmt: skip
    return table(
        ["Model", "Layers", "Unique", "Share", "FLOPs", "Moved", "Weights"],
        rows,
        "FLOPs: operations of the operators' plain definitions, a multiply-add is two. Moved: "
        "bytes that each layer reads and writes, weights included. >: some layers are missing.",
    )


def types_table(repetition: Repetition) -> Table:
    """Numbers of layers and of repeated layers for each operator type."""
    return table(
        ["Operator", "Layers", "Unique", "Repeated", "% of all repeated"],
        [
            [
                name,
                str(count.layers),
                str(count.unique),
                str(count.repeated),
                f"{100 * repetition.repeated_shares.get(name, 0):.1f}",
            ]
            for name, count in repetition.types.items()
        ],
        "Over all models.",
    )


def similarity_table(similarity: Similarity) -> Table:
    """Similarity of all pairs of models, or of the most similar pairs where there are many."""
    if len(similarity.names) > _FEW:
        return table(
            ["Most similar", Column("Models", is_text=True), "Jaccard similarity"],
            [[p.first, p.second, f"{p.similarity:.3f}"] for p in similarity.pairs[:_PAIRS]],
        )
    numbers = range(1, len(similarity.names) + 1)
    return table(
        ["Model", *map(str, numbers)],
        [
            [f"{number}\N{NO-BREAK SPACE}{name}", *(f"{value:.3f}" for value in row)]
            for number, name, row in zip(numbers, similarity.names, similarity.matrix, strict=True)
        ],
        "Columns have the numbers of rows.",
    )


class _Repeating(Protocol):
    """A model whose layers were counted."""

    @property
    def name(self) -> str: ...

    @property
    def repetition(self) -> Repetition: ...


def unique_plot(models: Sequence[_Repeating]) -> Markup | None:
    """Share of unique layers in each model."""
    shown = [(m.name, s) for m in models if (s := m.repetition.total.unique_share) is not None]
    if not shown:
        return None
    return bars(
        "unique",
        [name for name, _ in shown],
        {"unique": [Point(100 * value) for _, value in shown]},
        "unique layers in % of the model's layers",
        "Share of unique layers in each model",
    )


def types_plot(models: Sequence[_Repeating], repetition: Repetition) -> Markup | None:
    """Operator types of each model's repeated layers."""
    shown = [each for each in models if each.repetition.total.repeated]
    if not shown:
        return None
    first = [n for n, c in repetition.types.items() if c.repeated][:_TYPES]
    shares = [each.repetition.repeated_shares for each in shown]
    series = {name: [100 * s.get(name, 0.0) for s in shares] for name in first}
    rest = [100 * sum(part for name, part in s.items() if name not in first) for s in shares]
    if any(rest):
        series["others"] = rest
    return stacked(
        "types",
        [each.name for each in shown],
        series,
        "% of the model's repeated layers",
        "Operator types of each model's repeated layers",
    )


def all_types_plot(repetition: Repetition) -> Markup | None:
    """Operator types of the repeated layers over all models."""
    shown = list(repetition.repeated_shares.items())[:_ROWS]
    if not shown:
        return None
    return bars(
        "all-types",
        [name for name, _ in shown],
        {"share": [Point(100 * part) for _, part in shown]},
        "% of the repeated layers of all models",
        "Operator types of the repeated layers over all models",
    )


def _flops_plot(models: Sequence[ModelAnalysis]) -> Markup | None:
    shown = [each for each in models if each.work.flops and not each.work.without_flops]
    if not shown:
        return None
    return dots(
        "flops",
        [each.name for each in shown],
        {"operations": [Point(each.work.flops / 1e9) for each in shown]},
        "floating-point operations in units of 10⁹",
        "Floating-point operations of each model",
    )


@dataclass(frozen=True)
class _Cell:
    """A square of a heat map; the fuller, the more similar."""

    x: float
    y: float
    value: float
    title: str = ""

    @property
    def fill(self) -> str:
        """Opacity: the square root of the similarity, because most models have little in common."""
        return f"{math.sqrt(self.value):.3f}".rstrip("0").rstrip(".")

    @property
    def figure(self) -> str:
        """The value in a few characters."""
        if self.value in (0, 1):
            return f"{self.value:.0f}"
        return "<.01" if self.value < 0.005 else f"{self.value:.2f}"[-3:]


def heat_map(similarity: Similarity) -> Markup:
    """Similarity of all pairs of models, as squares."""
    names = similarity.names
    size = _LARGE_CELL if len(names) <= _FEW else _CELL
    margin = 3 * _CHARACTER + _CHARACTER * max(map(len, names))
    cells = [
        _Cell(margin + j * size, 22 + i * size, value, f"{names[i]}, {names[j]}: {value:.3f}")
        for i, row in enumerate(similarity.matrix)
        for j, value in enumerate(row)
    ]
    legend_y = 22 + size * len(names) + 18
    steps = [_Cell(margin + 52 * i, legend_y, value) for i, value in enumerate(_STEPS)]
    return Markup(
        render(
            "html/heatmap.svg",
            names=names,
            cells=cells,
            steps=steps,
            size=size,
            margin=margin,
            figures=len(names) <= _FEW,
            width=max(margin + size * len(names), margin + 52 * len(_STEPS)) + 4,
            height=legend_y + 20,
        )
    )
