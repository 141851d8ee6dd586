r"""Estimates of published architectures, one after the other, as a user meets them over the years.

    python benchmarks/keeping_up.py BACKEND THREADS OUTPUT [--precision 10% 5%] [--number N]
                                    [--together N] [--reference-data on|off] [--files FOLDER]

Run it in the repository's root. Architectures are taken in the order of their publication, as many
together as a user might meet at once. The plain script times them, and ``dlbricks estimate``
estimates them: it finds the measurements of all architectures before them in a store, one for each
precision.

OUTPUT.json and OUTPUT.png have the seconds of both from the shell, the errors of the estimates
against the plain script, and the share of intervals that hold its latencies. Both are written anew
after each command. Without reference data, dlbricks has nothing but its store.

The architectures are those of ``networks/public``; for MXNet, the networks of Gluon's model zoo.
Writing a network as a file is part of nobody's time. With --number, as many of them take part,
evenly spread. A folder that ``networks/export.py --public`` filled saves their export.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
import shell
from matplotlib.figure import Figure
from networks.public import ARCHITECTURES

_HERE = Path(__file__).parent

_CHUNK_BYTES = 2**24

_LABELS = 25
"""Number of labels for which an axis has room."""

_ZOO = {
    "alexnet": "2012-12",
    **dict.fromkeys([f"vgg{depth}" for depth in (11, 13, 16, 19)], "2014-09"),
    **dict.fromkeys([f"vgg{depth}_bn" for depth in (11, 13, 16, 19)], "2015-02"),
    "inceptionv3": "2015-12",
    **dict.fromkeys([f"resnet{depth}_v1" for depth in (18, 34, 50, 101, 152)], "2015-12"),
    "squeezenet1.0": "2016-02",
    **dict.fromkeys([f"resnet{depth}_v2" for depth in (18, 34, 50, 101, 152)], "2016-03"),
    **dict.fromkeys([f"densenet{depth}" for depth in (121, 161, 169, 201)], "2016-08"),
    "squeezenet1.1": "2016-09",
    **dict.fromkeys([f"mobilenet{width}" for width in ("1.0", "0.75", "0.5", "0.25")], "2017-04"),
    **dict.fromkeys([f"mobilenetv2_{w}" for w in ("1.0", "0.75", "0.5", "0.25")], "2018-01"),
}
"""Networks of Gluon's model zoo, with the year and month of their publication."""


def listed(backend: str) -> dict[str, str]:
    """Names of the backend's architectures, with the year and month of their publication."""
    if backend == "mxnet":
        return _ZOO
    return {name: each.published for name, each in ARCHITECTURES.items()}


@contextmanager
def model(backend: str, name: str, files: Path | None) -> Iterator[str]:
    """The words that name an architecture on the command line; a file lasts as long as needed."""
    if files is not None and (path := files / f"{name}.onnx").exists():
        _warm(path)
        yield str(path)
    elif backend == "mxnet":
        yield f"mxnet:{name}"
    elif backend == "pytorch":
        yield f"torch:benchmarks.{ARCHITECTURES[name].spec}"
    else:
        with TemporaryDirectory() as folder:
            script = _HERE / "networks" / "export.py"
            shell.run([sys.executable, str(script), folder, name, "--public"])
            yield str(Path(folder) / f"{name}.onnx")


def _warm(path: Path) -> None:
    """Reads a file once, so that whoever runs first does not wait for the disk."""
    with path.open("rb") as file:
        while file.read(_CHUNK_BYTES):
            pass


def estimated(
    sources: Sequence[str], precision: str, truths: Sequence[float], given: Namespace, store: Path
) -> list[dict[str, Any]]:
    """Costs and errors of the estimates of one command, in the order of the models.

    Args:
        sources: The models.
        precision: Half-width of the intervals to reach.
        truths: Latencies in milliseconds that the plain script tells.
        given: Backend, number of threads, and whether reference data are known.
        store: Path of the store.
    """
    words = shell.dlbricks(
        ["estimate", "--measure", "--precision", precision],
        given.backend,
        given.threads,
        store,
        given.reference_data == "on",
    )
    ran = shell.run([*words, *sources])
    with TemporaryDirectory() as folder:
        # A record has hashes of all files, which an estimate does not need: it is written later.
        path = Path(folder) / "report.json"
        shell.run([*words, *sources, "--json", str(path)])
        report = json.loads(path.read_text())
    return [
        {
            "seconds": ran.seconds / len(sources),
            "estimate_ms": each.ms,
            "error": each.error(truth),
            "covered": None if each.ms is None else each.low <= truth <= each.high,
        }
        for each, truth in zip(shell.estimates(report, sources), truths, strict=True)
    ]


