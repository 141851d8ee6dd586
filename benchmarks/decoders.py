r"""Estimates of decoders beside whole models, and the same estimates without room for the whole.

    python benchmarks/decoders.py BACKEND THREADS MODEL...
    python benchmarks/decoders.py onnxruntime 2 1b --depths 128,1024 --prompts 128 --json FILE

A MODEL is one of the decoders that this file writes itself (tiny, 0.1b, 1b, 8b, 70b), or any model
with the open dimensions `batch`, `sequence` and `past`. For each, one output token at each depth
and each prompt are estimated, and the whole model is timed in the same rounds: error, 90% interval,
and whether it holds the measured latency. An output token reads all weights and the whole cache
once: that over the measured time is the bandwidth that it implies, and stands beside the machine's.

Then the estimate is made again in a process whose memory is limited (`ulimit -d`) to less than the
whole model takes: that is how models are estimated that are larger than the machine. After it the
whole model is timed once more. The error of the limited estimate is against the mean of both
latencies of the whole, and how far the second is from the first is printed beside it: so much did
the machine's memory change meanwhile.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dlbricks_decoders.onnx_files import SHAPES, write_decoder
from dlbricks_sizes.machine_speed import read_bandwidth

from dlbricks_core.compose.options import DEFAULT_COMPOSER, CutOptions
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.run import run
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text as note_text
from dlbricks_core.store import ResultStore

LIMIT_SHARE = 0.9
"""Memory limit of the second estimate, as a share of the whole model's memory."""

LEAST_BYTES = 3 * 2**29
"""Minimum bytes that frameworks and bricks need; smaller models are not limited."""


@dataclass(frozen=True)
class Case:
    """One output token at a depth, or a prompt.

    Attributes:
        sequence: Number of new tokens.
        past: Number of tokens in the cache.
    """

    sequence: int
    past: int

    def __str__(self) -> str:
        return f"token@{self.past}" if self.sequence == 1 else f"prompt {self.sequence}"


@dataclass(frozen=True)
class Row:
    """Figures of a model in one case; times in milliseconds, bandwidth in GB a second.

    Attributes:
        model: Name of the model.
        case: The case in words.
        estimate_ms: Estimate from bricks.
        interval_ms: 90% interval of the estimate.
        measured_ms: Latency of the whole model; ``None`` if it was not timed.
        error: Relative error of the estimate.
        covered: Whether the interval holds the measured latency.
        notes: Remarks on the figures, such as that whole and bricks ran at different times.
        implied_gb_s: Bytes of weights and cache over the measured latency, or over the estimate.
        peak_gb: Peak memory of the run.
        failures: Failures with their reasons.
        limit_gb: Memory limit of the second estimate; ``None`` if it was not made.
        limited_ms: The second estimate.
        limited_error: Relative error of the second estimate against the mean of the whole model's
            latencies before and after it.
        drift: Relative change of the whole model's latency from before to after.
        limited_peak_gb: Peak memory of the second estimate.
    """

    model: str
    case: str
    estimate_ms: float | None
    interval_ms: tuple[float, float] | None
    measured_ms: float | None
    error: float | None
    covered: bool | None
    notes: tuple[str, ...]
    implied_gb_s: float | None
    peak_gb: float
    failures: tuple[str, ...]
    limit_gb: float | None = None
    limited_ms: float | None = None
    limited_error: float | None = None
    drift: float | None = None
    limited_peak_gb: float | None = None


@dataclass(frozen=True)
class Bench:
    """Settings for all models."""

    backend: str
    threads: int
    rounds: int
    dtype: str | None

    def row(self, spec: str, case: Case, *, end_to_end: bool) -> tuple[Row, int]:
        """Figures of a model, and the bytes of the whole model."""
        dims = {"batch": 1, "sequence": case.sequence, "past": case.past}
        (model,) = load_models([spec], LoadOptions(dims=dims, dtype=self.dtype), Observer()).models
        request = Request.of(self.backend, threads=self.threads, runs=self.rounds)
        cut = CutOptions.chosen(None, None, DEFAULT_COMPOSER)
        with (
            tempfile.TemporaryDirectory() as folder,
            ResultStore.open(str(Path(folder) / "results.sqlite")) as store,
        ):
            result = run([model], cut, request, store, Observer(), end_to_end=end_to_end)
        (found,) = result.models
        failures = tuple(f"failed: {each.where}: {each.reason}" for each in result.failures)
        peak_gb = (result.peak_bytes or 0) / 1e9
        taken = found.memory.needed_bytes if found.memory else 0
        return _row(model, case, found, peak_gb, failures), taken

    def limited(self, spec: str, case: Case, limit: int) -> Row:
        """The estimate of a process with limited memory."""
        command = [sys.executable, __file__, self.backend, str(self.threads), spec,
                   "--rounds", str(self.rounds), "--only", f"{case.sequence},{case.past}",
                   "--limit-bytes", str(limit)]  # fmt: skip
        if self.dtype:
            command += ["--dtype", self.dtype]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{spec}, {case}, within {limit / 1e9:.1f} GB:\n{done.stderr}")
        return Row(**json.loads(done.stdout.splitlines()[-1]))


