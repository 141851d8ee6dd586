"""Models under load, as a self-contained HTML page."""

from __future__ import annotations

from dlbricks_pages.html.templating import page, page_table, reading_options

from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import heading
from dlbricks_core.report.remarks import Remark, alike
from dlbricks_serving.serving.report.words import LoadReport


def scenario_page(told: LoadReport, load: LoadOptions | None = None) -> str:
    """Models under load, as an HTML page.

    Args:
        told: Figures of the models.
        load: How models were read; ``None`` if unknown.
    """
    request, several = told.requests[0], len(told.requests) > 1
    read = "" if load is None else f"{reading_options(load)}; "
    runs = f"runs of {told.asked.seconds:g} s; " if told.asked.end_to_end else ""
    return page(
        "serving/report/page.html",
        package="dlbricks_serving",
        title=f"{told.asked.scenario} on {told.backends}",
        answer=[f"{each}." for each in told.answers],
        facts=[
            ("Backends" if several else "Backend", told.backends),
            ("System", f"{heading.system(request)} (fingerprint {request.fingerprint})"),
            ("Measuring", f"{runs}{read}seed {request.seed}"),
        ],
        remarks=[*map(Remark.of, told.warnings), *map(Remark.of, told.notes)],
        failures=alike(told.failures),
        models=[
            (name, page_table(told.columns, rows, words=("Backend", "From")))
            for name, rows in told.tables
        ],
        explained=told.explained,
    )
