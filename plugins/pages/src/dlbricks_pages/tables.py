"""Tables of the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dlbricks_core.bricks.naming import fold, operator_name
from dlbricks_core.report.tables import ms
from dlbricks_pages import view
from dlbricks_pages.contents import (
    BASES,
    BrickShare,
    MachineSetup,
    NetworkValue,
)
from dlbricks_pages.html.templating import Cell, PageTable, page_table
from dlbricks_pages.view import View

#: Function that returns a column's cell for a value, given the path from the page to the site's
#: folder.
_Value = Callable[[View, NetworkValue, str], str | Cell]

_NUMBERS: dict[str, _Value] = {
    "Value": lambda _, each, __: view.value(each),
    "90% interval": lambda _, each, __: view.ends(each),
    "Threads": lambda _, each, __: str(each.place.threads),
    "Samples": lambda _, each, __: str(each.evidence.samples) if each.evidence else "–",
    "Load": lambda _, each, __: view.load(each),
}
_TEXTS: dict[str, _Value] = {
    "Network": lambda shown, each, root: shown.network(each, root),
    "Kind": lambda _, each, __: view.KINDS[each.subject.kind],
    "Family": lambda shown, each, _: ", ".join(
        shown.atlas.networks[each.subject.signature].families
    ),
    "Quantity": lambda _, each, __: Cell(view.quantity(each), "whole"),
    "From": lambda _, each, __: Cell(each.origin, f"origin {each.origin}"),
    "System": lambda shown, each, root: shown.system(each.place.home, root),
    "Backend": lambda shown, each, _: Cell(shown.backends[each.place], "whole"),
    "Setup": lambda _, each, __: Cell(view.setup(each), "whole"),
    "Last": lambda _, each, __: view.day(each.evidence.end if each.evidence else ""),
}

#: Columns of the table of all values.
EVERYTHING = ("Network", "Kind", "Family", "Quantity", "Value", "90% interval", "From", "Load",
              "System", "Backend", "Threads", "Samples", "Setup", "Last")  # fmt: skip

#: Columns of the values of one model.
OF_A_MODEL = ("System", "Backend", "Threads", "Kind", "Quantity", "Value", "90% interval", "From",
              "Load", "Samples", "Setup", "Last")  # fmt: skip

#: Columns of the values of models on one system.
OF_A_SYSTEM = ("Network", "Kind", "Backend", "Threads", "Quantity", "Value", "90% interval", "From",
               "Load", "Last")  # fmt: skip

#: Headings of the numbers that :func:`_numbers` gives.
_COUNTED = (*map(str.capitalize, BASES), "Bricks")

_NOT_MEASURED = (
    "≈: not measured. Intervals are sorted by their width relative to the value. Load: CPUs that "
    "other programs used during the measurement; on a quiet machine the value would be lower."
)


def values(
    shown: View, entries: Sequence[NetworkValue], columns: Sequence[str], root: str
) -> PageTable:
    """Values, one a row."""
    rows = rows_of(shown, entries, columns, root)
    return page_table(columns, rows, _NOT_MEASURED, words=_TEXTS, names_wrap=True)


def rows_of(
    shown: View, entries: Sequence[NetworkValue], columns: Sequence[str], root: str
) -> list[list[str | Cell]]:
    """Rows of :func:`values`; its arguments are the same."""
    makers = [(_NUMBERS | _TEXTS)[title] for title in columns]
    return [[each(shown, entry, root) for each in makers] for entry in entries]


def systems(shown: View) -> PageTable:
    """All systems."""
    entries = shown.atlas.entries
    numbers = Counter(each.place.home for each in entries)
    models = {(e.place.home, e.subject.signature) for e in entries if e.subject.is_whole}
    modelled = Counter(home for home, _ in models)
    return page_table(
        ("System", "Cores", "Hardware", "Models", "Values"),
        [
            [
                shown.system(home, ""),
                str(shown.atlas.systems[home[0]].physical_cores or "–"),
                view.hardware(shown.atlas.systems[home[0]]),
                str(modelled[home]),
                str(numbers[home]),
            ]
            for home in shown.atlas.machines
        ],
        "Models: models with a value. Values: of models and bricks.",
        words=["Hardware"],
        names_wrap=True,
    )


def places(shown: View, found: Sequence[MachineSetup], root: str) -> PageTable:
    """Places, with the number and the dates of the measurements at each."""
    return page_table(
        ("System", "Backend", "Threads", *_COUNTED, "Failed", "First", "Last"),
        [
            [
                shown.system(place.home, root),
                Cell(shown.backends[place], "whole"),
                str(place.threads),
                *_numbers(shown.by_place[place]),
                str(len(shown.failures[place])),
                *view.span(shown.by_place[place]),
            ]
            for place in found
        ],
        "Measured, composed, predicted: models with a value. Bricks: measured bricks. First, last: "
        "day of the measurement.",
        words=("Backend", "First", "Last"),
        names_wrap=True,
    )


def models(shown: View) -> PageTable:
    """All models, each with its lowest latency."""
    return page_table(
        ("Model", "Layers", "Lowest latency", "90% interval", "From", "Load", "Where",
         *map(str.capitalize, BASES)),
        [_model(shown, signature) for signature in shown.atlas.models],
        "Latency in ms: the lowest measured one of all systems, backends and threads. Where there "
        "is none, it is the lowest composed one, or else the lowest predicted one, with ≈. Load: "
        "CPUs that other programs used during the measurement. Measured, composed, predicted: "
        "number of values.",
        words=("From", "Where"),
        names_wrap=True,
    )  # fmt: skip


def _model(shown: View, signature: str) -> list[str | Cell]:
    own = shown.by_model.get(signature, [])
    origins = Counter(each.origin for each in own)
    best = shown.fastest(own)
    lowest: list[str | Cell] = ["–"] * 5
    if best is not None:
        where = shown.where(best.place)
        lowest = [view.value(best), view.ends(best), Cell(best.origin, f"origin {best.origin}"),
                  view.load(best), where]  # fmt: skip
    return [
        shown.model(signature, ""),
        str(len(shown.atlas.networks[signature].layers) or "–"),
        *lowest,
        *(str(origins[basis]) for basis in BASES),
    ]


def backends(shown: View) -> PageTable:
    """All backends, by version and options."""
    wins = _wins(shown)
    return page_table(
        ("Backend", "Version", "Options", "Threads", "Systems", *_COUNTED, "Failed", "Fastest for"),
        [_backend(shown, *each, wins) for each in shown.places_by_version.items()],
        "Measured, composed, predicted: models with a value. Fastest for: pairs of a model and a "
        "system on which this backend has the lowest latency, with any threads; if the model was "
        "measured on the system, only measured latencies count.",
        words=("Version", "Options", "Threads"),
        names_wrap=True,
    )


def _backend(
    shown: View,
    version: tuple[str, str, str],
    own: Sequence[MachineSetup],
    wins: Mapping[MachineSetup, int],
) -> list[str | Cell]:
    return [
        *version[:2],
        view.options(own[0]),
        ", ".join(map(str, sorted({place.threads for place in own}))),
        str(len({place.home for place in own})),
        *_numbers([each for place in own for each in shown.by_place[place]]),
        str(sum(len(shown.failures[place]) for place in own)),
        str(sum(wins[place] for place in own)),
    ]


def _wins(shown: View) -> Counter[MachineSetup]:
    """Number of models whose lowest latency on a system is at each place."""
    best = (
        shown.fastest(entries)
        for own in shown.by_model.values()
        for entries in view.grouped(own, lambda each: each.place.home).values()
    )
    return Counter(each.place for each in best if each is not None)


def _numbers(entries: Sequence[NetworkValue]) -> list[str]:
    """Numbers of measured, composed and predicted models, and of measured bricks."""
    kinds = {(not each.subject.is_whole, each.origin, each.subject.signature) for each in entries}
    found = Counter((is_brick, origin) for is_brick, origin, _ in kinds)
    return [str(found[False, basis]) for basis in BASES] + [str(found[True, "measured"])]


def bricks(shares: Sequence[BrickShare]) -> PageTable:
    """Bricks of a model in descending order of time."""
    return _shares(
        "Brick",
        [
            (
                f"{fold(list(map(operator_name, each.operators)))} · {view.short(each.signature)}",
                each.times,
                each.ms,
            )
            for each in shares
        ],
        "Milliseconds of all occurrences together, without the cost of a call of the timer.",
    )


def parts(by_kind: Mapping[str, tuple[int, float]]) -> PageTable:
    """Kinds of layers of a model in descending order of time."""
    found = sorted(by_kind.items(), key=lambda item: -item[1][1])
    return _shares(
        "Kind of layer",
        [(view.plain(kind), times, each_ms) for kind, (times, each_ms) in found],
        "Predicted milliseconds of all layers of a kind together.",
    )


def _shares(what: str, found: Sequence[tuple[str, int, float]], caption: str) -> PageTable:
    """Parts of a model: names, occurrences, and milliseconds."""
    whole = sum(each for *_, each in found)
    return page_table(
        [what, "Occurs", "ms", "Share in %"],
        [
            [name, str(times), Cell(ms(each), key=each),
             f"{100 * each / whole:.1f}" if whole else "–"]
            for name, times, each in found
        ],
        caption,
        names_wrap=True,
    )  # fmt: skip


def operators(layers: Sequence[str]) -> PageTable:
    """Operators of a model, the most frequent first."""
    found = Counter(operator_name(each) for each in layers)
    return page_table(["Operator", "Layers"], [[name, str(n)] for name, n in found.most_common()])
