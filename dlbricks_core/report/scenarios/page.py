"""Models under load, as a self-contained HTML page."""

from __future__ import annotations

from dlbricks_core.report import heading
from dlbricks_core.report.html.tables import Column, table
from dlbricks_core.report.html.templating import given, page
from dlbricks_core.report.remarks import Effect, Remark, alike
from dlbricks_core.report.scenarios.words import best, columns, explained, lines, warnings
from dlbricks_core.workflows import LoadOptions
from dlbricks_core.workflows.scenarios.run import UnderLoad


def scenario_page(result: UnderLoad, load: LoadOptions | None = None) -> str:
    """Models under load, as an HTML page.

    Args:
        result: Figures of the models.
        load: How models were read; ``None`` if unknown.
    """
    request, asked = result.request, result.asked
    read = "" if load is None else f"{given(load)}; "
    headings = [Column(each, is_text=each == "From") for each in columns(asked)]
    return page(
        "scenarios/page.html",
        title=f"{asked.scenario} on {request.backend.name} {request.setup.version}",
        answer=[f"{best(each, asked)}." for each in result.models],
        facts=[
            (
                "Backend",
                f"{request.backend.name} {request.setup.version}{heading.options(request)}",
            ),
            ("System", f"{heading.system(request)} (fingerprint {request.fingerprint})"),
            ("Measuring", f"runs of {asked.seconds:g} s; {read}seed {request.seed}"),
        ],
        remarks=[Remark(Effect.WARNING, text) for text in warnings(result)],
        failures=alike(result.failures),
        models=[
            (each.model.name, table(headings, [line.cells for line in lines(each, asked.scenario)]))
            for each in result.models
        ],
        explained=explained(result),
    )
