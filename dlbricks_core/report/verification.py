"""Whether backends agree, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dlbricks_core.facts import Failure
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.tables import table
from dlbricks_core.workflows import Verdict, VerifyOptions
from dlbricks_core.workflows.verify import REFERENCE


def print_verification(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Prints the number of agreements, the problems, and a table of all verdicts."""
    agreeing = sum(verdict.agrees for verdict in verdicts)
    style = "bold" if agreeing == len(verdicts) else "bold red"
    text = f"{agreeing} of {len(verdicts)} agree, within the tolerance."
    console.print(styled((text, style)))
    _print_problems(console, verdicts)
    shown = table("Model", "Backend", "Compared with", "Largest error", "Result", left=3)
    for verdict in sorted(verdicts, key=lambda each: each.agrees):
        shown.add_row(
            verdict.model,
            verdict.backend,
            _reference(verdict),
            "-" if verdict.error is None else f"{verdict.error:.1e}",
            styled((_result(verdict), "" if verdict.agrees else "red")),
        )
    console.print(shown)
    # Remarks are the same for all backends of a model.
    for model, remark in dict.fromkeys((v.model, each) for v in verdicts for each in v.remarks):
        console.print(f"Remark: {model}: {remark}")


def _print_problems(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Prints distinct failures and unsupported layers."""
    for model, failure in dict.fromkeys((v.model, v.reference_failure) for v in verdicts):
        if failure:
            console.print(styled(("Failed:", "red"), f" {model} on the {REFERENCE}: {failure}"))
    for verdict in verdicts:
        where = f"{verdict.model} on {verdict.backend}"
        for each in verdict.unsupported:
            console.print(styled(("Unsupported:", "red"), f" {where}: {_unsupported(each)}"))
        if verdict.failure:
            console.print(styled(("Failed:", "red"), f" {where}: {verdict.failure}"))


def verification_data(verdicts: Sequence[Verdict], options: VerifyOptions) -> dict[str, Any]:
    """Verdicts as the JSON object that scripts read.

    An infinite error, from a value that is missing or infinite on one side only, is written as
    null with ``"finite": false``.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "settings": asdict(options),
        "verdicts": [
            {
                "model": verdict.model,
                "backend": verdict.backend,
                "reference": verdict.reference or None,
                "agrees": verdict.agrees,
                "error": _finite(verdict.error),
                "allowance": verdict.allowance,
                "finite": verdict.error is None or math.isfinite(verdict.error),
                "varied": verdict.varied if verdict.error is not None else None,
                "unsupported": [
                    {"operator": each.part, "layers": each.layers, "reason": each.reason}
                    for each in verdict.unsupported
                ],
                "failure": verdict.failure or None,
                "remarks": list(verdict.remarks),
                "reference_failure": verdict.reference_failure or None,
                "disputed": verdict.disputed,
            }
            for verdict in verdicts
        ],
    }


def _result(verdict: Verdict) -> str:
    if verdict.unsupported:
        return "unsupported"
    if verdict.error is None:
        return "failed"
    if verdict.error > verdict.tolerance:
        return "differs"
    if verdict.disputed:
        return "disputed"
    return "agrees" if verdict.varied else "constant"


def _reference(verdict: Verdict) -> str:
    if verdict.reference == verdict.backend:
        return "(reference)"
    return verdict.reference or "-"


def _unsupported(failure: Failure) -> str:
    if not failure.part:
        return failure.reason
    times = f" (x{failure.layers})" if failure.layers > 1 else ""
    # Backends name the operator in their reasons.
    return f"{failure.part}{times}: {failure.reason.removeprefix(f'{failure.part}: ')}"


def _finite(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None
