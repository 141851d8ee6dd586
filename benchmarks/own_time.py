r"""Seconds, memory and errors of dlbricks' commands, beside the plain script that a user writes.

    python benchmarks/own_time.py BACKEND THREADS MODEL... [--rounds R] [--json FILE]

In each round the plain script (``plain/``) and the commands run one after the other from the shell,
each once for all models. Each command begins with an empty store, except for the last, which finds
all measurements of the one before it. It runs twice: with an empty cache of imported models (cold),
and with one that holds all of them (warm). The reference latency of a model is the median of the
plain script's latencies over all rounds. So the plain script has errors too: those of a single
round. The plain script runs once more at the end of each round. Its errors there are the floor of
all others: they are the machine's own, from one minute to another.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

import shell
from rich.console import Console
from rich.table import Table

_CACHES = ("cold", "warm")
_PLAIN = "plain script"
_PLAIN_LATER = "plain script, later"
_HEADINGS = ("command", "cache", "seconds", "ratio", "peak MB", "mean error", "maximum", "within",
             "covered", "missing", "stages")  # fmt: skip
_WIDTH = 140
"""Fewest characters of a line of the table."""


@dataclass(frozen=True)
class Command:
    """A command of dlbricks.

    Attributes:
        name: Its name in tables.
        words: Its words, without the models and what all commands have in common.
        precision: Error that the user allows, relative.
        again: Whether it finds the measurements of the command before it.
    """

    name: str
    words: tuple[str, ...]
    precision: float | None = None
    again: bool = False


def precisely(share: str) -> tuple[str, ...]:
    """The words of a run of some precision."""
    return "estimate", "--measure", "--precision", share


COMMANDS = (
    Command("estimate", ("estimate",)),
    Command("estimate, 20%", precisely("20%"), 0.2),
    Command("estimate, 5%", precisely("5%"), 0.05),
    Command("estimate, 10%", precisely("10%"), 0.1),
    Command("estimate, 10%, again", precisely("10%"), 0.1, again=True),
)


@dataclass(frozen=True)
class Sample:
    """One run of a command, or of the plain script.

    Attributes:
        command: Name of the command.
        cache: State of the cache of imported models.
        seconds: Seconds of the wall clock.
        ratio: These seconds, relative to those of the plain script in the same round.
        peak_bytes: Most bytes of memory that its processes held at once.
        estimates: Estimate of each model.
        stages: Seconds that the command tells itself, by field.
    """

    command: str
    cache: str
    seconds: float
    ratio: float
    peak_bytes: int
    estimates: list[shell.Estimate]
    stages: dict[str, float]


def fill(backend: str, threads: int, models: Sequence[str], warm: Path) -> None:
    """Puts the imported models into a cache."""
    with TemporaryDirectory() as folder:
        words = shell.dlbricks(["estimate"], backend, threads, Path(folder) / "empty.sqlite")
        shell.run([*words, *models], {"XDG_CACHE_HOME": str(warm)})


def one_round(backend: str, threads: int, models: Sequence[str], warm: Path) -> list[Sample]:
    """The plain script and all commands, once each, cold and warm.

    Args:
        backend: Name of the backend.
        threads: Number of threads.
        models: Files or names of the models.
        warm: Folder of a cache that holds the models.
    """
    ran, first = plainly(_PLAIN, backend, threads, models)
    samples = [first]
    for cache in _CACHES:
        with TemporaryDirectory() as folder:
            store = Path(folder)
            for i, command in enumerate(COMMANDS):
                name = f"{i - command.again}.sqlite"
                words = shell.dlbricks(command.words, backend, threads, store / name)
                caches = str(warm if cache == "warm" else store / f"cache-{i}")
                report = store / "report.json"
                ended = shell.run(
                    [*words, *models, "--json", str(report)], {"XDG_CACHE_HOME": caches}
                )
                told = json.loads(report.read_text())
                found, stages = shell.estimates(told, models), shell.stages(told)
                ratio = ended.seconds / ran
                samples.append(
                    Sample(command.name, cache, ended.seconds, ratio, ended.peak_bytes, found,
                           stages)
                )  # fmt: skip
    seconds, later = plainly(_PLAIN_LATER, backend, threads, models)
    return [*samples, replace(later, ratio=seconds / ran)]


def plainly(name: str, backend: str, threads: int, models: Sequence[str]) -> tuple[float, Sample]:
    """Seconds of the plain script, and a sample of it under a name."""
    ended, medians = shell.plain(backend, threads, models)
    exact = [shell.Estimate(ms, ms, ms) for ms in medians]
    return ended.seconds, Sample(name, "", ended.seconds, 1.0, ended.peak_bytes, exact, {})


def judged(samples: Sequence[Sample], truth: Sequence[float], precision: float | None) -> list[str]:
    """Errors of a command's estimates, and how often its promises hold."""
    pairs = [
        (each, ms) for sample in samples for each, ms in zip(sample.estimates, truth, strict=True)
    ]
    known = [(each, each.error(ms), ms) for each, ms in pairs if each.ms is not None]
    if not known:
        return ["-"] * 4 + [f"{len(pairs)}"]
    off = [abs(error) for _, error, _ in known]
    within = "-" if precision is None else f"{fmean(e <= precision for e in off):.0%}"
    covered = (
        "-"
        if samples[0].command in (_PLAIN, _PLAIN_LATER)
        else f"{fmean(each.low <= ms <= each.high for each, _, ms in known):.0%}"
    )
    missing = str(len(pairs) - len(known))
    return [f"{fmean(off):.1%}", f"{max(off):.1%}", within, covered, missing]


def report(samples: Sequence[Sample]) -> None:
    """Prints what commands cost, how far they are off, and the seconds of their stages."""
    plain = [each for each in samples if each.command == _PLAIN]
    rounds = [[estimate.ms for estimate in each.estimates] for each in plain]
    truth = [median(column) for column in zip(*rounds, strict=True)]
    table = Table(title="Medians over the rounds")
    for heading in _HEADINGS:
        table.add_column(heading)
    precisions = {each.name: each.precision for each in COMMANDS}
    for kind in dict.fromkeys((each.command, each.cache) for each in samples):
        own = [each for each in samples if (each.command, each.cache) == kind]
        table.add_row(
            *kind, f"{median(e.seconds for e in own):.2f}", f"{median(e.ratio for e in own):.2f}",
            f"{median(e.peak_bytes for e in own) / 1e6:.0f}",
            *judged(own, truth, precisions.get(kind[0])), told(own),
        )  # fmt: skip
    Console(width=max(Console().width, _WIDTH)).print(table)


def told(samples: Sequence[Sample]) -> str:
    """Seconds of the stages that a command tells itself."""
    names = dict.fromkeys(name for each in samples for name in each.stages)
    medians = {name: median(each.stages.get(name, 0.0) for each in samples) for name in names}
    return ", ".join(f"{name.removesuffix('_s')} {value:.2f}" for name, value in medians.items())


def main() -> None:
    """Runs the rounds and prints tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_intermixed_args()
    samples = []
    with TemporaryDirectory() as warm:
        fill(given.backend, given.threads, given.models, Path(warm))
        for number in range(given.rounds):
            samples += one_round(given.backend, given.threads, given.models, Path(warm))
            print(f"round {number + 1} of {given.rounds} done", flush=True)
    report(samples)
    if given.json:
        content = {**vars(given), "json": None, "samples": [asdict(each) for each in samples]}
        given.json.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
