r"""Compares timings through a fleet with those of the same host alone.

    python benchmarks/fleet.py SUITE onnxruntime --rounds 7 --threads 1 --runs 20

In each round the host times the suite alone ('dlbricks suite time') and through a fleet of itself
('dlbricks fleet run'), in alternating order. Each timing has a new store and, for the fleet, a new
spool. A scheduler and a worker run all the time, even while the host is alone, so that both ways
have the same neighbours. With --quiet-alone they run only for the fleet.

The output has a line for each brick: medians over rounds of its latencies alone and through the
fleet, and their ratio. Then follow the ratio of the sums over all bricks, with its extremes over
rounds, and the spread of the rounds within each way. Further options are passed to both commands.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from dlbricks_core.store import ResultStore

COMMAND = (sys.executable, "-m", "dlbricks_core.cli")

Latencies = Mapping[str, float]
"""Median latency in milliseconds, by the brick's signature."""


def main() -> None:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("backend")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quiet-alone", action="store_true")
    asked, options = parser.parse_known_args()
    how = ("--backend", asked.backend, *options)
    suite = asked.suite.absolute()
    alone: list[Latencies] = []
    fleet: list[Latencies] = []
    with tempfile.TemporaryDirectory(prefix="dlbricks-fleet-") as name, ExitStack() as stack:
        folder = Path(name)
        if not asked.quiet_alone:  # an idle client, as in a real fleet
            stack.enter_context(fleet_of(folder, [("idle", None)]))
        for number in range(asked.rounds):
            ways = [(alone, time_alone), (fleet, time_through_fleet)]
            for taken, time in ways if number % 2 else ways[::-1]:
                taken.append(time(suite, folder, f"{number}", how))
            print(f"round {number + 1}: {ratio(alone[-1], fleet[-1]) - 1:+.2%}", flush=True)
    report(alone, fleet)


def time_alone(suite: Path, folder: Path, number: str, how: Sequence[str]) -> Latencies:
    """Latencies of the suite's bricks, timed by this host alone."""
    store = folder / f"alone{number}.db"
    subprocess.run([*COMMAND, "suite", "time", suite, *how, "-q", "--store", store], check=True)
    return latencies(store)


def time_through_fleet(suite: Path, folder: Path, number: str, how: Sequence[str]) -> Latencies:
    """Latencies of the suite's bricks, timed by this host as the only one of a fleet."""
    store = folder / f"fleet{number}.db"
    with fleet_of(folder, [(f"spool{number}", None)]) as address:
        command = ("fleet", "run", suite, "--scheduler", address, *how, "-q", "--store", store)
        subprocess.run([*COMMAND, *command], check=True)
    return latencies(store)


@contextmanager
def fleet_of(folder: Path, hosts: Sequence[tuple[str, int | None]]) -> Iterator[str]:
    """Starts a scheduler and workers, and yields the scheduler's address.

    Args:
        folder: Folder of the spools.
        hosts: Spool of each worker, and the core that it is pinned to; ``None`` for all cores.
    """
    with ExitStack() as stack:

        def start(*words: str, core: int | None = None) -> subprocess.Popen[str]:
            pinned = () if core is None else ("taskset", "-c", str(core))
            process = subprocess.Popen(
                [*pinned, *COMMAND, "fleet", *words], stderr=subprocess.PIPE, text=True, cwd=folder
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        def said(process: subprocess.Popen[str], word: str) -> str:
            assert process.stderr is not None
            return next(line for line in process.stderr if word in line)

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
        address = said(scheduler, "Scheduler at").split()[-1]
        for spool, core in hosts:
            said(start("worker", "--scheduler", address, "--spool", spool, core=core), "Joined")
        yield address


def latencies(path: Path) -> Latencies:
    """Median latency of each brick in a store."""
    with ResultStore.open(path, writes=False) as store:
        return {
            each.question.subject.signature: float(np.median(each.values))
            for each in store.measurements()
            if each.values
        }


def ratio(alone: Latencies, fleet: Latencies) -> float:
    """Sum over all bricks through the fleet, over the sum alone."""
    assert alone.keys() == fleet.keys()
    return sum(fleet.values()) / sum(alone.values())


def report(alone: Sequence[Latencies], fleet: Sequence[Latencies]) -> None:
    """Prints a line for each brick, and the ratio of the sums."""
    print(f"{'brick':8} {'alone ms':>10} {'fleet ms':>10} {'ratio':>8}")
    medians: list[Latencies] = [
        {brick: float(np.median([each[brick] for each in way])) for brick in alone[0]}
        for way in (alone, fleet)
    ]
    for brick in sorted(alone[0], key=lambda each: -medians[0][each]):
        one, other = medians[0][brick], medians[1][brick]
        print(f"{brick[:8]} {one:10.4f} {other:10.4f} {other / one - 1:+8.2%}")
    rounds = [ratio(one, other) for one, other in zip(alone, fleet, strict=True)]
    print(
        f"all: {ratio(*medians) - 1:+.2%} "
        f"(rounds {min(rounds) - 1:+.2%} to {max(rounds) - 1:+.2%}; "
        f"rounds among themselves: alone ±{spread(alone):.2%}, fleet ±{spread(fleet):.2%})"
    )


def spread(way: Sequence[Latencies]) -> float:
    """Half of the range of the rounds' sums, relative to their median."""
    sums = [sum(each.values()) for each in way]
    return float((max(sums) - min(sums)) / 2 / np.median(sums))


if __name__ == "__main__":
    main()
