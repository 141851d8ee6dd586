"""Commands as a user types them: the plain script of a backend, and dlbricks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

import psutil

_PLAIN = Path(__file__).parent / "plain"
_WITHOUT = Path(__file__).parent / "without_reference_data.py"

_INTERVAL_S = 0.05
"""Seconds between two looks at the memory."""

_UNUSUAL = "PYTHONDONTWRITEBYTECODE"
"""Variable that no user sets: where it is set, each process compiles all modules of DLBricks."""

_OK, _PARTIAL = 0, 3
"""Exit statuses of commands that are done, or done but for some models."""


@dataclass(frozen=True)
class Ran:
    """A command that ended.

    Attributes:
        seconds: Seconds of the wall clock.
        peak_bytes: Most bytes of memory that its processes held at once, shared ones counted in
            each.
        output: Its standard output.
    """

    seconds: float
    peak_bytes: int
    output: str


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> Ran:
    """Runs a command to its end.

    Raises:
        RuntimeError: If it fails.
    """
    begin = perf_counter()
    usual = {name: value for name, value in os.environ.items() if name != _UNUSUAL}
    with (
        subprocess.Popen(
            command,
            env={**usual, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        ThreadPoolExecutor(1) as watcher,
    ):
        peak = watcher.submit(_watched, process, psutil.Process(process.pid))
        output, errors = process.communicate()
        seconds = perf_counter() - begin
    if process.returncode not in (_OK, _PARTIAL):
        raise RuntimeError(f"{' '.join(command)}\n{output}{errors}")
    return Ran(seconds, peak.result(), output)


def _watched(process: subprocess.Popen[str], watched: psutil.Process) -> int:
    """Most bytes of memory that a process and its descendants held, until it ends."""
    peak = 0
    while process.returncode is None:
        peak = max(peak, _memory(watched))
        sleep(_INTERVAL_S)
    return peak


def _memory(process: psutil.Process) -> int:
    """Bytes of memory of a process and its descendants."""
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    for each in family:
        try:
            total += each.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def plain(backend: str, threads: int, models: Sequence[str]) -> tuple[Ran, list[float]]:
    """The backend's plain script on some models, and their medians in milliseconds."""
    script = _PLAIN / f"run_{backend}.py"
    ran = run([sys.executable, str(script), "--threads", str(threads), *models])
    return ran, [json.loads(line)["median_ms"] for line in ran.output.splitlines()]


def dlbricks(
    words: Sequence[str], backend: str, threads: int, store: Path, reference_data: bool = True
) -> list[str]:
    """A command line of dlbricks with a store of its own.

    Args:
        words: The command and its own options.
        backend: Name of the backend.
        threads: Number of threads.
        store: Path of the store.
        reference_data: Whether measurements that come with the package are known.
    """
    program = [str(Path(sys.executable).with_name("dlbricks"))]
    if not reference_data:
        program = [sys.executable, str(_WITHOUT)]
    return [
        *program, *words, "--backend", backend, "--threads", str(threads), "--store", str(store)
    ]  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """An estimate of dlbricks.

    Attributes:
        ms: Latency in milliseconds; ``None`` where there is no whole estimate.
        low: Lower end of its 90% interval.
        high: Upper end.
    """

    ms: float | None
    low: float
    high: float

    def error(self, truth: float) -> float | None:
        """Relative error, if there is an estimate."""
        return None if self.ms is None else self.ms / truth - 1


def estimates(report: Mapping[str, object], models: Sequence[str]) -> list[Estimate]:
    """The estimates in what dlbricks wrote as JSON, in the order of the models."""
    by_source = {each["source"]: each for each in report["models"]}  # type: ignore[attr-defined]
    return [_estimate(by_source.get(model)) for model in models]


def _estimate(model: Mapping[str, object] | None) -> Estimate:
    if model is None or model["partial"] or model["estimate"] is None:
        return Estimate(None, float("nan"), float("nan"))
    ms = model["estimate"]
    low, high = model["interval"] or (ms, ms)  # type: ignore[misc]
    return Estimate(ms, low, high)  # type: ignore[arg-type]


def stages(report: Mapping[str, object]) -> dict[str, float]:
    """Seconds of its own work in dlbricks's JSON, by field."""
    return {
        field: seconds
        for name in ("effort", "adaptive", "benchmarking")
        for field, seconds in _seconds(report.get(name), "")
        if seconds > 0
    }


def _seconds(value: object, name: str) -> Iterator[tuple[str, float]]:
    """All fields of seconds within a value of JSON."""
    if isinstance(value, dict):
        for field, inner in value.items():
            yield from _seconds(inner, field)
    elif name.endswith("_s") and isinstance(value, int | float):
        yield name, float(value)
