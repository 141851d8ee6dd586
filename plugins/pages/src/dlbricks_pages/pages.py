"""Pages of a store, and the folder that they are written to."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict, cast

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Failure, System
from dlbricks_core.facts.system import Cache
from dlbricks_core.files import content
from dlbricks_core.report.data import SCHEMA_VERSION, ListedFailuresData, failures_data
from dlbricks_core.report.files import check_folder, file_error
from dlbricks_core.report.remarks import alike
from dlbricks_core.report.tables import Console, styled
from dlbricks_core.sanitize import sanitized
from dlbricks_core.wording import count
from dlbricks_pages import tables, view
from dlbricks_pages.contents import (
    BASES,
    Atlas,
    Home,
    MachineSetup,
    NetworkValue,
    check_number,
)
from dlbricks_pages.html.templating import Cell, Fact, page, render
from dlbricks_pages.view import Axis, Mark, View, holdings, origin


class ResultsPagesData(ListedFailuresData):
    """Output of ``dlbricks results pages``: content of its pages."""

    folder: str  #: Folder of the pages.
    pages: int  #: Number of pages.
    systems: list[str]  #: Fingerprints of the systems.
    #: Machines that have a page: one for each system, or for each equal machine with a name.
    machines: list[PageMachineData]
    backends: list[str]  #: Names of the backends.
    models: int  #: Number of models.
    bricks: int  #: Number of bricks.
    values: int  #: Number of values of models and bricks, of all quantities.
    origin: OriginCountsData  #: Number of latencies of whole models by where they come from.


class PageMachineData(TypedDict):
    """A machine that has a page."""

    fingerprint: str  #: Fingerprint of its system.
    machine: str | None  #: Name of the machine, if it has one or equal machines are separated.


class OriginCountsData(TypedDict):
    """Number of latencies of whole models by where they come from."""

    measured: int  #: The model was timed.
    composed: int  #: All of its bricks were timed.
    predicted: int  #: A predictor gives it.


_UNKNOWN = "unknown"
_PACKAGE = "dlbricks_pages"


def facts_of(system: System) -> list[Fact]:
    """Facts about a system; unknown facts are named as unknown."""
    if not system.cpu:
        return [("Fingerprint", system.fingerprint), ("Facts", "the store holds none")]
    hypervisor = system.hypervisor or "none"
    found = {
        "Fingerprint": system.fingerprint,
        "Processor": system.cpu,
        "Microarchitecture": system.microarchitecture,
        "Instruction sets": ", ".join(system.isa),
        "Cores": f"{system.physical_cores} ({system.logical_cpus} logical CPUs), "
        f"{system.available_cores} usable",
        "Caches": ", ".join(map(_cache, system.caches)),
        "NUMA nodes": str(system.numa_nodes or ""),
        "Memory": _bytes(system.memory),
        "Memory limit": _bytes(system.memory_limit or 0) or "none",
        "Hypervisor": hypervisor,
        "Frequency governors": ", ".join(system.governors),
        "Boost": {True: "on", False: "off", None: ""}[system.boost],
        "Huge pages": system.huge_pages or "",
        "Operating system": f"{system.os}, Linux {system.kernel}",
        "Python": system.python,
    }
    return [(name, text or _UNKNOWN) for name, text in found.items()]


def _cache(cache: Cache) -> str:
    kind = "" if cache.kind == "unified" else f" {cache.kind}"
    return f"L{cache.level}{kind} {_bytes(cache.size)}"


def _bytes(number: int) -> str:
    """A number of bytes in the largest unit that it fills; empty for 0."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return (
                f"{number / size:.3g} {unit}"
                if number < 1000 * size
                else f"{number // size} {unit}"
            )
    return f"{number} B" if number else ""


ROWS = 100  #: Maximum rows that a table shows at a time.
_MOST_MARKS = 40  #: Maximum rows of a plot; tables show all rows.
_MOST_FAILED = 5  #: Maximum number of networks named for one reason of failure.
File = tuple[str, str]  #: Path of a file in the site, and its content.


def site(atlas: Atlas) -> Iterator[File]:
    """Files of the site, generated one by one to save memory."""
    check_number(len(atlas.models) + len(atlas.machines))
    shown = View(atlas)
    yield "style.css", render("site.css", _PACKAGE)
    yield "table.js", render("table.js", _PACKAGE, rows=ROWS)
    yield from _measurements(shown)
    yield "index.html", _overview(shown)
    yield "models.html", _models(shown)
    yield "backends.html", _backends(shown)
    for home, machine in atlas.machines.items():
        yield f"systems/{view.page_of(machine)}", _system(shown, home)
    for signature in atlas.models:
        yield f"models/{view.page_name(signature)}", _model(shown, signature)


def _page(shown: View, template: str, root: str, **values: Any) -> str:
    """A page; ``root`` is the path from it to the site's folder."""
    facts = [("Store", shown.atlas.source), ("Intervals", "90%")]
    return page(template, package=_PACKAGE, facts=facts, root=root, rows=ROWS, **values)


def _overview(shown: View) -> str:
    atlas = shown.atlas
    return _page(
        shown,
        "overview.html",
        "",
        title="Measurements of a store",
        answer=[view.holdings(atlas), view.origin(atlas)],
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
        answer=[f"{count(len(atlas.models), 'model')}.", view.origin(atlas)],
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
        nameless="" if known.name else view.NAMELESS,
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
            for each in shown.failures_of_model[signature]
        ],
    )


