"""Commands on damaged files of every kind that DLBricks reads.

    python benchmarks/fuzz.py --minutes 10 --seed 1 [--keep findings] [--reader onnx]

Each file is drawn from a small sound one by some mutations, and given to a command in a process,
limited to 2 GB and 60 s. It is a finding if the exit status is not 0 (read), 2 (refused)
or 3 (done in part), if a limit is exceeded, or if a line of a traceback is printed. Findings are
reduced to the fewest of their mutations, and kept in a folder each: the files, the command, and
the text that it printed. The same seed draws the same files of a reader in the same order.

Each reader has a process that loads its modules once, and forks the commands and their workers.
Several small inputs share a fork, one after the other; what seems wrong is tried again in a fork of
its own, and is a finding only if it is wrong there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).parents[1]
os.environ["DLBRICKS_TURNS"] = ""  # no input waits until another measurement ends
for folder in ("tests/fuzz", "plugins/mxnet/tests", "plugins/pytorch/tests", "tests/fleet"):
    sys.path.append(str(ROOT / folder))

from fuzzing.drawn import Input, Outcome, Reader, draw  # noqa: E402
from fuzzing.processes import run, run_together, warm, write  # noqa: E402
from fuzzing.readers import READERS, contents, readers  # noqa: E402

__all__ = ["Input", "Outcome", "Reader", "contents", "draw", "readers", "run"]

_TURN_S = 20.0
"""Seconds that a reader draws inputs before another one does."""


def reduced(reader: Reader, drawn: Input, wrong: str) -> Input:
    """The input without mutations that the finding does not need."""
    for step in drawn.steps:
        less = replace(drawn, steps=tuple(each for each in drawn.steps if each != step))
        if less.steps and run(reader, less)[0].wrong == wrong:
            drawn = less
    return drawn


def keep(folder: Path, reader: Reader, drawn: Input) -> Path:
    """Writes a reduced finding: its files, the command, and the text that it printed."""
    outcome, files = run(reader, drawn)
    place = folder / "-".join(map(str, (reader.name, drawn.base, drawn.command, *drawn.steps)))
    shutil.rmtree(place, ignore_errors=True)
    write(place, files)
    about = f"dlbricks {reader.commands[drawn.command]}\n{drawn}\nstatus {outcome.status}\n"
    (place / "finding.txt").write_text(about + outcome.said, errors="replace")
    return place


@dataclass
class Tally:
    """Count of what became of a reader's inputs.

    Attributes:
        counts: Number of inputs by exit status, and of findings.
        found: Folder of the first of the findings that are alike, by their defect.
        slowest: Seconds of the slowest input.
        seconds: Processor seconds of all inputs: of drawing them, and of their processes.
    """

    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, Path] = field(default_factory=dict)
    slowest: float = 0.0
    seconds: float = 0.0

    def line(self, name: str) -> str:
        """One line for the user."""
        listed = ", ".join(f"{kind} {number}" for kind, number in sorted(self.counts.items()))
        each = self.seconds / max(self.counts.total(), 1)
        return (
            f"{name:9} {self.counts.total():6} inputs; {each:.3f} s of a processor each, at most "
            f"{self.slowest:.1f} s; status {listed}"
        )


def _serve(reader: Reader, seed: int, folder: Path, line: Connection) -> None:
    """Draws inputs of a reader for as many seconds as each message says."""
    warm(reader)
    for number, command in enumerate(reader.commands):
        if reader.sound and (done := run(reader, Input(0, (), number))[0]).status not in (0, 3):
            # It would read no damaged ones.
            line.send(f"{command}: status {done.status} of sound files\n{done.said}")
            return
    line.send("")
    rng, tally = random.Random(f"{seed}/{reader.name}"), Tally()
    while seconds := line.recv():
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            _try(reader, [draw(reader, rng) for _ in range(reader.together)], folder, tally)
        line.send(tally)


def _try(reader: Reader, inputs: Sequence[Input], folder: Path, tally: Tally) -> None:
    begin = _processor_seconds()
    for drawn, outcome in zip(inputs, run_together(reader, inputs), strict=True):
        tally.slowest = max(tally.slowest, outcome.seconds)
        # The inputs before it may be to blame; and fewer than one of a thousand forks meets a lock
        # that a thread has: it does not do so twice.
        wrong = outcome.wrong and run(reader, drawn)[0].wrong
        tally.counts["finding" if wrong else str(outcome.status)] += 1
        if wrong and wrong not in tally.found:
            tally.found[wrong] = keep(folder, reader, reduced(reader, drawn, wrong))
            print(f"{reader.name}: {wrong} ({tally.found[wrong]})", flush=True)
    tally.seconds += _processor_seconds() - begin


def _processor_seconds() -> float:
    """Seconds that a processor worked for this process and those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def fuzz(names: Sequence[str], seed: int, seconds: float, folder: Path) -> int:
    """Draws inputs until the time is over, and prints what came of them.

    Args:
        names: Readers, which take turns.
        seed: Seed of all that is drawn.
        seconds: Duration in seconds, sound files not counted.
        folder: Folder of the findings.

    Returns:
        The number of findings that are not alike.
    """
    fork = multiprocessing.get_context("fork")
    tallies = dict.fromkeys(names, Tally())
    with tempfile.TemporaryDirectory(prefix="dlbricks-fuzz-") as place, ExitStack() as stack:
        lines = {}
        for reader in readers(Path(place), names):
            lines[reader.name], theirs = fork.Pipe()
            process = fork.Process(target=_serve, args=(reader, seed, folder, theirs), daemon=True)
            process.start()
            theirs.close()
            stack.callback(process.terminate)
            if refused := lines[reader.name].recv():
                sys.exit(refused)
        end = time.monotonic() + seconds
        turn = min(_TURN_S, seconds / len(names))
        while time.monotonic() < end:
            for name, line in lines.items():
                line.send(turn)
                try:
                    tallies[name] = line.recv()
                except EOFError:
                    sys.exit(f"the process of {name} has ended; its last input is to blame")
            _print(tallies, seed)
    return sum(len(each.found) for each in tallies.values())


def _print(tallies: dict[str, Tally], seed: int) -> None:
    for name, tally in tallies.items():
        print(tally.line(name))
    total = sum(each.counts.total() for each in tallies.values())
    findings = sum(len(each.found) for each in tallies.values())
    print(f"{total} inputs of seed {seed}; {findings} findings", flush=True)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("findings"), help="folder of findings")
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="only this one")
    given = parser.parse_args()
    names = given.reader or list(READERS)
    sys.exit(bool(fuzz(names, given.seed, given.minutes * 60, given.keep.absolute())))


if __name__ == "__main__":
    _main()
