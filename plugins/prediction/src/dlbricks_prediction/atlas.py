"""The atlas: measurements of bricks on many systems, in portable files."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy

from dlbricks_core.errors import DLBricksError, reason
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_core.limits import CONTRIBUTION, LimitError
from dlbricks_prediction.features import NAMES, Features

FOLDER = Path(__file__).parent / "contributions"
"""Folder of the contributions that ship with the package."""

SURVEYED = "survey:"
"""Prefix of groups of drawn networks; the family that they were drawn from follows."""

FORMAT = 7
"""Version of the files; it rises with their structure, and with the kinds of layers."""

_FILE = "_file"
"""Name of the attribute with the file whose arrays were not read yet."""

_DAMAGED = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError,
            RuntimeError, TypeError, ValueError, zipfile.BadZipFile, zlib.error)  # fmt: skip
"""Exceptions raised on reading a file that is not a contribution, or is truncated or changed."""


@dataclass(frozen=True)
class Provenance:
    """Where a contribution comes from.

    Attributes:
        dlbricks: Version of DLBricks that measured.
        begin: Time of the first sample, as ISO 8601.
        end: Time of the last sample.
        sessions: Ids of the sessions.
        source: Description of the measured networks.
    """

    dlbricks: str
    begin: str
    end: str
    sessions: tuple[str, ...]
    source: str


@dataclass(frozen=True, eq=False)
class Contribution:
    """Networks that were measured under one setup on one system.

    Attributes:
        system: The system.
        setup: How the networks ran.
        provenance: When, and by which version.
        features: Features of all distinct layers and ends of the networks.
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        log_ms: Logarithm of each network's latency in milliseconds, including the call of the
            timer.
        noise: Variance of each logarithm due to the scatter of the samples.
        call_ms: Cost of a call of the timer, for each network, in milliseconds.
        signatures: Signature of each network.
        groups: Group of each network: the family of the models that it was cut from, or the family
            of the survey that it was drawn from. A network of several families has all of them,
            separated by commas.
        pulls: Pull of each layer: the error of the baseline at any layer is the sum of the pulls,
            each times the covariance of the two layers. Empty if they are not computed.
        sites: Variance of each layer's site: the information of networks of few layers about this
            layer. Empty if there are no pulls.
        common: Variance of the error that all layers share, given the sites.
        kernel: Identity of the kernel that the pulls and sites belong to.
        sessions: Session in which each network was measured, as a number from 0. Empty if no two
            sessions differ, as in files, from which their differences are taken.
    """

    system: System
    setup: Setup
    provenance: Provenance
    features: Features
    counts: scipy.sparse.csr_array
    log_ms: FloatArray
    noise: FloatArray
    call_ms: FloatArray
    signatures: tuple[str, ...]
    groups: tuple[str, ...]
    pulls: FloatArray = field(default_factory=lambda: np.zeros(0))
    sites: FloatArray = field(default_factory=lambda: np.zeros(0))
    common: float = 0.0
    kernel: str = ""
    sessions: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.signatures)

    if not TYPE_CHECKING:  # the attributes are declared above

        def __getattr__(self, name: str) -> Any:
            """Reads the file of :meth:`begun` once something is asked that is not in its facts."""
            path = self.__dict__.get(_FILE)
            if path is None or name not in self.__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            self.__dict__.update(vars(type(self).read(path)))
            return self.__dict__[name]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of the layers."""
        return frozenset(self.features.kinds)

    def only(self, networks: Sequence[int] | Indices) -> Self:
        """A contribution of some of the networks and their layers, without pulls."""
        chosen = self.counts[list(networks)]
        used = np.unique(chosen.indices)
        return replace(
            self,
            pulls=np.zeros(0),
            sites=np.zeros(0),
            kernel="",
            features=self.features.part(used),
            counts=scipy.sparse.csr_array(chosen[:, used]),
            log_ms=self.log_ms[list(networks)],
            noise=self.noise[list(networks)],
            call_ms=self.call_ms[list(networks)],
            sessions=self.sessions[list(networks)] if self.sessions.size else self.sessions,
            signatures=tuple(self.signatures[i] for i in networks),
            groups=tuple(self.groups[i] for i in networks),
        )

    def without(self, signatures: Collection[str]) -> Self | None:
        """The contribution without some networks if it is a store's own; ``None`` if none is left.

        The contributions of the package come from other sessions and stay unchanged.
        """
        if self.pulls.size or frozenset(signatures).isdisjoint(self.signatures):
            return self
        left = [i for i, s in enumerate(self.signatures) if s not in signatures]
        return self.only(left) if left else None

    @classmethod
    def begun(cls, path: Path, about: Mapping[str, Any]) -> Self:
        """The contribution in a file, whose arrays are read when one is needed.

        Most contributions differ so much from a question that their facts are enough.

        Args:
            path: The file, one that ships with the package.
            about: Facts in the file.
        """
        found = object.__new__(cls)
        found.__dict__.update(_facts_of(about), kinds=frozenset(about["kinds"]), **{_FILE: path})
        return found

    @classmethod
    def read(cls, path: Path) -> Self:
        """The contribution in a file.

        Raises:
            DLBricksError: If the file is not a contribution, damaged, or one of another version.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                _check_size(arrays.zip)
                found = {name: arrays[name] for name in arrays.files}
            about = json.loads(found.pop("about").tobytes())
            if about["format"] == FORMAT and tuple(about["features"]) == NAMES:
                return cls._read(about, found)
        except _DAMAGED as error:
            raise DLBricksError(
                f"{path} is not a contribution to the atlas, or damaged: {reason(error)}",
                hint="The command survey packs one.",
            ) from error
        raise DLBricksError(
            f"{path} was written by another version of DLBricks",
            hint="Pack the measurements again with this one.",
        )

    @classmethod
    def _read(cls, about: Mapping[str, Any], found: Mapping[str, Any]) -> Self:
        """The contribution from facts and arrays of a file, if they are consistent."""
        kinds, groups = about["kinds"], about["group_names"]
        shape = (len(found["signatures"]), len(found["kinds"]))
        parts = (found["counts"].astype(np.float64), found["layers"], found["starts"])
        read = cls(
            **_facts_of(about),
            features=Features(
                tuple(map(kinds.__getitem__, found["kinds"].tolist())),
                found["numbers"].astype(np.float64),
            ),
            counts=scipy.sparse.csr_array(
                (parts[0], parts[1].astype(np.int32), parts[2].astype(np.int32)), shape=shape
            ),
            log_ms=found["log_ms"].astype(np.float64),
            noise=found["noise"].astype(np.float64),
            call_ms=found["call_ms"].astype(np.float64),
            signatures=tuple(map(bytes.decode, found["signatures"].tolist())),
            groups=tuple(map(groups.__getitem__, found["groups"].tolist())),
            pulls=found["pulls"].astype(np.float64),
            sites=np.exp2(found["sites"].astype(np.float64)),
        )
        read._check()
        return read

    def _check(self) -> None:
        """Raises a ValueError unless all parts have consistent lengths and valid numbers."""
        self.counts.check_format()
        if self.features.numbers.shape != (len(self.features.kinds), len(NAMES)):
            raise ValueError("the features of layers have another shape")
        for name, least in (("log_ms", -np.inf), ("noise", 0.0), ("call_ms", 0.0)):
            values = getattr(self, name)
            if values.shape != (len(self),) or not (np.isfinite(values) & (values >= least)).all():
                raise ValueError(f"{name} has another length, or numbers that are not possible")
        if self.pulls.size not in (0, len(self.features.kinds)):
            raise ValueError("the pulls are not those of the layers")
        if self.sites.size != self.pulls.size or not 0 <= self.common < np.inf:
            raise ValueError("the sites are not those of the layers")
        numbers = np.concatenate([self.features.numbers.ravel(), self.pulls, self.sites])
        if len(self.groups) != len(self) or not np.isfinite(numbers).all():
            raise ValueError("groups, features or pulls are not possible")


def _facts_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a contribution that are no arrays."""
    provenance = about["provenance"]
    return {
        "system": System.from_dict(about["fingerprint"], about["system"]),
        "setup": Setup(**about["setup"]),
        "provenance": Provenance(**{**provenance, "sessions": tuple(provenance["sessions"])}),
        "common": about["common"],
        "kernel": about["kernel"],
    }


