"""A suite that was written, in words and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dlbricks_core.facts import Failure
from dlbricks_core.report.console import Console
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
from dlbricks_core.report.heading import count
from dlbricks_core.report.remarks import Effect, Remark, print_failures, print_warnings
from dlbricks_core.suites import Suite
from dlbricks_core.wording import argument, listed
from dlbricks_core.workflows.private import Hidden

_NAMED = 3
"""Maximum number of models that a warning names."""


def print_generated(
    console: Console,
    suite: Suite,
    folder: Path,
    failures: Sequence[Failure],
    hidden: Hidden | None = None,
    key: Path | None = None,
) -> None:
    """Prints a summary of a written suite, and failures.

    Args:
        console: The console.
        suite: The written suite.
        folder: Folder of the suite.
        failures: Models and bricks that could not be read or written.
        hidden: Bricks and decoys of a private suite.
        key: Path of the key to a private suite.
    """
    bricks = count(len(suite.bricks), "brick")
    models = f"{count(len(suite.models), 'model')} of " if suite.models else ""
    console.print(f"{models}{bricks} in {folder}", soft_wrap=True)
    if hidden is not None:
        decoys = count(_numbers(suite, hidden)["decoys"], "decoy")
        console.print(f"{decoys} among them. Keep the key: {key}", soft_wrap=True)
        print_warnings(console, [Remark(Effect.WARNING, each) for each in _exposed(hidden)])
    print_failures(console, failures)


def generated_data(
    suite: Suite, folder: Path, failures: Sequence[Failure], hidden: Hidden | None = None
) -> dict[str, Any]:
    """Summary of a written suite as a JSON object for scripts.

    For a private suite it counts decoys without identifying them, so the object reveals nothing
    about the key.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "models": [
            {"name": each.model.name, "layers": len(each.model.layers)} for each in suite.models
        ],
        "bricks": [
            {"signature": each.brick.signature, "layers": list(each.brick.operators)}
            for each in suite.bricks
        ],
        "private": None if hidden is None else _numbers(suite, hidden),
        **failures_data(failures),
    }


def _numbers(suite: Suite, hidden: Hidden) -> dict[str, int]:
    """Numbers of true bricks and of decoys that were written, and of what decoys do not hide."""
    decoys = sum(each.brick.signature in hidden.decoys for each in suite.bricks)
    return {
        "true": len(suite.bricks) - decoys,
        "decoys": decoys,
        "without_decoys": hidden.bare,
        "whole_models": len(hidden.whole),
    }


def _exposed(hidden: Hidden) -> Iterator[str]:
    """Sentences on what decoys do not hide."""
    if hidden.whole:
        yield (
            f"the suite shows {listed(hidden.whole, _NAMED)} whole, as one brick each: shorter "
            f"bricks ({argument('granularity')}) hide more"
        )
    if hidden.decoys and hidden.bare:
        of = f"{hidden.bare} of {count(len(hidden.brickset.bricks), 'true brick')}"
        yield f"no decoy fits {of}: an attacker may know them ('dlbricks privacy' names them)"