def _lowest(shown: View, latencies: Sequence[NetworkValue]) -> list[str]:
    """Sentences on the lowest latency of a model, on a lower one that is less sure, and origins."""
    known = shown.fastest(latencies)
    if known is None:
        return ["No latency is known."]
    best = min(latencies, key=lambda each: each.value)
    lower = f"{view.number(best)} ms is {best.origin}: {shown.where(best.place)}."
    origins = Counter(each.origin for each in latencies)
    shares = ", ".join(f"{origins[basis]} {basis}" for basis in BASES if origins[basis])
    return [
        f"{view.number(known)} ms at best, {known.origin}{view.beside(known)}: "
        f"{shown.where(known.place)}.",
        *([lower] if best.value < known.value else []),
        f"Origin of {view.latencies(len(latencies))}: {shares}.",
    ]


def _system(shown: View, home: Home) -> str:
    places = shown.places_of[home]
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


def _fastest(shown: View, entries: Sequence[NetworkValue]) -> list[Mark]:
    """The lowest latency of each model on a system; a measured latency precedes a predicted one."""
    by_model = view.grouped(entries, lambda each: each.subject.signature)
    best = [found for own in by_model.values() if (found := shown.fastest(own))]
    best.sort(key=view.surest_first)
    return [
        shown.mark(f"{shown.models[each.subject.signature]} · {shown.how(each.place)}", each)
        for each in best
    ]


def _failures(shown: View, places: Sequence[MachineSetup]) -> list[tuple[str, str]]:
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
                view.origin(shown.atlas),
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
        return sanitized(cell)
    return [sanitized(cell.text), cell.key, cell.link, cell.marks]


def _plot(marks: Sequence[Mark]) -> dict[str, Any] | None:
    """A plot of the first values that are larger than 0; ``None`` where there are none."""
    shown = [each for each in marks if each.value > 0][:_MOST_MARKS]
    if not shown:
        return None
    return {"axis": Axis.over(shown), "marks": shown, "left_out": len(marks) - len(shown)}


MANIFEST = "dlbricks-atlas.json"  #: File that marks a folder as a site, and lists its files.

_VERSION = 1  #: Version of its format.

_MOST_BYTES = 1 << 26  #: Maximum bytes of a manifest.


def check_site(folder: Path) -> None:
    """Checks that a site may be written to a folder, and leaves nothing behind.

    Raises:
        DLBricksError: If the folder cannot be made, or contains other files than a site.
    """
    target = Path(os.path.realpath(folder))
    check_folder(target.parent)
    with file_error(folder):
        if not target.exists():
            return
        if not target.is_dir():
            raise NotADirectoryError(0, "it is not a folder")
        strange = _strange(target)
    if strange:
        raise DLBricksError(
            f"{folder} contains {strange!r}, which no earlier pages have: nothing is overwritten",
            hint="Name a new folder, or one with earlier pages.",
        )


def write_site(files: Iterable[tuple[str, str]], folder: Path) -> list[str]:
    """Writes a site. The folder stays unchanged until the whole site is written.

    Args:
        files: Path of each file in the site, and its text.
        folder: Folder that becomes the site; an older site in it is replaced as a whole.

    Returns:
        Paths of the files.

    Raises:
        DLBricksError: If the folder may not be written, see :func:`check_site`.
    """
    check_site(folder)
    target = Path(os.path.realpath(folder))
    new = target.with_name(f".dlbricks-{secrets.token_hex(4)}")
    try:
        with file_error(folder):
            new.mkdir(parents=True)
            written = [_write(new / path, text, path) for path, text in files]
            listed = {"format": _VERSION, "files": sorted([*written, MANIFEST])}
            _write(new / MANIFEST, f"{json.dumps(listed, indent=1)}\n", MANIFEST)
            _replace(target, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return written


def _write(path: Path, text: str, name: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "backslashreplace"))
    return name


def _replace(target: Path, new: Path) -> None:
    """Replaces a folder by a new folder, and restores the old folder after a failure."""
    if not target.exists():
        new.rename(target)
        return
    old = new.with_name(f"{new.name}-old")
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


def _strange(folder: Path) -> str:
    """Name of a file in a folder that no atlas wrote; empty if there is none."""
    listed = _listed(folder)
    if not listed:  # the folder may be as large as a home folder
        return next((each.name for each in folder.iterdir()), "")
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    return min(found - listed, default="")


def _listed(folder: Path) -> set[str]:
    """Files in a folder that an atlas wrote; empty if the folder holds no atlas."""
    try:
        listed = json.loads(content(folder / MANIFEST, _MOST_BYTES))
        return {str(PurePosixPath(name)) for name in listed["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def print_atlas(console: Console, atlas: Atlas, folder: Path, files: Sequence[str]) -> None:
    """Prints the content of the site, and the path of its first page."""
    console.print(styled((holdings(atlas), "bold")))
    console.print(origin(atlas))
    console.print(f"{_pages(files)} pages: open {folder / 'index.html'}", soft_wrap=True)


def atlas_data(atlas: Atlas, folder: Path, files: Sequence[str]) -> ResultsPagesData:
    """Summary of the site as a JSON object for scripts."""
    origins = atlas.origins()
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "pages": _pages(files),
        "systems": list(atlas.systems),
        "machines": [
            {"fingerprint": fingerprint, "machine": name or None}
            for fingerprint, name in atlas.machines
        ],
        "backends": sorted({place.backend for place in atlas.places}),
        "models": len(atlas.models),
        "bricks": atlas.bricks,
        "values": len(atlas.entries),
        "origin": cast("OriginCountsData", {basis: origins[basis] for basis in BASES}),
        "failures": failures_data([]),
    }


def _pages(files: Sequence[str]) -> int:
    return sum(each.endswith(".html") for each in files)
