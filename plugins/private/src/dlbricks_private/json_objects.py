"""Exposure of private suites in JSON."""

from __future__ import annotations

from typing import TypedDict

from dlbricks_core.report.data import WrittenData


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
