"""Analyses of models: JSON, sentences, tables and pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from dlbricks_pages.html.plots import Point, bars, dots, stacked
from dlbricks_pages.html.templating import PageTable, page, page_table, render
from markupsafe import Markup
from rich.table import Table

from dlbricks_core.analysis import Work
from dlbricks_core.facts import Failure, Note
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data, text
from dlbricks_core.report.remarks import Remark
from dlbricks_core.report.tables import Console, quantity, styled, table
from dlbricks_core.wording import count
from dlbricks_study.notes import note
from dlbricks_study.repetition import Analysis, Count, ModelAnalysis, Repetition, Similarity


class ShowRepeatsData(common.ListedFailuresData):
    """Output of ``dlbricks show repeats``."""

    settings: common.ReadingData  #: How models were read.
    models: list[AnalyzedModelData]  #: In the order in which they were named.
    totals: AnalysisTotalsData  #: All models together.
    similarity: SimilarityData  #: Of every two models.
    notes: list[common.NoteData]  #: Layers that sums leave out.


class OperatorCountData(TypedDict):
    """Layers of one operator."""

    layers: int  #: All of them.
    unique: int  #: Different ones.
    repeated: int  #: Layers that are equal to an earlier one.
    share_of_repeated: float  #: Share of all repeated layers.


class RepetitionData(TypedDict):
    """How layers repeat."""

    layers: int  #: All layers.
    unique_layers: int  #: Different ones.
    unique_share: float | None  #: Their share.
    repeated_layers: int  #: Layers that are equal to an earlier one.
    operators: dict[str, OperatorCountData]  #: By operator, most repeated first.


class AnalyzedModelData(RepetitionData):
    """A model's repetition and work."""

    name: str  #: Name of the model.
    source: str  #: File or collection, as the user named it.
    flops: int  #: Floating-point operations; a multiply-add is two.
    without_flops: dict[str, int]  #: Layers without a rule for that, by operator.
    moved_bytes: int  #: Bytes that layers read and write.
    without_bytes: dict[str, int]  #: Layers of unknown size, by operator.
    weight_bytes: int  #: Bytes of the weights.
    signatures: list[str]  #: Of the layers, in order.


class AnalysisTotalsData(RepetitionData):
    """All models together."""

    flops: int  #: Floating-point operations of all layers.
    unique_flops: int  #: Floating-point operations of different layers.


class SimilarityData(TypedDict):
    """How many layers two models share."""

    measure: str  #: jaccard: shared layers over all layers of both.
    names: list[str]  #: Models, for rows and columns.
    matrix: list[list[float]]  #: From 0 (nothing in common) to 1.


def answer(analysis: Analysis) -> list[str]:
    """Sentences on the repetition in models, in layers and in operations."""
    total, models = analysis.repetition.total, analysis.models
    who = models[0].name if len(models) == 1 else count(len(models), "model")
    unique = f", {total.unique:,} of them unique ({share(total)})" if total.layers else ""
    lines = [f"{who}: {count(total.layers, 'layer')}{unique}."]
    if operations := unique_operations(analysis):
        lines.append(operations)
    return lines


def share(count: Count) -> str:
    """Share of unique layers in all layers, in percent; a hyphen if it is unknown."""
    return "-" if count.unique_share is None else f"{count.unique_share:.1%}"


def flops(work: Work) -> str:
    """A model's operations, marked where some layers have no rule."""
    return f"{'>' if work.without_flops else ''}{quantity(work.flops)}"


def all_flops(analysis: Analysis) -> str:
    """The operations of all models, marked as :func:`flops` does."""
    lacking = any(each.work.without_flops for each in analysis.models)
    return f"{'>' if lacking else ''}{quantity(analysis.operations.flops)}"


def moved(work: Work) -> str:
    """The bytes that a model's layers read and write; marked where some are unknown."""
    return f"{'>' if work.without_bytes else ''}{quantity(work.moved_bytes)}B"


def unique_operations(analysis: Analysis) -> str | None:
    """A sentence on the share of operations in unique layers."""
    operations = analysis.operations
    if operations.saving is None:
        return None
    return (
        f"Unique layers: {quantity(operations.unique)} of {all_flops(analysis)} floating-point "
        f"operations, {operations.saving:.2f} times fewer."
    )