def rows_of(names: Sequence[str], given: Namespace, stores: Path) -> list[dict[str, Any]]:
    """Latencies of architectures that the plain script and dlbricks tell, and their costs."""
    with ExitStack() as opened:
        sources = [opened.enter_context(model(given.backend, name, given.files)) for name in names]
        ran, truths = shell.plain(given.backend, given.threads, sources)
        rows: list[dict[str, Any]] = [
            {"name": name, "plain_ms": truth, "plain_seconds": ran.seconds / len(names)}
            for name, truth in zip(names, truths, strict=True)
        ]
        for precision in given.precision:
            store = stores / f"{precision}.sqlite"
            found = estimated(sources, precision, truths, given, store)
            for row, own in zip(rows, found, strict=True):
                row[precision] = own
    return rows


def drawn(rows: Sequence[dict], precisions: Sequence[str], path: Path) -> None:
    """Draws seconds, errors and coverage over the architectures."""
    mpl.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(8, 7), layout="constrained")
    seconds, errors, covered = figure.subplots(3, sharex=True)
    places = np.arange(1, len(rows) + 1)
    seconds.plot(places, [*accumulate(row["plain_seconds"] for row in rows)], "k",
                 label="plain script")  # fmt: skip
    for precision in precisions:
        own = [row[precision] for row in rows]
        (line,) = seconds.plot(places, [*accumulate(each["seconds"] for each in own)],
                               label=f"dlbricks estimate --precision {precision}")  # fmt: skip
        known = [i for i, each in enumerate(own) if each["error"] is not None]
        off = np.array([abs(own[i]["error"]) for i in known])
        inside = np.array([own[i]["covered"] for i in known])
        counts = np.arange(1, len(known) + 1)
        color = line.get_color()
        errors.plot(places[known], off, ".", color=color, alpha=0.5)
        errors.plot(places[known], np.cumsum(off) / counts, color=color, label=f"mean, {precision}")
        covered.plot(places[known], np.cumsum(inside) / counts, color=color, label=precision)
    covered.axhline(0.9, color="gray", linestyle=":")
    seconds.set_ylabel("cumulative seconds")
    errors.set(ylabel="error against the plain script", ylim=(0, 0.5))
    covered.set(ylabel="share in 90% intervals", ylim=(0.5, 1.02))
    years = [row["published"][:4] for row in rows]
    first = [i for i, year in enumerate(years) if i == 0 or years[i - 1] != year]
    # Labels of years with few architectures would overlap.
    shown = [i for i, end in pairwise([*first, len(rows)]) if end - i > len(rows) / _LABELS]
    covered.set_xticks(places[shown], [years[i] for i in shown])
    for axes in (seconds, errors, covered):
        axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Goes through the architectures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=("mxnet", "onnxruntime", "pytorch"))
    parser.add_argument("threads", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument("--precision", nargs="+", default=["10%", "5%"])
    parser.add_argument("--number", type=int)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--reference-data", choices=("on", "off"), default="on")
    given = parser.parse_args()
    rows: list[dict] = []
    failures: dict[str, str] = {}
    settings = {**vars(given), "output": str(given.output), "files": bool(given.files)}
    every = [*listed(given.backend).items()]
    number = min(given.number or len(every), len(every))
    taken = [every[i * len(every) // number] for i in range(number)]
    with TemporaryDirectory() as stores:
        for start in range(0, number, given.together):
            names = [name for name, _ in taken[start : start + given.together]]
            try:
                found = rows_of(names, given, Path(stores))
            except (RuntimeError, subprocess.SubprocessError) as error:
                failures[", ".join(names)] = str(error)
                print(f"{', '.join(names)}: {str(error).splitlines()[-1]}", flush=True)
                continue
            rows += [{**row, "published": published} for row, (_, published) in
                     zip(found, taken[start : start + given.together], strict=True)]  # fmt: skip
            print(f"{rows[-1]['published']}: {said(rows, given.precision)}", flush=True)
            content = {**settings, "architectures": rows, "failures": failures}
            given.output.with_suffix(".json").write_text(json.dumps(content, indent=1))
            drawn(rows, given.precision, given.output.with_suffix(".png"))


def said(rows: Sequence[dict[str, Any]], precisions: Sequence[str]) -> str:
    """Seconds, errors and coverage so far, in a line."""
    plain_s = sum(row["plain_seconds"] for row in rows)
    parts = [f"{len(rows)} architectures, plain {plain_s:.0f} s"]
    for precision in precisions:
        own = [row[precision] for row in rows if row[precision]["error"] is not None]
        error = np.mean([abs(each["error"]) for each in own])
        covered = np.mean([each["covered"] for each in own])
        seconds = sum(row[precision]["seconds"] for row in rows)
        parts.append(f"{precision} {seconds:.0f} s, error {error:.1%}, covered {covered:.0%}")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
