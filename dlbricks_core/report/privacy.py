"""Exposure of a private suite to attackers, as text and as plain data."""

from __future__ import annotations

from typing import Any

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.heading import count
from dlbricks_core.report.tables import table
from dlbricks_core.workflows.privacy import Privacy

_SHOWN = 10
"""Maximum number of bricks that the report names; the JSON names all."""


def print_privacy(console: Console, found: Privacy) -> None:
    """Prints candidates, attackers and bricks that stand out."""
    decoys = found.bricks - found.true
    heading = f"{count(found.bricks, 'brick')}: {found.true:,} true, {count(decoys, 'decoy')}"
    console.print(styled((heading, "bold")))
    shown = table("Model", "Layers", "Bricks", "Candidates", "Order known", "Left")
    for each in found.models:
        layers, bricks = len(each.cut.model.layers), len(each.cut.occurrences)
        numbers = (each.candidates, each.choices, each.left)
        shown.add_row(each.cut.model.name, f"{layers:,}", f"{bricks:,}", *map(_power, numbers))
    console.print(shown)
    console.print(
        "Candidates: models that fit end to end between the same ends, of as many bricks. "
        "Order known: those for one who knows the order of all shapes. Left: the candidates after "
        "the best attacker has dropped all that he can without losing the model.",
        style="dim",
    )
    if found.accuracies:
        attackers = table("Attacker", "Balanced accuracy", "On other models")
        for name, accuracy in found.accuracies.items():
            average = found.validated.get(name)
            shown_average = "" if average is None else f"{average:.2f}"
            attackers.add_row(name, f"{accuracy:.2f}", shown_average)
        console.print(attackers)
        console.print("0.5 is a guess; 1 tells every decoy.", style="dim")
    for each in found.models:
        if each.published:
            names = ", ".join(each.published)
            console.print(styled(("Recognizable:", "red"), f" the suite holds all of {names}"))
    if found.standing_out:
        console.print(styled((f"Bricks that stand out: {len(found.standing_out)}", "bold")))
        for brick in found.standing_out[:_SHOWN]:
            console.print(f"  {brick.name} ({brick.brick.signature[:8]}): "
                          f"{'; '.join(brick.reasons)}")  # fmt: skip
        if len(found.standing_out) > _SHOWN:
            console.print(f"  ... and {len(found.standing_out) - _SHOWN} more")


def privacy_data(found: Privacy) -> dict[str, Any]:
    """The results as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": {"bricks": found.bricks, "true": found.true},
        "exposed": [
            {
                "name": each.cut.model.name,
                "layers": len(each.cut.model.layers),
                "bricks": len(each.cut.occurrences),
                "log10_candidates": each.candidates,
                "log10_choices": each.choices,
                "log10_candidates_left": each.left,
                "best_attacker": each.by,
                "published": list(each.published),
            }
            for each in found.models
        ],
        "attackers": [
            {
                "name": name,
                "balanced_accuracy": accuracy,
                "balanced_accuracy_on_others": found.validated.get(name),
            }
            for name, accuracy in found.accuracies.items()
        ],
        "standing_out": [
            {
                "signature": each.brick.signature,
                "name": each.name,
                "layers": list(each.brick.operators),
                "reasons": list(each.reasons),
            }
            for each in found.standing_out
        ],
    }


def _power(log10: float) -> str:
    """A number of candidates: ``1``, ``2,400``, ``10^23``."""
    return f"{round(10**log10):,}" if log10 < 6 else f"10^{log10:.0f}"
