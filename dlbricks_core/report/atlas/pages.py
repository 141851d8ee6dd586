"""Pages of the site."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dlbricks_core.bricks.naming import fold
from dlbricks_core.facts import LATENCY
from dlbricks_core.harmless import harmless
from dlbricks_core.report.atlas import view, words
from dlbricks_core.report.atlas.axis import Axis, Mark
from dlbricks_core.report.atlas.system_facts import facts_of
from dlbricks_core.report.atlas.view import View
from dlbricks_core.report.heading import count
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import page, render
from dlbricks_core.report.tables import ms as ms_words
from dlbricks_core.workflows.atlas import BASES, Atlas, BrickShare, Entry, Place

ROWS = 100
"""Rows that a table shows at a time, as its script has it: the others are on its further pages."""

_MOST_MARKS = 40
"""Rows of a plot; tables show everything."""

File = tuple[str, str]
"""Path of a file in the site, and its content."""


def site(atlas: Atlas) -> Iterator[File]:
    """All files of the site, one after another: few are in memory at a time."""
    shown = View(atlas)
    yield "style.css", render("atlas/site.css")
    yield "table.js", render("atlas/table.js", rows=ROWS)
    yield from _measurements(shown)
    yield "index.html", _overview(shown)
    yield "models.html", _models(shown)
    yield "backends.html", _backends(shown)
    for fingerprint in atlas.systems:
        yield f"systems/{words.page_name(fingerprint)}", _system(shown, fingerprint)
    for signature in atlas.models:
        yield f"models/{words.page_name(signature)}", _model(shown, signature)


def _page(shown: View, template: str, root: str, title: str, answer: Sequence[str],
          **values: Any) -> str:  # fmt: skip
    facts = [("Store", shown.atlas.source), ("Intervals", "90%")]
    return page(
        f"atlas/{template}", title=title, answer=answer, facts=facts, root=root, rows=ROWS, **values
    )


def _overview(shown: View) -> str:
    atlas = shown.atlas
    return _page(
        shown, "overview.html", "", "Atlas of what was measured",
        [f"{words.holdings(atlas)}", words.origin(atlas)],
        systems=_systems(shown), places=_places(shown, atlas.places, ""),
    )  # fmt: skip


def _systems(shown: View) -> Table:
    return table(
        ["System", "Cores", Column("Kind", is_text=True), "Models", "Values"],
        [
            [
                shown.system(Place(fingerprint, "", "", "", 1), ""),
                str(system.physical_cores or "–"),
                "virtual" if system.hypervisor else "real hardware" if system.cpu else "unknown",
                str(len({e.subject.signature for e in own if e.subject.kind != "brick"})),
                str(len(own)),
            ]
            for fingerprint, system in shown.atlas.systems.items()
            for own in [[e for e in shown.atlas.entries if e.place.system == fingerprint]]
        ],
        "Models: those with a value. Values: of models and bricks.",
        names_wrap=True,
    )


def _places(shown: View, places: Sequence[Place], root: str) -> Table:
    return table(
        ["System", Column("Backend", is_text=True), "Threads", *_COUNTED, "Failed", Column("First", is_text=True),
         Column("Last", is_text=True)],
        [
            [
                shown.system(place, root),
                shown.backends[place],
                str(place.threads),
                *_numbers(shown.by_place[place]),
                str(len(shown.failures[place])),
                *view.when(shown.by_place[place]),
            ]
            for place in places
        ],
        "Networks with a value, whatever the quantity. First, last: day of the measurement.",
        names_wrap=True,
    )  # fmt: skip


_COUNTED = (*(f"Models {basis}" for basis in BASES), "Bricks measured")
"""Headings of the numbers that :func:`_numbers` gives."""


def _numbers(entries: Sequence[Entry]) -> list[str]:
    """Models measured, composed and predicted, and bricks measured."""
    kinds = {
        (each.subject.kind == "brick", each.origin, each.subject.signature) for each in entries
    }
    found = Counter((brick, origin) for brick, origin, _ in kinds)
    return [str(found[False, basis]) for basis in BASES] + [str(found[True, "measured"])]


def _models(shown: View) -> str:
    models = shown.atlas.models
    return _page(
        shown, "models.html", "", "Models",
        [f"{count(len(models), 'model')}.", words.origin(shown.atlas)],
        models=table(
            ["Model", "Layers", "Lowest latency", "90% interval", Column("From", is_text=True),
             Column("Where", is_text=True), *map(str.capitalize, BASES)],
            [_model_row(shown, each) for each in models],
            "Latency in ms: the lowest of all systems, backends and threads. ≈: not measured. "
            "Measured, composed, predicted: number of values.",
        ),
        nameless=sum(not shown.atlas.networks[each].name for each in models),
    )  # fmt: skip


def _model_row(shown: View, signature: str) -> list[str | Cell]:
    own = shown.by_model.get(signature, [])
    origins = Counter(each.origin for each in own)
    best = shown.fastest(own)
    where: list[str | Cell] = ["–"] * 4
    if best is not None:
        where = [view.value(best), view.ends(best), view.origin(best), shown.where(best.place)]
    return [
        shown.model(signature, ""),
        str(len(shown.atlas.networks[signature].layers) or "–"),
        *where,
        *(str(origins[basis]) for basis in BASES),
    ]


def _model(shown: View, signature: str) -> str:
    atlas, own = shown.atlas, shown.by_model.get(signature, [])
    known, parts = atlas.networks[signature], atlas.parts.get(signature)
    bricks = atlas.bricks_of.get(signature)
    latencies = [each for each in own if each.quantity == LATENCY]
    failed = [each for each in atlas.failed if each.question.subject.signature == signature]
    operators = Counter(words.operator_name(each) for each in known.layers)
    return _page(
        shown, "model.html", "../", shown.models[signature], _model_answer(shown, latencies),
        signature=signature, name=known.name, nameless=words.NAMELESS,
        plot=_plot([shown.mark(_label(shown, each), each) for each in latencies]),
        values=_model_values(shown, own),
        layers=len(known.layers),
        operators=table(
            ["Operator", "Layers"], [[name, str(n)] for name, n in operators.most_common()]
        ),
        bricks=_bricks(bricks[1]) if bricks else None,
        bricks_where=shown.where(bricks[0]) if bricks else "",
        where=shown.where(parts.place) if parts else "",
        parts=_parts(parts.ms) if parts else None,
        failures=[
            (shown.where(Place.of(each.question)), each.failure or "") for each in failed
            if each.question.subject.kind != "brick"
        ],
    )  # fmt: skip


def _model_answer(shown: View, latencies: Sequence[Entry]) -> list[str]:
    best = shown.fastest(latencies)
    if best is None:
        return ["No latency is known."]
    origins = Counter(each.origin for each in latencies)
    shares = ", ".join(f"{origins[each]} {each}" for each in BASES if origins[each])
    return [
        f"{words.number(best)} ms at best, {best.origin}: {shown.where(best.place)}.",
        f"Origin of its {len(latencies)} latencies: {shares}."
        if len(latencies) > 1
        else f"Its only latency is {best.origin}.",
    ]


def _label(shown: View, entry: Entry) -> str:
    own = ", own form" if entry.subject.kind == "native" else ""
    return f"{shown.where(entry.place)}{own}"


def _model_values(shown: View, entries: Sequence[Entry]) -> Table:
    return table(
        ["System", Column("Backend", is_text=True), "Threads", Column("Form", is_text=True),
         Column("Quantity", is_text=True), "Value", "90% interval", Column("From", is_text=True),
         "Samples", Column("Setup", is_text=True), Column("Last", is_text=True)],
        [
            [
                shown.system(each.place, "../"),
                shown.backends[each.place],
                str(each.place.threads),
                "own" if each.subject.kind == "native" else "lowered",
                view.quantity(each),
                view.value(each),
                view.ends(each),
                view.origin(each),
                view.samples(each),
                view.setup(each),
                view.measured_on(each),
            ]
            for each in entries
        ],
        "Form: as the backend gets it from DLBricks, or the framework's own. ≈: not measured.",
        names_wrap=True,
    )  # fmt: skip


def _parts(parts: Mapping[str, float]) -> Table:
    whole = sum(parts.values())
    return table(
        ["Kind of layer", "ms", "Share in %"],
        [
            [words.plain(kind), Cell(ms_words(ms), key=ms), f"{100 * ms / whole:.1f}"]
            for kind, ms in sorted(parts.items(), key=lambda item: -item[1])
        ],
        "Predicted milliseconds, all layers of a kind together.",
        names_wrap=True,
    )


def _bricks(shares: Sequence[BrickShare]) -> Table:
    whole = sum(each.ms for each in shares)
    return table(
        ["Brick", "Occurs", "ms", "Share in %"],
        [
            [
                f"{fold(list(map(words.operator_name, each.operators)))} · "
                f"{words.short(each.signature)}",
                str(each.times),
                Cell(ms_words(each.ms), key=each.ms),
                f"{100 * each.ms / whole:.1f}" if whole else "–",
            ]
            for each in shares
        ],
        "Milliseconds of all occurrences together, without the cost of a call of the timer.",
        names_wrap=True,
    )


def _system(shown: View, fingerprint: str) -> str:
    atlas = shown.atlas
    places = [each for each in atlas.places if each.system == fingerprint]
    entries = [each for place in places for each in shown.by_place[place]]
    models = [each for each in entries if each.subject.kind != "brick"]
    best = {
        signature: shown.fastest([e for e in models if e.subject.signature == signature])
        for signature in dict.fromkeys(each.subject.signature for each in models)
    }
    fastest = sorted((each for each in best.values() if each), key=lambda each: each.value)
    marks = [
        shown.mark(
            f"{shown.models[each.subject.signature]} · {shown.backends[each.place]} · "
            f"{count(each.place.threads, 'thread')}",
            each,
        )
        for each in fastest
    ]
    backends = len({each.backend for each in places})
    return _page(
        shown, "system.html", "../", shown.systems[fingerprint],
        [f"{count(len(best), 'model')} on {count(backends, 'backend')}."],
        about=facts_of(atlas.systems[fingerprint]),
        places=_places(shown, places, "../"),
        plot=_plot(marks),
        values=_system_values(shown, models),
        failures=[
            (f"{shown.where(place)}: {words.short(each.question.subject.signature)}",
             each.failure or "")
            for place in places for each in shown.failures[place]
        ],
    )  # fmt: skip


def _system_values(shown: View, entries: Sequence[Entry]) -> Table:
    return table(
        ["Model", Column("Backend", is_text=True), "Threads", Column("Quantity", is_text=True),
         "Value", "90% interval", Column("From", is_text=True), Column("Last", is_text=True)],
        [
            [
                shown.network(each, "../"),
                shown.backends[each.place],
                str(each.place.threads),
                view.quantity(each),
                view.value(each),
                view.ends(each),
                view.origin(each),
                view.measured_on(each),
            ]
            for each in entries
        ],
        "≈: not measured.",
    )  # fmt: skip


def _backends(shown: View) -> str:
    places = shown.atlas.places
    names = sorted({each.backend for each in places})
    wins = _wins(shown)
    versions = {(p.backend, p.version, p.options) for p in places}
    return _page(
        shown, "backends.html", "", "Backends", [f"{count(len(names), 'backend')}."],
        backends=table(
            ["Backend", Column("Version", is_text=True), Column("Options", is_text=True),
             Column("Threads", is_text=True), "Systems", *_COUNTED, "Failed", "Fastest for"],
            [
                [
                    backend,
                    version,
                    words.options(own[0]),
                    ", ".join(map(str, sorted({p.threads for p in own}))),
                    str(len({p.system for p in own})),
                    *_numbers([e for p in own for e in shown.by_place[p]]),
                    str(sum(len(shown.failures[p]) for p in own)),
                    str(sum(wins[p] for p in own)),
                ]
                for backend, version, options in sorted(versions)
                for own in [[p for p in places
                             if (p.backend, p.version, p.options) == (backend, version, options)]]
            ],
            "Fastest for: pairs of a model and a system of which the lowest latency is its own, "
            "whatever the threads, and whatever its origin.",
        ),
        places=_places(shown, sorted(places, key=lambda p: (p.backend, p)), ""),
    )  # fmt: skip


def _wins(shown: View) -> Counter[Place]:
    """Number of models whose lowest latency on a system is at each place."""
    found: Counter[Place] = Counter()
    for own in shown.by_model.values():
        for system in {each.place.system for each in own}:
            best = shown.fastest([each for each in own if each.place.system == system])
            if best is not None:
                found[best.place] += 1
    return found


_COLUMNS: dict[str | Column, Callable[[View, Entry], str | Cell]] = {
    "Network": lambda shown, each: shown.network(each, ""),
    Column("Kind", is_text=True): lambda _, each: words.KINDS[each.subject.kind],
    Column("Family", is_text=True): lambda shown, each: ", ".join(
        shown.atlas.networks[each.subject.signature].families
    ),
    Column("Quantity", is_text=True): lambda _, each: view.quantity(each),
    "Value": lambda _, each: view.value(each),
    "90% interval": lambda _, each: view.ends(each),
    Column("From", is_text=True): lambda _, each: view.origin(each),
    Column("System", is_text=True): lambda shown, each: shown.systems[each.place.system],
    Column("Backend", is_text=True): lambda shown, each: shown.backends[each.place],
    "Threads": lambda _, each: str(each.place.threads),
    "Samples": lambda _, each: view.samples(each),
    Column("Setup", is_text=True): lambda _, each: view.setup(each),
    Column("Last", is_text=True): lambda _, each: view.measured_on(each),
}
"""Columns of the table of everything, and what they say of a value."""


def _measurements(shown: View) -> Iterator[File]:
    """The page of everything, and a script with its rows: pages on disk cannot fetch data."""
    entries = shown.atlas.entries
    rows = [[told(shown, each) for told in _COLUMNS.values()] for each in entries]
    first = table(_COLUMNS, rows[:ROWS],
                  "≈: not measured. Intervals are sorted by their width relative to the value.",
                  names_wrap=True)  # fmt: skip
    yield "measurements.js", f"const atlasRows = {_as_json(rows)};\n"
    yield (
        "measurements.html",
        _page(
            shown, "measurements.html", "", "Measurements",
            [f"{count(len(entries), 'value')} of models and bricks.", words.origin(shown.atlas)],
            values=first, number=len(entries),
        ),
    )  # fmt: skip


def _as_json(rows: Sequence[Sequence[str | Cell]]) -> str:
    """Rows as the script reads them: each different cell once, and places of cells."""
    cells: dict[str, int] = {}
    places = [
        [cells.setdefault(json.dumps(_plain(cell)), len(cells)) for cell in row] for row in rows
    ]
    return f"{{cells:[{','.join(cells)}],rows:{json.dumps(places, separators=(',', ':'))}}}"


def _plain(cell: str | Cell) -> Any:
    """A cell as the script reads it: its text, or text, key, link and classes."""
    if isinstance(cell, str):
        return harmless(cell)
    found = [harmless(cell.text), cell.key, cell.link, cell.marks]
    while len(found) > 1 and found[-1] == "":
        del found[-1]
    return found if len(found) > 1 else found[0]


def _plot(marks: Sequence[Mark]) -> dict[str, Any] | None:
    """A plot of the lowest values that are larger than 0; ``None`` where there are none."""
    shown = [each for each in marks if each.value > 0][:_MOST_MARKS]
    if not shown:
        return None
    return {"axis": Axis.over(shown), "marks": shown, "left_out": len(marks) - len(shown)}