@dataclass
class LayerTable:
    """Distinct layers of several networks.

    Attributes:
        kinds: Kind of each layer.
        rows: Numbers of each layer.
    """

    kinds: list[str] = field(default_factory=list)
    rows: list[FloatArray] = field(default_factory=list)
    _known: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def add(self, features: Features) -> dict[int, int]:
        """Adds a network's layers. Returns their numbers of occurrences by row in the table."""
        counts: dict[int, int] = {}
        numbers = features.numbers.astype(np.float32)
        for kind, row in zip(features.kinds, numbers, strict=True):
            key = (kind, row.tobytes())
            place = self._known.setdefault(key, len(self.kinds))
            if place == len(self.kinds):
                self.kinds.append(kind)
                self.rows.append(row.astype(np.float64))
            counts[place] = counts.get(place, 0) + 1
        return counts

    @property
    def features(self) -> Features:
        """Features of all layers."""
        return Features(tuple(self.kinds), np.array(self.rows).reshape(-1, len(NAMES)))


def counts_matrix(networks: Iterable[Mapping[int, int]], layers: int) -> scipy.sparse.csr_array:
    """Matrix of the occurrences of layers in networks: shape (networks, layers)."""
    rows = list(networks)
    starts = np.cumsum([0, *(len(each) for each in rows)])
    places = [place for each in rows for place in each]
    numbers = [float(number) for each in rows for number in each.values()]
    return scipy.sparse.csr_array(
        (np.array(numbers), np.array(places, dtype=np.int32), starts.astype(np.int32)),
        shape=(len(rows), layers),
    )


@cache
def shipped(backend: str | None = None) -> tuple[Contribution, ...]:
    """Contributions that ship with the package.

    Args:
        backend: Name of the backend whose contributions are read; ``None`` for all.
    """
    every = _shipped_facts().items()
    return tuple(
        Contribution.begun(path, about)
        for path, about in every
        if backend in (None, about["setup"]["backend"])
    )


def _check_size(archive: zipfile.ZipFile) -> None:
    """Refuses a file that unpacks to more than any contribution has."""
    if sum(each.file_size for each in archive.infolist()) > CONTRIBUTION.most * 2**20:
        raise LimitError(CONTRIBUTION)


@cache
def _shipped_facts() -> Mapping[Path, Mapping[str, Any]]:
    """Facts about each contribution that ships with the package, without the rest of the files."""
    found = {}
    for path in sorted(FOLDER.glob("*.npz")):
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found[path] = json.loads(arrays["about"].tobytes())
    return found
