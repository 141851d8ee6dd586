"""Shows the owner of a private suite what an attacker can learn from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from dlbricks_suite.folder import read_suite

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.bricks.families import family_of
from dlbricks_core.bricks.naming import brick_name
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Benches
from dlbricks_core.progress import Observer
from dlbricks_private.chains import alternatives, log10_candidates, log10_of_choices
from dlbricks_private.cutting import Cutting
from dlbricks_private.judge import Example, Judge, balanced_accuracy, cross_validated
from dlbricks_private.key import read_key
from dlbricks_private.published import Published
from dlbricks_private.suites import hide
from dlbricks_private.traits import traits

FEW = 5
"""Number of alternatives below which a brick stands out."""

_SURE = 0.9
"""Probability from which a brick stands out."""

_COMMON = 0.5
"""Share of published forms among decoys from which a brick of another form stands out."""

_EXAMPLE_DECOYS = 5
"""Maximum number of decoys for each brick in the suites that the attacker learns from."""

_FEWEST_BRICKS = 4
"""Minimum number of bricks of a published model that the attacker learns from."""


@dataclass(frozen=True)
class StandsOut:
    """A brick that reveals more than others."""

    brick: Brick  #: A true brick.
    reasons: tuple[str, ...]  #: Reasons why it stands out, for the user.

    @property
    def name(self) -> str:
        """Description of the brick."""
        return brick_name(self.brick.model)


@dataclass(frozen=True)
class Exposure:
    """Exposure of one model to an attacker. All numbers of candidates are decimal logarithms."""

    cut: CutModel  #: The model.
    #: Number of chains of as many bricks as the model has that fit between its inputs and outputs.
    candidates: float
    #: Number of ways to replace bricks, for an attacker who knows the sequence of shapes.
    choices: float
    #: Number of candidates that remain after the best attacker has dropped all bricks that can be
    #: dropped without losing a true one.
    left: float
    by: str  #: Name of that attacker.
    published: tuple[str, ...]  #: Published models whose bricks are all in the suite.


@dataclass(frozen=True)
class Privacy:
    """Exposure of a private suite to attackers."""

    bricks: int  #: Number of bricks in the suite.
    true: int  #: Number of true bricks among them, which occur in the owner's models.
    models: Sequence[Exposure]  #: Exposure of each model.
    #: Balanced accuracy of each attacker on this suite, by the attacker's name.
    accuracies: Mapping[str, float]
    #: Mean balanced accuracy on published models that the attacker had not seen, by the attacker's
    #: name. It shows how well such decoys protect on average.
    validated: Mapping[str, float]
    standing_out: Sequence[StandsOut]  #: True bricks that stand out.


def privacy(
    folder: Path,
    key_file: Path,
    published: Sequence[CanonicalModel],
    observer: Observer,
    request: Callable[[str], Request] = Request.of,
) -> Privacy:
    """Attacks a private suite with all known attackers.

    The attackers know how suites are made, and have the published models. They know neither
    the key nor the random numbers. They learn from suites of published models that they make
    themselves.

    Args:
        folder: The suite.
        key_file: The owner's key.
        published: Models that the attackers know.
        observer: Receives the progress.
        request: Function that returns the request for a backend's name.

    Raises:
        DLBricksError: If the suite or the key cannot be read, or do not belong together.
    """
    key = read_key(key_file)
    observer.stage("Reading the suite")
    bricks = {each.brick.signature: each.brick for each in read_suite(folder).bricks}
    brickset = key.brickset()
    if not brickset.bricks.keys() <= bricks.keys():
        raise DLBricksError(
            f"{key_file} is not the key to {folder}", hint="Some of its bricks are not there."
        )
    options = CutOptions(key.granularity, key.strategy, key.composer)
    backend = request(key.backend) if key.backend else None
    own = {family_of(cut.model) for cut in brickset.models}
    known = [each for each in published if family_of(each) not in own]
    decoys = (len(bricks) - len(brickset.bricks)) // max(len(brickset.bricks), 1)
    with Benches() as benches:
        examples = examples_of(
            known, options, backend, min(decoys, _EXAMPLE_DECOYS), observer, benches
        )
        everybodys = _known(published, options, backend, observer, benches)
    judge = Judge(examples) if examples else None
    several = len({each.group for each in examples}) > 1
    validated = cross_validated(examples) if several else {}
    return assessed(brickset, bricks, judge, everybodys, validated)


def assessed(
    brickset: BrickSet,
    bricks: Mapping[str, Brick],
    judge: Judge | None,
    published: Published,
    validated: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Privacy:
    """Attacks a suite.

    Args:
        brickset: The owner's models and their bricks.
        bricks: All bricks of the suite, by signature.
        judge: Classifiers trained on suites of other models; ``None`` for none.
        published: Knowledge of published models.
        validated: Balanced accuracies of such classifiers on each of these suites.
    """
    labels = np.array([float(signature in brickset.bricks) for signature in bricks])
    cutting = Cutting.of(brickset.models, brickset.strategy, brickset.granularity)
    attackers = _attackers(list(bricks.values()), judge, published, cutting)
    has_decoys = 0 < labels.sum() < len(labels)
    return Privacy(
        bricks=len(bricks),
        true=int(labels.sum()),
        models=[_exposure(cut, bricks, attackers, published) for cut in brickset.models],
        accuracies={
            name: balanced_accuracy(labels, told) for name, told in attackers.items() if has_decoys
        },
        validated={name: float(np.mean(each)) for name, each in validated.items()},
        standing_out=list(_standing_out(brickset, bricks, attackers, published)),
    )


def examples_of(
    published: Sequence[CanonicalModel],
    options: CutOptions,
    request: Request | None,
    decoys: int,
    observer: Observer,
    benches: Benches | None = None,
) -> list[Example]:
    """Suites of published models, each with decoys from the others.

    Args:
        published: The models.
        options: How to cut.
        request: The backend that rewrites models; ``None`` for none.
        decoys: Number of decoys for each brick; with 0 there are no examples.
        observer: Receives the progress.
        benches: Workers that are kept for further models; ``None`` for none.
    """
    found = []
    random = np.random.default_rng()
    for model in published if decoys else ():
        family = family_of(model)
        others = [each for each in published if family_of(each) != family]
        hidden = hide([model], options, request, others, decoys, random, observer, benches)
        if len(hidden.brickset.bricks) >= _FEWEST_BRICKS and hidden.decoys:
            true, false = hidden.brickset.bricks.values(), hidden.decoys.values()
            found.append(Example(family, list(true), list(false)))
    return found


def _known(
    published: Sequence[CanonicalModel],
    options: CutOptions,
    request: Request | None,
    observer: Observer,
    benches: Benches,
) -> Published:
    nobody = np.random.default_rng(0)
    cut = hide(published, options, request, (), 0, nobody, observer, benches).brickset
    return Published.of(
        (each.model.name, [cut.bricks[signature] for signature in each.counts])
        for each in cut.models
    )


def _attackers(
    bricks: Sequence[Brick], judge: Judge | None, published: Published, cutting: Cutting
) -> dict[str, FloatArray]:
    """Probability that each brick is true, according to each attacker."""
    known = np.array([published.is_known(each) for each in bricks], dtype=float)
    form = np.array([published.is_of_known_form(each) for each in bricks], dtype=float)
    cut = np.array([cutting.allows(each.model) for each in bricks], dtype=float)
    found = {
        "takes bricks of published models for true": known,
        "takes bricks of no published model for true": 1 - known,
        "takes bricks of unpublished form for true": 1 - form,
        "takes bricks that the suite's way of cutting allows for true": cut,
    }
    if judge:
        found |= judge.probabilities(traits(bricks))
    return found


def _exposure(
    cut: CutModel,
    bricks: Mapping[str, Brick],
    attackers: Mapping[str, FloatArray],
    published: Published,
) -> Exposure:
    chain = [each.signature for each in cut.occurrences]
    candidates = log10_candidates(chain, bricks)
    place = {signature: i for i, signature in enumerate(bricks)}
    left, by = candidates, ""
    for name, told in attackers.items():
        least = min(told[place[signature]] for signature in chain)
        kept = {s: each for s, each in bricks.items() if told[place[s]] >= least}
        number = log10_candidates(chain, kept)
        if number < left:
            left, by = number, name
    complete = tuple(published.complete(bricks))
    return Exposure(cut, candidates, log10_of_choices(chain, bricks), left, by, complete)


def _standing_out(
    brickset: BrickSet,
    bricks: Mapping[str, Brick],
    attackers: Mapping[str, FloatArray],
    published: Published,
) -> list[StandsOut]:
    found = []
    learned = {n: told for n, told in attackers.items() if not n.startswith("takes")}
    place = {signature: i for i, signature in enumerate(bricks)}
    unlike = [each for signature, each in bricks.items() if signature not in brickset.bricks]
    known = sum(map(published.is_of_known_form, unlike)) / max(len(unlike), 1)
    for signature, brick in brickset.bricks.items():
        reasons = []
        others = alternatives(signature, bricks)
        if others < FEW:
            reasons.append(f"{others or 'no'} alternative{'' if others == 1 else 's'}")
        if not published.is_of_known_form(brick) and known > _COMMON:
            reasons.append("no published model has such a sequence, and most decoys are published")
        reasons += [
            f"the {name} is {told[place[signature]]:.0%} sure"
            for name, told in learned.items()
            if told[place[signature]] >= _SURE
        ]
        if reasons:
            found.append(StandsOut(brick, tuple(reasons)))
    return found
