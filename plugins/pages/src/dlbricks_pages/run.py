"""A run or an estimate as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dlbricks_core.bricks.naming import names, sequence_names
from dlbricks_core.commands.estimate.terminal import (
    BRICKS,
    COMPARED,
    PARALLEL,
    RESTS_ON,
    answer,
    apart,
    hours,
    layers,
    origins,
    peak,
    precision_reached,
    probed,
    speedups,
    unfit,
)
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import BrickResult, RunResult
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import heading
from dlbricks_core.report.columns import (
    FilledColumn,
    OwnColumn,
    added_columns,
    own_columns,
    shown_columns,
)
from dlbricks_core.report.remarks import alike, run_remarks, sample_warnings, weight
from dlbricks_core.report.tables import compared_cells, interval_text, ratio_text, value_text
from dlbricks_pages.html.plots import Point, around_one, bars
from dlbricks_pages.html.templating import (
    Cell,
    PageTable,
    filled_page_table,
    page,
    page_table,
    run_facts,
)

_ROWS = 20  #: Maximum bars or rows of dots in a plot; tables show all rows.


def run_page(result: RunResult, load: LoadOptions | None = None) -> str:
    """A run or an estimate as an HTML page."""
    bricks = sorted(result.bricks, key=weight, reverse=True)
    shares = _shares(bricks)
    noun = heading.quantity_name(result.request.quantity)
    first, *more = answer(result)
    added = added_columns(result.models)
    basis = layers(result), probed(result), precision_reached(result), origins(result)
    sizes = _over_sizes(result)
    memory, engines = (sizes["memory"], sizes["engines"]) if sizes else ((), ())
    lines = hours(result), *basis, *apart(result), *memory, peak(result), *engines
    return page(
        "run.html",
        title=heading.subject(result),
        answer=[*unfit(result), without_subject(first, heading.subject(result)), *more],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=run_remarks(result, added),
        failures=alike(result.failures),
        about=" ".join(filter(None, lines)),
        speedups=speedups(result),
        sizes=sizes,
        normalized_plot=normalized_plot(result.models, noun=noun),
        noun=noun,
        is_latency=result.request.metric is None,
        models=_models(result, added),
        parts=_parts(result.models),
        share_plot=_share_plot(shares),
        incomplete=any(each.latency is None for each in bricks),
        shares=page_table(
            ["Layers", "Share in %"],
            [[name, f"{100 * share:.1f}"] for name, share in shares.items()],
            names_wrap=True,
        ),
        ran_whole=any(model.is_measurement for model in result.models),
        number=len(bricks),
        bricks=_bricks(bricks, f"{noun.capitalize()} in {result.request.quantity.unit}"),
    )


def _over_sizes(result: RunResult) -> Mapping[str, Any] | None:
    """Parts of the page on several sizes; ``None`` for other runs."""
    if result.over_sizes is None:
        return None
    # Pages need not have the distribution of several sizes, which results over sizes come from.
    from dlbricks_pages.sizes import parts_over_sizes

    return parts_over_sizes(result)


def without_subject(sentence: str, subject: str) -> str:
    """A sentence without its initial subject, which is the page's title."""
    rest = sentence.removeprefix(f"{subject}: ")
    return f"{rest[:1].upper()}{rest[1:]}"


_RATIO: OwnColumn[ModelResult] = OwnColumn(
    "Estimate / measured", lambda model: ratio_text(model.normalized)
)
_SIZES: Sequence[OwnColumn[ModelResult]] = (
    OwnColumn("Layers", lambda model: str(len(model.cut.model.layers))),
    OwnColumn("Unique", lambda model: str(len(set(model.cut.layer_signatures)))),
)


def _models(result: RunResult, added: Sequence[FilledColumn]) -> PageTable:
    quantity = result.request.quantity
    parallel = [PARALLEL] if result.request.metric is None else []
    unit = f"{heading.quantity_name(quantity).capitalize()} in {quantity.unit}. "
    own = own_columns((*COMPARED, _RATIO, *parallel, RESTS_ON, *_SIZES, BRICKS), result.models)
    caption = f"{unit}{'Parallel: the critical path. ' if parallel else ''}>: bricks are missing."
    return filled_page_table([*own, *shown_columns(added)], caption)


def _parts(models: Sequence[ModelResult]) -> PageTable | None:
    """Parts of a quantity; ``None`` where it has none."""
    rows = [
        [
            model.cut.model.name,
            each.quantity.name,
            *compared_cells(each.compared)[:3],
            each.quantity.unit,
            each.quantity.meaning,
        ]
        for model in models
        for each in model.parts
    ]
    columns = ("Model", "Part", "Estimate", "90% interval", "Measured", "Unit", "Meaning")
    return page_table(columns, rows, words=("Part", "Unit", "Meaning")) if rows else None


def _bricks(bricks: Sequence[BrickResult], what: str) -> PageTable:
    named = names({each.brick.signature: each.brick.model for each in bricks})
    whole = sum(map(weight, bricks))
    return page_table(
        ("Brick", "Signature", "Occurs", "Value", "90% interval", "Share", "From", "Remarks"),
        [
            [
                named[each.brick.signature],
                Cell(each.brick.signature[:8], "code"),
                str(each.occurrences),
                value_text(each.latency.value if each.latency else None),
                interval_text(each.interval_ms),
                f"{100 * weight(each) / whole:.1f}" if whole and each.latency else "-",
                each.origin or "-",
                "; ".join(_remarks(each, named)),
            ]
            for each in bricks
        ],
        f"{what} of one occurrence. Share: of the sum over all bricks with a value, in %. "
        "From: origin of the value.",
        words=("Signature", "From", "Remarks"),
        names_wrap=True,
    )


def _remarks(each: BrickResult, named: Mapping[str, str]) -> list[str]:
    """Sources of a brick's latency other than its own samples, and doubts about it."""
    sources = " and ".join(named.get(s, s[:8]) for s in each.derived_from)
    found = [f"follows from {sources}" if sources else "", each.failure, *sample_warnings(each)]
    return [text for text in found if text]


def _shares(bricks: Iterable[BrickResult]) -> dict[str, float]:
    """Share of each operator in the sum over all bricks with a value, the largest first."""
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
    """Plot of estimates over measurements; ``None`` without measurements."""
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
        "% of the sum over all bricks with a value",
        "Share of each operator in the sum over all bricks",
    )
