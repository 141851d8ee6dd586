"""A run or an estimate as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from dlbricks_core.bricks.naming import names, sequence_names
from dlbricks_core.compose import Estimate
from dlbricks_core.report import heading
from dlbricks_core.report.html.plots import Point, around_one, bars
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash, page, run_facts
from dlbricks_core.report.remarks import alike, doubts, run_remarks
from dlbricks_core.report.run.words import (
    answer,
    dial,
    layers,
    origins,
    peak,
    probed,
    speedups,
    unfit,
)
from dlbricks_core.report.sizes.page import depths_table, sizes_plot, sizes_table
from dlbricks_core.report.weights import weight
from dlbricks_core.workflows import BrickResult, LoadOptions, ModelResult, RunResult

_ROWS = 20
"""Maximum bars or rows of dots in a plot; tables show all rows."""


def run_page(result: RunResult, load: LoadOptions | None = None) -> str:
    """A run or an estimate as an HTML page.

    Args:
        result: The run.
        load: How models were read; ``None`` if unknown.
    """
    bricks = sorted(result.bricks, key=weight, reverse=True)
    shares = _shares(bricks)
    noun = heading.quantity_name(result.request.quantity)
    first, *more = answer(result)
    return page(
        "run/page.html",
        title=heading.subject(result),
        answer=[*unfit(result), without_subject(first, heading.subject(result)), *more],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=run_remarks(result),
        failures=alike(result.failures),
        about=" ".join(
            filter(
                None,
                (layers(result), probed(result), dial(result), origins(result), peak(result)),
            )
        ),
        speedups=speedups(result),
        sizes=sizes_table(result),
        sizes_plot=sizes_plot(result),
        depths=depths_table(result),
        normalized_plot=normalized_plot(result.models, noun=noun),
        noun=noun,
        is_latency=result.request.probe is None,
        models=_models(result),
        parts=_parts(result.models),
        share_plot=_share_plot(shares),
        incomplete=any(each.latency is None for each in bricks),
        shares=table(
            ["Layers", "Share in %"],
            [[name, f"{100 * share:.1f}"] for name, share in shares.items()],
            names_wrap=True,
        ),
        number=len(bricks),
        bricks=_bricks(bricks, f"{noun.capitalize()} in {result.request.quantity.unit}"),
    )


def without_subject(sentence: str, subject: str) -> str:
    """A sentence without its initial subject, which is the page's title."""
    rest = sentence.removeprefix(f"{subject}: ")
    return f"{rest[:1].upper()}{rest[1:]}"


def _models(result: RunResult) -> Table:
    quantity = result.request.quantity
    parallel = ["Parallel"] if result.request.probe is None else []
    unit = f"{heading.quantity_name(quantity).capitalize()} in {quantity.unit}. "
    return table(
        ["Model", "Estimate", "90% interval", "Measured", "Estimate / measured", *parallel,
         "Layers", "Unique", "Bricks"],
        [
            [
                model.cut.model.name,
                partial(model.estimate),
                between(model.estimate.interval),
                or_dash(model.measured.value if model.measured else None),
                "–" if model.normalized is None else f"{model.normalized:.3f}",
                *([partial(model.parallel)] if parallel else []),
                str(len(model.cut.model.layers)),
                str(len(set(model.cut.layer_signatures))),
                str(len(model.cut.occurrences)),
            ]
            for model in result.models
        ],
        f"{unit}{'Parallel: the critical path. ' if parallel else ''}>: bricks are missing.",
    )  # fmt: skip


def _parts(models: Sequence[ModelResult]) -> Table | None:
    """Parts of a quantity; ``None`` where it has none."""
    rows = [
        [
            model.cut.model.name,
            each.quantity.name,
            partial(each.compared.estimate),
            between(each.compared.estimate.interval),
            or_dash(measured.value if (measured := each.compared.measured) else None),
            each.quantity.unit,
            each.quantity.meaning,
        ]
        for model in models
        for each in model.parts
    ]
    columns: list[str | Column] = [
        "Model",
        Column("Part", is_text=True),
        "Estimate",
        "90% interval",
        "Measured",
        Column("Unit", is_text=True),
        Column("Meaning", is_text=True),
    ]
    return table(columns, rows) if rows else None


def _bricks(bricks: Sequence[BrickResult], what: str) -> Table:
    named = names({each.brick.signature: each.brick.model for each in bricks})
    whole = sum(map(weight, bricks))
    return table(
        ["Brick", Column("Signature", is_text=True), "Occurs", "Value", "90% interval", "Share",
         Column("From", is_text=True), Column("Remarks", is_text=True)],
        [
            [
                named[each.brick.signature],
                Cell(each.brick.signature[:8], "code"),
                str(each.occurrences),
                or_dash(each.latency.value if each.latency else None),
                between(each.interval_ms),
                f"{100 * weight(each) / whole:.1f}" if whole and each.latency else "–",
                each.origin or "–",
                "; ".join(_remarks(each, named)),
            ]
            for each in bricks
        ],
        f"{what}, as measured. Share: of the sum over all bricks that have one, in %. From: "
        "where the value comes from.",
        names_wrap=True,
    )  # fmt: skip


def _remarks(each: BrickResult, named: Mapping[str, str]) -> list[str]:
    """Sources of a brick's latency other than its own samples, and doubts about it."""
    sources = " and ".join(named.get(s, s[:8]) for s in each.derived_from)
    found = [
        f"follows from {sources}" if sources else "",
        each.failure,
        *doubts(each),
    ]
    return [text for text in found if text]


def partial(estimate: Estimate) -> str:
    """An estimate in the quantity's unit, marked where bricks are missing."""
    if estimate.value is None:
        return "–"
    return f"{'>' if estimate.partial else ''}{or_dash(estimate.value)}"


def _shares(bricks: Iterable[BrickResult]) -> dict[str, float]:
    """Share of each operator in the sum over all measured bricks, the largest first."""
    totals: dict[tuple[str, ...], float] = {}
    for each in bricks:
        if each.latency is not None:
            key = each.brick.operators
            totals[key] = totals.get(key, 0.0) + weight(each)
    whole = sum(totals.values())
    if not whole:
        return {}
    named = sequence_names(totals)
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return {named[operators]: total / whole for operators, total in ordered}


def normalized_plot(
    models: Iterable[ModelResult], bands: Sequence[float] = (), noun: str = "latency"
) -> Markup | None:
    """Plot of estimates over measurements; ``None`` without measurements.

    Args:
        models: The models.
        bands: Relative errors to mark.
        noun: Name of the quantity in a sentence.
    """
    shown = [(m, value) for m in models if (value := m.normalized) is not None]
    if not shown:
        return None
    shaded = f" and bands of {' and '.join(f'±{band:.0%}' for band in bands)}" if bands else ""
    return around_one(
        "normalized",
        [model.cut.model.name for model, _ in shown],
        [Point(value, model.normalized_interval) for model, value in shown],
        "estimate / measured (1: they agree)",
        f"Normalized {noun} of every model, with its 90% interval{shaded}",
        bands,
    )


def _share_plot(shares: Mapping[str, float]) -> Markup | None:
    if not shares:
        return None
    shown = list(shares.items())[:_ROWS]
    return bars(
        "shares",
        [name for name, _ in shown],
        {"share": [Point(100 * share) for _, share in shown]},
        "% of the sum over all measured bricks",
        "Share of each operator in the sum over all bricks",
    )