def notes(analysis: Analysis) -> list[Note]:
    """Notes for each model on layers that its sums lack."""
    return [
        each
        for model in analysis.models
        for each in (
            note("operations-unknown", model.name, operators=dict(model.work.without_flops)),
            note("sizes-unknown", model.name, operators=dict(model.work.without_bytes)),
        )
        if each.values["operators"]
    ]


def analysis_data(
    analysis: Analysis, unread: Sequence[Failure] = (), load: LoadOptions | None = None
) -> ShowRepeatsData:
    """An analysis as the JSON object that scripts read.

    ``similarity.matrix`` has a row and a column for each of ``similarity.names``, in their
    order.
    """
    return {
        "schema_version": common.SCHEMA_VERSION,
        "settings": common.reading_data(load),
        "models": [_model_data(each) for each in analysis.models],
        "totals": {
            **_repetition_data(analysis.repetition),
            "flops": analysis.operations.flops,
            "unique_flops": analysis.operations.unique,
        },
        "similarity": {
            "measure": "jaccard",
            "names": list(analysis.similarity.names),
            "matrix": [list(row) for row in analysis.similarity.matrix],
        },
        "notes": notes_data(notes(analysis)),
        "failures": common.failures_data(unread),
    }


def _model_data(each: ModelAnalysis) -> AnalyzedModelData:
    return {
        "name": each.name,
        "source": each.cut.model.source,
        **_repetition_data(each.repetition),
        "flops": each.work.flops,
        "without_flops": dict(each.work.without_flops),
        "moved_bytes": each.work.moved_bytes,
        "without_bytes": dict(each.work.without_bytes),
        "weight_bytes": each.work.weight_bytes,
        "signatures": list(each.cut.layer_signatures),
    }


def _repetition_data(repetition: Repetition) -> RepetitionData:
    return {
        "layers": repetition.total.layers,
        "unique_layers": repetition.total.unique,
        "unique_share": repetition.total.unique_share,
        "repeated_layers": repetition.total.repeated,
        "operators": {
            name: {
                "layers": count.layers,
                "unique": count.unique,
                "repeated": count.repeated,
                "share_of_repeated": repetition.repeated_shares.get(name, 0.0),
            }
            for name, count in repetition.types.items()
        },
    }


_COLUMNS = 10  #: Models whose similarities fit into a terminal's width as a matrix.

_PAIRS = 15  #: Maximum number of pairs of models that a terminal lists.


def print_analysis(console: Console, analysis: Analysis) -> None:
    """Prints the share of repeated layers, then tables of models, operators and similarity."""
    for line in answer(analysis):
        console.print(styled((line, "bold")))
    console.print(_models(analysis))
    console.print(
        table(
            *_TYPE_COLUMNS,
            rows=_type_rows(analysis.repetition),
            caption="Repeated: layers beyond the first of their kind.",
        )
    )
    if len(analysis.models) > 1:
        console.print(_matrix(analysis.similarity))
        if len(analysis.models) > _COLUMNS:
            console.print("The whole matrix is in the JSON and the HTML report.")
    for each in notes(analysis):
        console.print(styled(("Note:", "yellow"), f" {text(each)}"))


_MODEL_COLUMNS = ("Model", "Layers", "Unique", "Share", "FLOPs", "Moved", "Weights")


def _model_rows(analysis: Analysis) -> list[list[str]]:
    rows = [
        [
            each.name,
            *_counts(each.repetition.total),
            flops(each.work),
            moved(each.work),
            f"{quantity(each.work.weight_bytes)}B",
        ]
        for each in analysis.models
    ]
    whole = ["all", *_counts(analysis.repetition.total), all_flops(analysis), "", ""]
    return [*rows, whole] if len(rows) > 1 else rows


def _counts(count: Count) -> tuple[str, str, str]:
    return f"{count.layers:,}", f"{count.unique:,}", share(count)


def _models(analysis: Analysis) -> Table:
    caption = "A multiply-add is two operations. Moved: bytes that each layer reads and writes."
    shown = table(*_MODEL_COLUMNS, rows=_model_rows(analysis), caption=caption)
    if len(analysis.models) > 1:
        shown.rows[-2].end_section = True
    return shown