def limit_memory(nbytes: int) -> None:
    """Limits the bytes of this process, and of each process that it starts, like ``ulimit -d``."""
    resource.setrlimit(resource.RLIMIT_DATA, (nbytes, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _row(
    model: CanonicalModel, case: Case, found: ModelResult, peak_gb: float, failures: tuple[str, ...]
) -> Row:
    estimate, interval = found.estimate.value, found.estimate.interval
    measured = found.measured.value if found.measured else None
    memory = found.memory
    read = memory.weights_bytes + memory.cache_bytes / 2 if memory and case.sequence == 1 else None
    known_ms = measured or estimate
    return Row(
        model=model.name,
        case=str(case),
        estimate_ms=estimate,
        interval_ms=interval,
        measured_ms=measured,
        error=estimate / measured - 1 if estimate and measured else None,
        covered=interval[0] <= measured <= interval[1] if interval and measured else None,
        notes=tuple(map(note_text, found.notes)),
        implied_gb_s=read / known_ms / 1e6 if read and known_ms else None,
        peak_gb=peak_gb,
        failures=failures,
    )


def _rows(bench: Bench, specs: Sequence[str], cases: Sequence[Case]) -> Iterator[Row]:
    for spec in specs:
        for case in cases:
            row, taken = bench.row(spec, case, end_to_end=True)
            limit = int(LIMIT_SHARE * taken)
            if limit < LEAST_BYTES:
                yield row
                continue
            other = bench.limited(spec, case, limit)
            after, _ = bench.row(spec, case, end_to_end=True)
            yield _with_limited(row, other, after, limit)


def _with_limited(row: Row, limited: Row, after: Row, limit: int) -> Row:
    """Figures of a model, with those of a limited estimate and of the whole model after it."""
    figures: dict[str, float | None] = {}
    if row.measured_ms and after.measured_ms:
        figures["drift"] = after.measured_ms / row.measured_ms - 1
        if limited.estimate_ms:
            mean_ms = (row.measured_ms + after.measured_ms) / 2
            figures["limited_error"] = limited.estimate_ms / mean_ms - 1
    return replace(
        row,
        failures=(*row.failures, *(f"limited, {each}" for each in limited.failures)),
        limit_gb=limit / 1e9,
        limited_ms=limited.estimate_ms,
        limited_peak_gb=limited.peak_gb,
        **figures,
    )


def _printed(row: Row) -> str:
    def text(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    low, high = row.interval_ms or (None, None)
    covered = {None: "-", True: "yes", False: "no"}[row.covered]
    return (
        f"{row.model[:8]:8} {row.case:11} {text(row.estimate_ms, '.4g'):>7} "
        f"{text(low, '.4g') + '-' + text(high, '.4g'):>13} {text(row.measured_ms, '.4g'):>7} "
        f"{text(row.error, '+.1%'):>7} {covered:>3} {text(row.implied_gb_s, '.1f'):>5} "
        f"{text(row.limited_error, '+.1%'):>7} {text(row.drift, '+.1%'):>6}"
    )


def _specs(names: Sequence[str], folder: Path) -> list[str]:
    """Files of decoders; those that this script defines are written first."""
    found = []
    for name in names:
        if name in SHAPES:
            (folder / name).mkdir()
            found.append(str(write_decoder(folder / name, SHAPES[name], name)))
        else:
            found.append(name)
    return found


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def main() -> None:
    """Prints a table, and writes JSON."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--depths", type=_numbers, default=[128, 1024], help="tokens in the cache")
    parser.add_argument("--prompts", type=_numbers, default=[128], help="tokens of a prompt")
    parser.add_argument("--dtype", help="element type that models are converted to")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each network")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--only", type=_numbers, help=argparse.SUPPRESS)
    parser.add_argument("--limit-bytes", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    bench = Bench(given.backend, given.threads, given.rounds, given.dtype)
    if given.limit_bytes:
        limit_memory(given.limit_bytes)
        row, _ = bench.row(given.models[0], Case(*given.only), end_to_end=False)
        print(json.dumps(asdict(row)))
        return
    bandwidth = read_bandwidth(given.threads) / 1e9
    cases = [*(Case(1, depth) for depth in given.depths), *(Case(n, 0) for n in given.prompts)]
    print(f"{given.backend}, {given.threads} threads; memory delivers {bandwidth:.1f} GB/s")
    print("model    case        est. ms  90% interval meas. ms   error  in  GB/s limited drift")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in _rows(bench, _specs(given.models, Path(folder)), cases):
            rows.append(row)
            print(_printed(row), flush=True)
            for text in (*row.notes, *row.failures):
                print(f"  {text}")
    if given.json:
        about_all = {"backend": given.backend, "threads": given.threads, "gb_s": bandwidth}
        given.json.write_text(json.dumps({**about_all, "rows": list(map(asdict, rows))}, indent=1))


if __name__ == "__main__":
    main()
