r"""Compares the time that several equal hosts of a fleet take for a suite with that of one.

    python benchmarks/fleet_speedup.py SUITE onnxruntime --rounds 3 --threads 1 --runs 20

Each host is a worker that is pinned to a core of its own: to a fleet, two cores are two hosts of
one kind. In each round one host times the suite, and then all cores do, with a new store and new
spools. The output has a line for each round: seconds of `dlbricks fleet run`, and their ratio. A
part of every run is done by one host alone (rewriting models by the framework), or by each host
(importing the framework). Further options are passed to the command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from fleet import COMMAND, fleet_of, latencies


def main() -> None:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("backend")
    parser.add_argument("--rounds", type=int, default=3)
    asked, options = parser.parse_known_args()
    how = ("--backend", asked.backend, *options)
    cores = sorted(os.sched_getaffinity(0))
    shares = []
    with tempfile.TemporaryDirectory(prefix="dlbricks-fleet-") as name:
        for number in range(asked.rounds):
            one, several = (
                seconds(asked.suite.absolute(), Path(name), f"{number}-{len(own)}", own, how)
                for own in (cores[:1], cores)
            )
            shares.append(several / one)
            print(
                f"round {number + 1}: 1 host {one:.1f} s, {len(cores)} hosts {several:.1f} s, "
                f"{several / one:.2f} of it",
                flush=True,
            )
    print(f"median {median(shares):.2f}; equal shares would be {1 / len(cores):.2f}")


def seconds(
    suite: Path, folder: Path, number: str, cores: Sequence[int], how: Sequence[str]
) -> float:
    """Seconds in which hosts on these cores time the suite."""
    store = folder / f"{number}.db"
    hosts = [(f"spool{number}-{core}", core) for core in cores]
    with fleet_of(folder, hosts) as address:
        begin = perf_counter()
        command = ("fleet", "run", suite, "--scheduler", address, *how, "-q", "--store", store)
        subprocess.run([*COMMAND, *command], check=True)
        taken = perf_counter() - begin
    print(f"  {len(latencies(store))} bricks by {len(cores)} hosts", flush=True)
    return taken


if __name__ == "__main__":
    main()
