"""Probes of a system as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from dlbricks_core.facts import Failure
from dlbricks_core.figures.widths import spread_text
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION, backend_data, failures_data, system_data
from dlbricks_core.report.heading import backend, count, system
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows.probes import Probing, TimedProbe

_WARNINGS = 3
"""Maximum number of printed warnings: each batch of probes may have its own."""


def print_probing(console: Console, probing: Probing, unread: Sequence[Failure] = ()) -> None:
    """Prints the timed networks, and the gain in precision for others."""
    console.print(styled((f"{backend(probing.request)}: {_answer(probing)}", "bold")))
    for warning in probing.outcome.warnings[:_WARNINGS]:
        console.print(styled(("Warning:", "yellow"), f" {warning}"))
    if probing.probes:
        console.print(_table(probing.probes))
    if not probing.probes and not probing.outcome.failures:
        console.print(
            f"No probe is left that would tell more: {count(probing.known, 'network')} had been "
            "measured here before."
        )
    if probing.elsewhere:
        console.print(f"Expected from what was measured on: {', '.join(probing.elsewhere)}.")
    else:
        console.print("No other system is known with this backend: expectations are rough.")
    print_failures(console, (*unread, *_failures(probing)))
    console.print(styled((f"{system(probing.request)}.", "dim")))


def _answer(probing: Probing) -> str:
    before, after = _median(probing.before), _median(probing.after)
    widths = f"{spread_text(before)} before, {spread_text(after)} now"
    networks = count(len(probing.asked), "network")
    cost = f"{count(len(probing.probes), 'probe')}, {probing.seconds:.0f} s"
    return f"{widths} (median 90% interval of {networks}); {cost}."


def _median(widths: Sequence[float] | np.ndarray[Any, Any]) -> float:
    return float(np.median(widths)) if len(widths) else 0.0


def _table(probes: Sequence[TimedProbe]) -> Table:
    shown = table("Probe", "Layers", "Expected ms", "Measured ms", left=2)
    for each in probes:
        layers = " ".join(each.brick.operators)
        shown.add_row(each.name, layers, ms(each.expected_ms), ms(each.measured.value))
    return shown


def probing_data(probing: Probing, unread: Sequence[Failure] = ()) -> dict[str, Any]:
    """Probes of a system as the JSON object that scripts read."""
    request = probing.request
    widths = zip(probing.asked, probing.before, probing.after, strict=True)
    return {
        "schema_version": SCHEMA_VERSION,
        "system": system_data(request),
        "backend": backend_data(request),
        "settings": {
            "threads": request.settings.threads,
            "runs": request.runs,
            "seed": request.seed,
        },
        "seconds": probing.seconds,
        "known": probing.known,
        "elsewhere": list(probing.elsewhere),
        "probes": [
            {
                "name": each.name,
                "signature": each.brick.signature,
                "layers": list(each.brick.operators),
                "expected_ms": each.expected_ms,
                "measured_ms": each.measured.value,
            }
            for each in probing.probes
        ],
        "half_width_before": _median(probing.before),
        "half_width": _median(probing.after),
        "networks": [
            {"name": name, "half_width_before": float(before), "half_width": float(after)}
            for name, before, after in widths
        ],
        "warnings": list(probing.outcome.warnings),
        **failures_data((*unread, *_failures(probing))),
    }


def _failures(probing: Probing) -> list[Failure]:
    """Networks that could not be timed. Networks that the backend does not support do not count."""
    outcome = probing.outcome
    return [
        Failure(f"probe {key.subject.signature[:8]}", reason, "measure")
        for key, reason in outcome.failures.items()
        if key not in outcome.unsupported
    ]
