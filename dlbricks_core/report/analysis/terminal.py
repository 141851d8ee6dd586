"""An analysis of models as tables and as plain data."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from dlbricks_core.analysis import Analysis, Count, ModelAnalysis, Repetition, Similarity, Work
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.tables import quantity, table

_COLUMNS = 10
"""Models whose similarities fit into a terminal's width as a matrix."""

_PAIRS = 15


def print_analysis(console: Console, analysis: Analysis) -> None:
    """Tables and remarks for a terminal of 80 columns."""
    console.print(_models(analysis))
    if operations := unique_operations(analysis):
        console.print(operations)
    console.print(_types(analysis.repetition))
    if len(analysis.models) > 1:
        console.print(_matrix(analysis.similarity))
        if len(analysis.models) > _COLUMNS:
            console.print("The whole matrix is in the JSON and the HTML report.")
    for note in notes(analysis):
        console.print(styled(("Note:", "yellow"), f" {note}"))


def share(count: Count) -> str:
    """Unique layers in percent of all layers."""
    return "-" if count.unique_share is None else f"{count.unique_share:.1%}"


def flops(work: Work) -> str:
    """A model's operations; marked where some layers have no rule."""
    return f"{'>' if work.without_flops else ''}{quantity(work.flops)}"


def all_flops(analysis: Analysis) -> str:
    """The operations of all models, marked as :func:`flops` does."""
    lacking = any(each.work.without_flops for each in analysis.models)
    return f"{'>' if lacking else ''}{quantity(analysis.operations.flops)}"


def moved(work: Work) -> str:
    """The bytes that a model's layers read and write; marked where some are unknown."""
    return f"{'>' if work.without_bytes else ''}{quantity(work.moved_bytes)}B"


def unique_operations(analysis: Analysis) -> str | None:
    """How many of the operations are in unique layers, in a sentence."""
    operations = analysis.operations
    if operations.saving is None:
        return None
    return (
        f"Unique layers: {quantity(operations.unique)} of {all_flops(analysis)} floating-point "
        f"operations, {operations.saving:.2f} times fewer."
    )


def notes(analysis: Analysis) -> list[str]:
    """What the sums lack, for each model."""
    return [
        f"{each.name}: no {what} for {', '.join(f'{op} ({n})' for op, n in missing.items())}; "
        "its sum leaves them out"
        for each in analysis.models
        for what, missing in (
            ("rule for the operations", each.work.without_flops),
            ("known size", each.work.without_bytes),
        )
        if missing
    ]


def _models(analysis: Analysis) -> Table:
    shown = table("Model", "Layers", "Unique", "Share", "FLOPs", "Moved", "Weights")
    for each in analysis.models:
        count, work = each.repetition.total, each.work
        shown.add_row(
            each.name,
            str(count.layers),
            str(count.unique),
            share(count),
            flops(work),
            moved(work),
            f"{quantity(work.weight_bytes)}B",
        )
    if len(analysis.models) > 1:
        count = analysis.repetition.total
        shown.add_section()
        operations = all_flops(analysis)
        shown.add_row("all", str(count.layers), str(count.unique), share(count), operations, "", "")
    shown.caption = "A multiply-add is two operations. Moved: what each layer reads and writes."
    shown.caption_justify = "left"
    return shown


def _types(repetition: Repetition) -> Table:
    shown = table("Operator", "Layers", "Unique", "Repeated", "Of all repeated")
    for name, count in repetition.types.items():
        part = repetition.repeated_shares.get(name)
        shown.add_row(
            name,
            str(count.layers),
            str(count.unique),
            str(count.repeated),
            "-" if part is None else f"{part:.1%}",
        )
    shown.caption = "Repeated: layers beyond the first of their kind."
    shown.caption_justify = "left"
    return shown


def _matrix(similarity: Similarity) -> Table:
    if len(similarity.names) > _COLUMNS:
        shown = table("Most similar", "Models", "Jaccard", left=2)
        for pair in similarity.pairs[:_PAIRS]:
            shown.add_row(pair.first, pair.second, f"{pair.similarity:.3f}")
    else:
        numbers = [str(number) for number in range(1, len(similarity.names) + 1)]
        shown = table("Similarity", "#", *numbers)
        for number, name, row in zip(numbers, similarity.names, similarity.matrix, strict=True):
            shown.add_row(name, number, *(f"{value:.2f}" for value in row))
    shown.caption = "Jaccard similarity of the sets of unique layers."
    shown.caption_justify = "left"
    return shown


def analysis_data(analysis: Analysis) -> dict[str, Any]:
    """The same as the JSON object that scripts read.

    ``similarity.matrix`` has a row and a column for each of ``similarity.names``, in their
    order.
    """
    return {
        "schema_version": SCHEMA_VERSION,
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
        "notes": notes(analysis),
    }


def _model_data(each: ModelAnalysis) -> dict[str, Any]:
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


def _repetition_data(repetition: Repetition) -> dict[str, Any]:
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