_TYPE_COLUMNS = ("Operator", "Layers", "Unique", "Repeated", "Of all repeated")


def _type_rows(repetition: Repetition) -> Iterator[list[str]]:
    for name, found in repetition.types.items():
        part = repetition.repeated_shares.get(name)
        numbers = map(str, (found.layers, found.unique, found.repeated))
        yield [name, *numbers, "-" if part is None else f"{part:.1%}"]


def _matrix(similarity: Similarity) -> Table:
    caption = "Jaccard similarity of the sets of unique layers."
    if len(similarity.names) > _COLUMNS:
        rows = [(p.first, p.second, f"{p.similarity:.3f}") for p in similarity.pairs[:_PAIRS]]
        return table("Most similar", "Models", "Jaccard", rows=rows, left=2, caption=caption)
    numbers = [str(number) for number in range(1, len(similarity.names) + 1)]
    matrix = zip(numbers, similarity.names, similarity.matrix, strict=True)
    cells = [(name, number, *(f"{value:.2f}" for value in row)) for number, name, row in matrix]
    return table("Similarity", "#", *numbers, rows=cells, caption=caption)


_TYPES = 5  #: Number of operator types that a plot distinguishes; the others share one more colour.

_ROWS = 20  #: Maximum number of operator types that a plot has rows for.
_CELL, _LARGE_CELL = 15, 34  #: Sides of a heat map's cell, in pixels.
_FEW = 14  #: Maximum number of models for which the cells of a heat map have room for figures.
_LISTED_PAIRS = 30  #: Number of pairs of models that are listed where a matrix would be too large.
_CHARACTER = 7.0  #: Maximum mean width of a character, in pixels.

_STEPS = (0.0, 0.05, 0.2, 0.5, 1.0)  #: Similarities that its legend shows.


def analysis_page(analysis: Analysis, unread: Sequence[Failure] = ()) -> str:
    """An analysis as an HTML page."""
    models, several = analysis.models, len(analysis.models) > 1
    who = models[0].name if len(models) == 1 else count(len(models), "model")
    first, *more = answer(analysis)
    what = "layers, repetition and similarity" if several else "layers and repetition"
    return page(
        "repeats.html",
        package="dlbricks_study",
        title=f"{who}: {what}",
        answer=[first.removeprefix(f"{who}: "), *more],
        remarks=list(map(Remark.of, notes(analysis))),
        failures=[(each.where, each.reason) for each in unread],
        several=several,
        unique_plot=unique_plot(models),
        models=_models_table(analysis),
        flops_plot=_flops_plot(models),
        types_plot=types_plot(models, analysis.repetition),
        all_types_plot=all_types_plot(analysis.repetition),
        types=types_table(analysis.repetition),
        heat_map=heat_map(analysis.similarity) if several else None,
        similarity=similarity_table(analysis.similarity),
    )


def _models_table(analysis: Analysis) -> PageTable:
    return page_table(
        _MODEL_COLUMNS,
        _model_rows(analysis),
        "FLOPs: operations of the operators' plain definitions, a multiply-add is two. Moved: "
        "bytes that each layer reads and writes, weights included. >: some layers are missing.",
    )


def types_table(repetition: Repetition) -> PageTable:
    """Numbers of layers and of repeated layers for each operator type."""
    return page_table(_TYPE_COLUMNS, _type_rows(repetition), "Over all models.")


def similarity_table(similarity: Similarity) -> PageTable:
    """Similarity of all pairs of models, or of the most similar pairs where there are many."""
    if len(similarity.names) > _FEW:
        return page_table(
            ("Most similar", "Models", "Jaccard similarity"),
            [[p.first, p.second, f"{p.similarity:.3f}"] for p in similarity.pairs[:_LISTED_PAIRS]],
            words=["Models"],
        )
    numbers = range(1, len(similarity.names) + 1)
    return page_table(
        ["Model", *map(str, numbers)],
        [
            [f"{number}\N{NO-BREAK SPACE}{name}", *(f"{value:.3f}" for value in row)]
            for number, name, row in zip(numbers, similarity.names, similarity.matrix, strict=True)
        ],
        "Columns have the numbers of rows.",
    )


class _Repeating(Protocol):
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
            "heatmap.svg",
            "dlbricks_study",
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
