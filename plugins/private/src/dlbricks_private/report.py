"""A private suite and its exposure to attackers, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dlbricks_suite.folder import Suite

from dlbricks_core.facts import Failure
from dlbricks_core.report.data import SCHEMA_VERSION, WrittenData, failures_data
from dlbricks_core.report.remarks import Effect, Remark, print_failures, print_warnings
from dlbricks_core.report.tables import Console, styled, table
from dlbricks_core.wording import argument, count, listed
from dlbricks_private.exposure import Privacy
from dlbricks_private.suites import Hidden

if TYPE_CHECKING:
    from dlbricks_suite.writing import HiddenBricksData, SuiteWriteData


class PrivateAttackData(WrittenData):
    """Output of ``dlbricks private attack``: exposure of a private suite to attackers."""

    suite: AttackedSuiteData  #: The suite.
    exposed: list[ExposedModelData]  #: Exposure of each model.
    #: Success of each attacker against decoys; none for a suite without decoys.
    attackers: list[AttackerData]
    standing_out: list[StandingBrickData]  #: True bricks that reveal more than others.


class AttackedSuiteData(TypedDict):
    """The attacked suite."""

    bricks: int  #: Number of its bricks.
    true: int  #: Number of those that a model of the owner has.


class ExposedModelData(TypedDict):
    """Exposure of one model to attackers."""

    name: str  #: Name of the model.
    layers: int  #: Number of its layers.
    bricks: int  #: Number of bricks that it consists of.
    #: Decimal logarithm of the number of chains between the same ends, of as many bricks.
    log10_candidates: float
    #: Decimal logarithm of the number of ways to take another brick in each place.
    log10_choices: float
    #: The same as the candidates, after the best attacker has dropped all bricks that he can
    #: without losing a true one.
    log10_candidates_left: float
    best_attacker: str  #: Name of that attacker; empty if none can drop anything.
    published: list[str]  #: Published models whose bricks are all in the suite.


class AttackerData(TypedDict):
    """A method that separates true bricks from decoys."""

    name: str  #: Name of the attacker.
    #: Mean of the shares of true bricks and of decoys that are sorted rightly; 0.5 is a guess.
    balanced_accuracy: float
    #: The same over suites of published models, each judged by who has seen none of its family;
    #: ``null`` for attackers that do not learn.
    balanced_accuracy_on_others: float | None


class StandingBrickData(TypedDict):
    """A true brick that stands out."""

    signature: str  #: Signature of the brick.
    name: str  #: Name of the brick.
    layers: list[str]  #: Operators of its layers.
    reasons: list[str]  #: Why it stands out.


_SHOWN = 10
"""Maximum number of bricks that the report names; the JSON names all."""

_NAMED = 3
"""Maximum number of models that a warning names."""


def print_suite(
    console: Console,
    suite: Suite,
    hidden: Hidden,
    folder: Path,
    key: Path,
    failures: Sequence[Failure],
) -> None:
    """Prints a summary of a written suite, what decoys do not hide, and failures.

    Args:
        console: The console.
        suite: The written suite.
        hidden: Its true bricks and decoys.
        folder: Folder of the suite.
        key: Path of its key.
        failures: Models and bricks that could not be read or written.
    """
    decoys = count(_numbers(suite, hidden)["decoys"], "decoy")
    console.print(f"{count(len(suite.bricks), 'brick')} in {folder}", soft_wrap=True)
    console.print(f"{decoys} among them. Keep the key: {key}", soft_wrap=True)
    print_warnings(console, [Remark(Effect.WARNING, each) for each in _exposed(hidden)])
    print_failures(console, failures)


def suite_data(
    suite: Suite, hidden: Hidden, folder: Path, failures: Sequence[Failure]
) -> SuiteWriteData:
    """Summary of a written suite as a JSON object for scripts.

    It counts decoys without identifying them, so the object reveals nothing about the key.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "settings": None,
        "models": [],
        "bricks": [
            {"signature": each.brick.signature, "layers": list(each.brick.operators)}
            for each in suite.bricks
        ],
        "private": _numbers(suite, hidden),
        "failures": failures_data(failures),
    }


def _numbers(suite: Suite, hidden: Hidden) -> HiddenBricksData:
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
            f"models that are one brick each stand whole in the suite: "
            f"{listed(hidden.whole, _NAMED)}; shorter bricks ({argument('granularity')}) hide more"
        )
    if hidden.decoys and hidden.bare:
        of = f"{hidden.bare} of {count(len(hidden.brickset.bricks), 'true brick')}"
        yield (
            f"no decoy fits {of}: an attacker may know them ('dlbricks private attack' names them)"
        )


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


def privacy_data(found: Privacy) -> PrivateAttackData:
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
