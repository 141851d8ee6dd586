"""Pages of the site."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dlbricks_core.facts import LATENCY, Failure
from dlbricks_core.harmless import harmless
from dlbricks_core.report.atlas import tables, words
from dlbricks_core.report.atlas.axis import Axis, Mark
from dlbricks_core.report.atlas.system_facts import facts_of
from dlbricks_core.report.atlas.view import View
from dlbricks_core.report.heading import count
from dlbricks_core.report.html.tables import Cell
from dlbricks_core.report.html.templating import page, render
from dlbricks_core.report.remarks import alike
from dlbricks_core.workflows.atlas import BASES, Atlas, Entry, Home, Place

ROWS = 100
"""Maximum rows that a table shows at a time."""

_MOST_MARKS = 40
"""Maximum rows of a plot; tables show all rows."""

_MOST_FAILED = 5
"""Maximum number of networks named for one reason of failure."""

File = tuple[str, str]
"""Path of a file in the site, and its content."""


def site(atlas: Atlas) -> Iterator[File]:
    """All files of the site, generated one by one to save memory."""
    shown = View(atlas)
    yield "style.css", render("atlas/site.css")
    yield "table.js", render("atlas/table.js", rows=ROWS)
    yield from _measurements(shown)
    yield "index.html", _overview(shown)
    yield "models.html", _models(shown)
    yield "backends.html", _backends(shown)
    for home, machine in atlas.machines.items():
        yield f"systems/{words.page_of(machine)}", _system(shown, home)
    for signature in atlas.models:
        yield f"models/{words.page_name(signature)}", _model(shown, signature)


def _page(shown: View, template: str, root: str, **values: Any) -> str:
    """A page; ``root`` is the path from it to the site's folder."""
    facts = [("Store", shown.atlas.source), ("Intervals", "90%")]
    return page(f"atlas/{template}", facts=facts, root=root, rows=ROWS, **values)


def _overview(shown: View) -> str:
    atlas = shown.atlas
    return _page(
        shown,
        "overview.html",
        "",
        title="Atlas of what was measured",
        answer=[words.holdings(atlas), words.origin(atlas)],
        systems=tables.systems(shown),
        places=tables.places(shown, atlas.places, ""),
    )


def _models(shown: View) -> str:
    atlas = shown.atlas
    return _page(
        shown,
        "models.html",
        "",
        title="Models",
        answer=[f"{count(len(atlas.models), 'model')}.", words.origin(atlas)],
        models=tables.models(shown),
        nameless=sum(not atlas.networks[each].name for each in atlas.models),
    )


def _backends(shown: View) -> str:
    places = sorted(shown.atlas.places, key=lambda place: (place.backend, place))
    names = {place.backend for place in places}
    return _page(
        shown,
        "backends.html",
        "",
        title="Backends",
        answer=[f"{count(len(names), 'backend')}."],
        backends=tables.backends(shown),
        places=tables.places(shown, places, ""),
    )


def _model(shown: View, signature: str) -> str:
    atlas, own = shown.atlas, shown.by_model.get(signature, [])
    known, parts = atlas.networks[signature], atlas.parts.get(signature)
    bricks = atlas.bricks_of.get(signature)
    latencies = [each for each in own if each.quantity == LATENCY]
    return _page(
        shown,
        "model.html",
        "../",
        title=shown.models[signature],
        answer=_lowest(shown, latencies),
        signature=signature,
        nameless="" if known.name else words.NAMELESS,
        plot=_plot([shown.mark(shown.where(each.place), each) for each in latencies]),
        values=tables.values(shown, own, tables.OF_A_MODEL, "../"),
        layers=len(known.layers),
        operators=tables.operators(known.layers),
        bricks=tables.bricks(bricks.shares) if bricks else None,
        bricks_where=shown.where(bricks.place) if bricks else "",
        parts=tables.parts(parts.by_kind) if parts else None,
        parts_where=shown.where(parts.place) if parts else "",
        failures=[
            (shown.where(each.place), each.measurement.failure or "")
            for each in atlas.failed
            if each.subject.signature == signature and each.subject.is_whole
        ],
    )


