"""Functions of the API for what runs elsewhere: suites, private ones, and surveys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from dlbricks_core import workflows
from dlbricks_core.api.arguments import checked
from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    Store,
    models_of,
    opened_store,
    request_of,
)
from dlbricks_core.api.results import Estimates, Timings
from dlbricks_core.api.travelling_results import Exposed, GeneratedSuite, Surveyed
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.precision import SURVEY_S
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.suites import check_unused
from dlbricks_core.wording import argument, settings
from dlbricks_core.workflows import CutOptions, ImportSettings, LoadOptions, Observer, Request
from dlbricks_core.workflows import privacy as attacks
from dlbricks_core.workflows import survey as surveying
from dlbricks_core.workflows.carried import place_of, read_results, written_results
from dlbricks_core.workflows.generate import DECOYS
from dlbricks_core.workflows.packing import pack
from dlbricks_core.workflows.private import (
    generate_private,
    key_beside,
    private_options,
    published_models,
    unlocked,
)
from dlbricks_core.workflows.survey import RUNS

Pathlike = str | os.PathLike[str]


def generate(
    models: Sources,
    folder: Pathlike,
    *,
    granularity: int | None = None,
    split: str | None = None,
    seed: int | None = None,
    private: bool = False,
    backend: str | None = None,
    decoys: int | None = None,
    decoys_from: Sequence[str] | None = None,
    key: Pathlike | None = None,
) -> GeneratedSuite:
    """Packs what another machine needs to time models, without their weights.

    Args:
        models: One or several, as :func:`load` takes them.
        folder: Folder to write to; it must not hold a suite already.
        granularity: The most layers that a brick may hold. With it, or with ``split``, the suite
            holds the paper's bricks, and otherwise the structures of the models.
        split: Name of the split strategy.
        seed: Seed of the weights of the paper's bricks; without it, 0.
        private: Whether the suite holds bricks alone, among decoys, and a key tells the models.
        backend: Framework that private bricks are for; ``None`` for bricks that any framework
            runs, less accurately.
        decoys: Decoys for each private brick; without it, 20.
        decoys_from: Models and collections that decoys come from; ``None`` for those of the onnx
            package.
        key: File for the key; ``None`` for one beside the folder.

    Raises:
        DLBricksError: If an argument is wrong, or something cannot be written.
        ModelError: If a model cannot be read.
    """
    given = checked(
        granularity=granularity, split=split, seed=seed, private=private, decoys=decoys,
        decoys_from=decoys_from, key=key, **({"backend": backend} if backend else {}),
    )  # fmt: skip
    if not private and (unused := _PRIVATE & given.keys()):
        raise DLBricksError(
            f"the argument {argument(min(unused))} is for private suites",
            hint=f"Add {settings(private=True)}, or leave it out.",
        )
    target = Path(folder)
    check_unused(target)
    every = models_of(models)
    if not private:
        asked = given.keys() & {"granularity", "split"}
        cut = CutOptions.chosen(granularity, split, None) if asked else None
        written = workflows.generate(every, cut, target, given.get("seed", 0), Observer())
        return GeneratedSuite(target, written)
    number = given.get("decoys", DECOYS)
    donors = published_models(given.get("decoys_from", ()), Observer()) if number else []
    place = given.get("key", key_beside(target))
    written, hidden = generate_private(
        every,
        private_options(split, granularity),
        Request.of(backend) if backend else None,
        donors,
        number,
        target,
        place,
        Observer(),
    )
    return GeneratedSuite(target, written, hidden, place)


_PRIVATE = frozenset({"backend", "decoys", "decoys_from", "key"})
"""Arguments of :func:`generate` for private suites."""


def bench(
    folder: Pathlike,
    *,
    backend: str,
    results: Pathlike,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Timings:
    """Times the bricks of a suite, and no whole model.

    Args:
        folder: The suite, which :func:`generate` wrote.
        backend: Name of the framework's plugin.
        results: File that is written. What it holds already is not timed again.
        backend_options: As for :func:`time`.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong, or the folder holds no suite.
    """
    request = request_of(backend, backend_options, measuring)
    with written_results(Path(results)) as opened:
        return Timings(workflows.bench(Path(folder), request, opened, Observer()))


def estimate_private(
    key: Pathlike,
    results: Pathlike | Sequence[Pathlike],
    *,
    backend: str,
    system: str | None = None,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Estimates:
    """Estimates the models of a private suite from what was timed of it; runs nothing.

    Args:
        key: Key of the suite.
        results: File of :func:`bench`, or several.
        backend: Name of the framework's plugin.
        system: Machine to estimate for: its name, or the start of its fingerprint; ``None`` where
            the results are of one machine.
        backend_options: As for :func:`time`.
        **measuring: As for :func:`time`. They tell which of several measurements are meant.

    Raises:
        DLBricksError: If an argument is wrong, or a file cannot be read.
    """
    asked = checked(system=system, **measuring)
    several = [results] if isinstance(results, str | os.PathLike) else results
    with read_results([Path(each) for each in several]) as opened:
        place = place_of(
            opened,
            backend,
            protocol=workflows.protocol_of(
                asked.get("protocol", next(iter(PROTOCOLS))), asked.get("quantity", LATENCY.name)
            ),
            system=asked.get("system"),
            threads=asked.get("threads"),
            backend_options=backend_options or {},
        )
        request = request_of(
            backend, backend_options, measuring, place.system, measured=place.setup
        )
        request = request if asked.get("runs") else replace(request, runs=1)
        _, there = workflows.at_system(opened, asked.get("system"))
        models, cut = unlocked(Path(key), request, opened)
        return Estimates(workflows.estimate(models, cut, request, there, None))


def attack(folder: Pathlike, key: Pathlike, *, published: Sequence[str] | None = None) -> Exposed:
    """Attacks a private suite in every way that is known here.

    Args:
        folder: The suite.
        key: Its key.
        published: Models and collections that the attacker knows; ``None`` for those of the onnx
            package.

    Raises:
        DLBricksError: If the suite or the key cannot be read, or do not belong together.
    """
    given = checked(key=key, published=published)
    known = published_models(given.get("published", ()), Observer())
    return Exposed(attacks.privacy(Path(folder), given["key"], known, Observer()))


def take_survey(
    models: Sequence[str] = (),
    *,
    backend: str,
    threads: int | None = None,
    budget_s: float | None = None,
    seed: int | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
    families: Sequence[str] = (),
) -> Surveyed:
    """Times networks from which latencies of others are predicted, until a budget ends.

    What the store holds is not timed again: call it again, and it goes on.

    Args:
        models: Paths, and names of models and collections, whose bricks are timed beside drawn
            networks; none for the models of all collections.
        backend: Name of the framework's plugin.
        threads: Threads that compute one operator; ``None`` for all physical cores that the
            process may use.
        budget_s: Seconds after which no further networks are taken on; without it, 180.
        seed: Seed of networks, weights and inputs; without it, 0.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.
        families: Names of the families that networks are drawn from, such as ``"half_floats"``;
            none for all. With some, only ``models`` are cut into bricks.

    Raises:
        DLBricksError: If an argument is wrong. A network that cannot be timed is not an error:
            ``failures`` of the result names it.
    """
    given = checked(models=models, budget_s=budget_s)
    request = request_of(backend, backend_options, Measuring(threads=threads, seed=seed, runs=RUNS))
    budget = given.get("budget_s", SURVEY_S)
    with opened_store(store) as opened:
        found = surveying.survey(
            given["models"],
            request,
            opened,
            Observer(),
            budget,
            LoadOptions(),
            ImportSettings(),
            families,
        )
    return Surveyed(found)


def pack_survey(
    folder: Pathlike, *, backend: str | None = None, extend: bool = False, store: Store = None
) -> list[Path]:
    """Writes what a store knows for predictors: a file for each system, backend and threads.

    Args:
        folder: Folder to write to.
        backend: Name of a backend; ``None`` for all.
        extend: Whether files also hold what the installed atlas has of the same system and setup.
        store: As for :func:`systems`.

    Returns:
        The files.

    Raises:
        DLBricksError: If there is no such store, it knows nothing, or a file cannot be written.
    """
    given = checked(backend=backend) if backend is not None else {}
    with opened_store(store, writes=False, create=False) as opened:
        packed = pack(opened, Path(folder), Observer(), given.get("backend"), extend=extend)
        return [each.path for each in packed]
