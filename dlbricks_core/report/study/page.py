"""A study as a self-contained HTML page: the evaluation of the DLBricks paper for any models."""

from __future__ import annotations

from dlbricks_core.report.heading import count
from dlbricks_core.report.html.templating import Fact, given, page
from dlbricks_core.report.remarks import Effect, Remark
from dlbricks_core.report.study.page_tables import all_tables, published_tables
from dlbricks_core.report.study.plots import all_plots
from dlbricks_core.report.study.record import StudyRecord
from dlbricks_core.report.study.tables import TABLES
from dlbricks_core.report.study.words import answer, failures, subject
from dlbricks_core.workflows import DEFAULT_COMPOSER


def study_page(study: StudyRecord) -> str:
    """A study as an HTML page."""
    first, *more = answer(study)
    rest = first.removeprefix(f"{subject(study)}: ")
    return page(
        "study/page.html",
        title=f"Study of {subject(study)}",
        answer=[f"{rest[:1].upper()}{rest[1:]}", *more],
        facts=_facts(study),
        remarks=[Remark(Effect.WARNING, text) for text in study.data["notes"]],
        failures=failures(study),
        study=study,
        plots=all_plots(study),
        tables=all_tables(study),
        published=published_tables(study),
        left_out=study.data["left_out"],
        files=[f"{name}.csv" for name in TABLES],
    )


def _facts(study: StudyRecord) -> list[Fact]:
    """Facts about how the study was made."""
    backend, system, settings = (study.data[name] for name in ("backend", "system", "settings"))
    options = "".join(f", {name}={value}" for name, value in backend["settings"].items())
    call_ms = study.data["timer"]["call_ms"]
    timer = f"; timer {1e3 * call_ms:.1f} µs a call, taken off each brick" if call_ms else ""
    found = [
        ("Backend", f"{backend['name']} {backend['version']}{options}{timer}"),
        ("System", f"{system['description']} (fingerprint {system['fingerprint']})"),
    ]
    if system["measured_on"] != system["fingerprint"]:
        found.append(("Measured on", f"another system, fingerprint {system['measured_on']}"))
    read = f"{given(study.load)}; " if study.load else ""
    found.append(
        (
            "Measuring",
            f"{settings['protocol']} protocol: {settings['statistic']}, "
            f"{count(settings['runs'], 'run')}; {count(settings['threads'], 'thread')}; {read}"
            f"seed {settings['seed']}",
        )
    )
    granularities = ", ".join(str(way.granularity) for way in study.of_paper)
    own = ", ".join(
        f"composer {way.label}{' (the default)' if way.label == DEFAULT_COMPOSER else ''} with "
        f"split {way.data['split']}"
        for way in study.own
    )
    bricks = f"the paper's: chains of at most G = {granularities} layers, composer sequential"
    found.append(("Bricks", f"{bricks}; DLBricks' own: {own}"))
    if study.span:
        when = f"{study.span}, in {count(study.span.sessions, 'session')}"
        found.append(("Measured", when))
    return found
