"""The Python API: the subcommands of ``dlbricks private`` as functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from dlbricks_suite.folder import Suite

from dlbricks_core.api.inputs import Measuring, Sources, check_names, checked, strict_models
from dlbricks_core.api.results import Estimates, Result, Rows, named
from dlbricks_core.commands.options.kinds import PATH, Kind, at_least, names_such_as
from dlbricks_core.commands.options.settings import Setting
from dlbricks_core.progress import Observer
from dlbricks_core.sanitize import sanitized
from dlbricks_private import suites
from dlbricks_private.exposure import Privacy
from dlbricks_private.job import AttackJob, PrivateEstimateJob, PrivateGenerateJob
from dlbricks_private.report import privacy_data, suite_data

Pathlike = str | os.PathLike[str]

_MODELS = names_such_as("onnx:", of="models and collections")
_SETTINGS = {
    "decoys": Setting("decoys", Kind(at_least(0), "a whole number, 0 or more")),
    "decoys_from": Setting("decoys_from", _MODELS),
    "published": Setting("published", _MODELS),
    "key": Setting("key", PATH),
}


@dataclass(frozen=True, repr=False)
class PrivateSuite(Result):
    """A private suite that was written.

    Attributes:
        folder: Where it is.
        suite: The bricks, decoys among them.
        hidden: What decoys hide.
        key: File of its key.
    """

    folder: Path
    suite: Suite
    hidden: suites.Hidden
    key: Path

    @property
    def failures(self) -> list[dict[str, str]]:
        """Bricks that could not be written (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    def to_dict(self) -> dict[str, Any]:
        """Bricks and numbers of decoys, as ``dlbricks private generate`` writes them."""
        return dict(suite_data(self.suite, self.hidden, self.folder, self.suite.omitted))

    def rows(self) -> Rows:
        """One row for each brick, without the mark of decoys."""
        return [{**each, "layers": ", ".join(each["layers"])} for each in self.to_dict()["bricks"]]

    def __repr__(self) -> str:
        decoys = self.to_dict()["private"]["decoys"]
        place = sanitized(str(self.folder))
        return f"<PrivateSuite: {len(self)} bricks, {decoys} of them decoys, in {place}>"


@dataclass(frozen=True, repr=False)
class Exposed(Result):
    """Exposure of a private suite to an attacker.

    Attributes:
        privacy: Exposure of each model, and attackers.
    """

    privacy: Privacy

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks private attack``."""
        return dict(privacy_data(self.privacy))

    def rows(self) -> Rows:
        """One row for each model."""
        rows: Rows = self.to_dict()["exposed"]
        return rows

    def __repr__(self) -> str:
        models = named(
            f"{row['name']} is one of 10^{row['log10_candidates_left']:.0f}" for row in self.rows()
        )
        return f"<Exposed: {models}>"


def generate(
    models: Sources,
    folder: Pathlike,
    *,
    granularity: int | None = None,
    split: str | None = None,
    backend: str | None = None,
    decoys: int | None = None,
    decoys_from: Sequence[str] | None = None,
    key: Pathlike | None = None,
) -> PrivateSuite:
    """Packs bricks of models among decoys, and writes the key with the models.

    Args:
        models: One or several, as :func:`dlbricks_core.load` takes them.
        folder: Folder to write to; it must not hold a suite already.
        granularity: Maximum number of layers in a brick.
        split: Name of the split strategy.
        backend: Framework that the bricks are for; ``None`` for bricks that any framework runs,
            less accurately.
        decoys: Decoys for each brick; without it, 20.
        decoys_from: Models and collections that decoys come from; ``None`` for those of the onnx
            package.
        key: File for the key; ``None`` for one beside the folder.

    Raises:
        DLBricksError: If an argument is wrong, or something cannot be written.
        ModelError: If a model cannot be read.
    """
    given = checked(
        _SETTINGS, granularity=granularity, split=split, decoys=decoys, decoys_from=decoys_from,
        key=key, **({"backend": backend} if backend else {}),
    )  # fmt: skip
    job = PrivateGenerateJob(models=strict_models(models), folder=Path(folder), **given)
    written = job.run(Observer()).result
    return PrivateSuite(job.folder, written.suite, written.hidden, written.key)


def estimate(
    key: Pathlike,
    results: Pathlike | Sequence[Pathlike],
    *,
    backend: str,
    system: str | None = None,
    predictor: str | None = None,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Estimates:
    """Estimates the models of a private suite from its results; runs nothing.

    Args:
        key: Key of the suite.
        results: File of :func:`dlbricks_core.bench`, or several.
        backend: Name of the framework's plugin.
        system: Machine to estimate for: its name, or the start of its fingerprint; ``None`` where
            the results are of one machine.
        predictor: Name of the predictor of bricks that the results lack; ``None`` to leave them
            out.
        backend_options: As for :func:`dlbricks_core.time`.
        **measuring: As for :func:`dlbricks_core.time`. They select among several measurements.

    Raises:
        DLBricksError: If an argument is wrong, or a file cannot be read.
    """
    check_names(measuring)
    given = checked(
        _SETTINGS, key=key, system=system, predictor=predictor, backend=backend, **measuring
    )
    several = [results] if isinstance(results, str | os.PathLike) else results
    job = PrivateEstimateJob(
        results=[Path(each) for each in several], backend_options=backend_options or {}, **given
    )
    return Estimates(job.run().result)


def attack(folder: Pathlike, key: Pathlike, *, published: Sequence[str] | None = None) -> Exposed:
    """Attacks a private suite in every way that is known here.

    Args:
        folder: The suite.
        key: Its key.
        published: Models and collections that the attacker has; ``None`` for the models of the onnx
            package.

    Raises:
        DLBricksError: If the suite or the key cannot be read, or do not belong together.
    """
    given = checked(_SETTINGS, key=key, published=published)
    return Exposed(AttackJob(folder=Path(folder), **given).run(Observer()))
