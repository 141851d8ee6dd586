"""Models under load, as a self-contained HTML page."""

from __future__ import annotations

from dlbricks_core.report import heading
from dlbricks_core.report.html.tables import Column, table
from dlbricks_core.report.html.templating import given, page
from dlbricks_core.report.remarks import Effect, Remark, alike
from dlbricks_core.report.scenarios.words import Told
from dlbricks_core.workflows import LoadOptions


def scenario_page(told: Told, load: LoadOptions | None = None) -> str:
    """Models under load, as an HTML page.

    Args:
        told: Figures of the models.
        load: How models were read; ``None`` if unknown.
    """
    request, several = told.requests[0], len(told.requests) > 1
    read = "" if load is None else f"{given(load)}; "
    runs = f"runs of {told.asked.seconds:g} s; " if told.asked.end_to_end else ""
    headings = [Column(each, is_text=each in ("Backend", "From")) for each in told.columns]
    return page(
        "scenarios/page.html",
        title=f"{told.asked.scenario} on {told.backends}",
        answer=[f"{each}." for each in told.answers],
        facts=[
            ("Backends" if several else "Backend", told.backends),
            ("System", f"{heading.system(request)} (fingerprint {request.fingerprint})"),
            ("Measuring", f"{runs}{read}seed {request.seed}"),
        ],
        remarks=[
            *(Remark(Effect.WARNING, text) for text in told.warnings),
            *(Remark(Effect.NOTE, text) for text in told.notes),
        ],
        failures=alike(told.failures),
        models=[(name, table(headings, rows)) for name, rows in told.tables],
        explained=told.explained,
    )