def _lowest(shown: View, latencies: Sequence[Entry]) -> list[str]:
    """Sentences on the lowest latency of a model, on a lower predicted one, and on origins."""
    best = shown.fastest(latencies)
    if best is None:
        return ["No latency is known."]
    known = shown.fastest([e for e in latencies if e.origin != "predicted"]) or best
    lower = f"{words.number(best)} ms is predicted: {shown.where(best.place)}."
    origins = Counter(each.origin for each in latencies)
    shares = ", ".join(f"{origins[basis]} {basis}" for basis in BASES if origins[basis])
    return [
        f"{words.number(known)} ms at best, {known.origin}: {shown.where(known.place)}.",
        *([lower] if best.value < known.value else []),
        f"Origin of {words.latencies(len(latencies))}: {shares}.",
    ]


def _system(shown: View, home: Home) -> str:
    places = [each for each in shown.atlas.places if each.home == home]
    entries = [each for place in places for each in shown.by_place[place]]
    models = [each for each in entries if each.subject.is_whole]
    names = {each.subject.signature for each in models}
    backends = {place.backend for place in places}
    return _page(
        shown,
        "system.html",
        "../",
        title=shown.systems[home],
        answer=[f"{count(len(names), 'model')} on {count(len(backends), 'backend')}."],
        about=facts_of(shown.atlas.systems[home[0]]),
        places=tables.places(shown, places, "../"),
        plot=_plot(_fastest(shown, models)),
        values=tables.values(shown, models, tables.OF_A_SYSTEM, "../"),
        failures=_failures(shown, places),
    )


def _fastest(shown: View, entries: Sequence[Entry]) -> list[Mark]:
    """The lowest latency of each model on a system, the lowest first."""
    by_model: dict[str, list[Entry]] = {}
    for each in entries:
        by_model.setdefault(each.subject.signature, []).append(each)
    best = [found for own in by_model.values() if (found := shown.fastest(own))]
    best.sort(key=lambda each: each.value)
    return [
        shown.mark(f"{shown.models[each.subject.signature]} · {shown.how(each.place)}", each)
        for each in best
    ]


def _failures(shown: View, places: Sequence[Place]) -> list[tuple[str, str]]:
    """Failures at some places with their reasons, grouped by reason."""
    failed = (
        Failure(
            shown.how(place), each.measurement.failure or "", "measure", shown.name(each.subject)
        )
        for place in places
        for each in shown.failures[place]
    )
    return alike(failed, _MOST_FAILED)


def _measurements(shown: View) -> Iterator[File]:
    """The page of all values, and a script with its rows: pages on disk cannot fetch data."""
    entries = sorted(shown.atlas.entries, key=lambda each: not each.subject.is_whole)
    rows = tables.rows_of(shown, entries, tables.EVERYTHING, "")
    yield "measurements.js", f"const atlasRows = {_as_script(rows)};\n"
    yield (
        "measurements.html",
        _page(
            shown,
            "measurements.html",
            "",
            title="Measurements",
            answer=[
                f"{count(len(entries), 'value')} of models and bricks.",
                words.origin(shown.atlas),
            ],
            values=tables.values(shown, entries[:ROWS], tables.EVERYTHING, ""),
            number=len(entries),
        ),
    )


def _as_script(rows: Sequence[Sequence[str | Cell]]) -> str:
    """Rows in the form that the script reads: the distinct cells, and their positions."""
    cells: dict[str, int] = {}
    places = [
        [cells.setdefault(json.dumps(_plain(cell)), len(cells)) for cell in row] for row in rows
    ]
    return f"{{cells:[{','.join(cells)}],rows:{json.dumps(places, separators=(',', ':'))}}}"


def _plain(cell: str | Cell) -> Any:
    """A cell as the script reads it: its text, or text, key, link and classes."""
    if isinstance(cell, str):
        return harmless(cell)
    return [harmless(cell.text), cell.key, cell.link, cell.marks]


def _plot(marks: Sequence[Mark]) -> dict[str, Any] | None:
    """A plot of the first values that are larger than 0; ``None`` where there are none."""
    shown = [each for each in marks if each.value > 0][:_MOST_MARKS]
    if not shown:
        return None
    return {"axis": Axis.over(shown), "marks": shown, "left_out": len(marks) - len(shown)}
