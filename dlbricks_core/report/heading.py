"""Setup of a run in words: backend, threads, protocol, system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import Calibration, Quantity
from dlbricks_core.measure.request import Request
from dlbricks_core.report.remarks import Remark, print_failures, print_notes, print_warnings
from dlbricks_core.report.tables import Console, print_lines, styled
from dlbricks_core.wording import count


def subject(result: RunResult) -> str:
    """Models and backend of a run: ``resnet50 on onnxruntime 1.23.0, 2 threads``.

    A quantity other than latency comes first: ``Load time of resnet50 on ...``.
    """
    place = backend(result.request)
    if result.phase_threads:
        each = ", ".join(f"{name} {number}" for name, number in result.phase_threads.items())
        place = f"{result.request.backend.name} {result.request.setup.version}, threads: {each}"
    return of_quantity(result.request, f"{models(result)} on {place}")


def of_quantity(request: Request, what: str) -> str:
    """The subject of figures, preceded by the quantity's name unless that is latency."""
    if request.metric is None:
        return what
    return f"{quantity_name(request.quantity).capitalize()} of {what}"


def quantity_name(quantity: Quantity) -> str:
    """A quantity's name in a sentence: ``load time``."""
    return quantity.name.replace("-", " ")


def models(result: RunResult) -> str:
    """Name of the run's model, or the number of models."""
    names = list(result.by_name)
    if len(names) == 1:
        return names[0]
    return count(len(names), "model") if names else "bricks"


def backend(request: Request) -> str:
    """Backend with its version, and threads."""
    threads = count(request.settings.threads, "thread")
    return f"{request.backend.name} {request.setup.version}, {threads}"


def options(request: Request) -> str:
    """Options of the backend: ``, memory_format=contiguous``; empty if there are none."""
    return "".join(f", {name}={value}" for name, value in request.settings.options.items())


def protocol(request: Request) -> str:
    """Description of the protocol."""
    return f"{request.protocol.name} protocol ({request.protocol.statistic_name}, {request.extent})"


def system(request: Request) -> str:
    """System behind the figures."""
    other = " (another machine than this one)" if request.elsewhere else ""
    name = f"{request.machine}: " if request.machine else ""
    return f"{name}{request.target.describe()}{other}"


def calibrated_with(calibration: Calibration) -> str:
    """Description of a calibration: its date, number of networks, and parameters."""
    values = ", ".join(f"{name} {value:.3f}" for name, value in calibration.values.items())
    networks = count(len(calibration.models), "network")
    return f"on {calibration.taken_at:%Y-%m-%d} with {networks}: {values}"


def print_setting(console: Console, result: RunResult, *, several: bool = False) -> None:
    """Prints the settings of a run, from which it can be repeated.

    Args:
        console: The console.
        result: The run.
        several: Whether backends were run side by side, each of which prints its own options.
    """
    request, cut = result.request, result.cut_options
    parts = [f"G={cut.granularity}", f"split {cut.strategy}", f"composer {cut.composer}"]
    if not several and result.call_ms:
        parts.append(f"timer {result.call_ms * 1e3:.1f} us a call, taken off each brick")
    text = f"{options(request).removeprefix(', ')}; " if options(request) and not several else ""
    console.print(styled((f"{text}{', '.join(parts)}; {protocol(request)}.", "dim")))
    console.print(styled((f"{system(request)}.", "dim")))
    if result.calibration:
        console.print(styled((f"Calibrated {calibrated_with(result.calibration)}", "dim")))


def print_result(
    console: Console,
    result: RunResult,
    answer: Sequence[str],
    shown: Iterable[str | Text | Table],
    remarks: Sequence[Remark],
) -> None:
    """Prints a result: the answer, doubts, tables, notes, failures, and the settings.

    The first sentence of the answer is bold. Empty parts are left out.
    """
    first, *others = answer
    print_lines(console, styled((first, "bold")), *others)
    print_warnings(console, remarks, len(result.failures))
    print_lines(console, *shown)
    print_notes(console, remarks)
    print_failures(console, result.failures)
    print_setting(console, result)
