"""An analysis of models as tables for a terminal of 80 columns."""

from __future__ import annotations

from rich.table import Table

from dlbricks_core.analysis import Analysis, Repetition, Similarity
from dlbricks_core.report.analysis.words import all_flops, answer, flops, moved, notes, share
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.tables import quantity, table

_COLUMNS = 10
"""Models whose similarities fit into a terminal's width as a matrix."""

_PAIRS = 15


def print_analysis(console: Console, analysis: Analysis) -> None:
    """Prints the share of repeated layers, then tables of models, operators and similarity."""
    for line in answer(analysis):
        console.print(styled((line, "bold")))
    console.print(_models(analysis))
    console.print(_types(analysis.repetition))
    if len(analysis.models) > 1:
        console.print(_matrix(analysis.similarity))
        if len(analysis.models) > _COLUMNS:
            console.print("The whole matrix is in the JSON and the HTML report.")
    for note in notes(analysis):
        console.print(styled(("Note:", "yellow"), f" {note}"))


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
        shown.add_row("all", f"{count.layers:,}", f"{count.unique:,}", share(count),
                      all_flops(analysis), "", "")  # fmt: skip
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
