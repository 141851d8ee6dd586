"""Observations: values that were taken together, and measurements, which collect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, Self

from dlbricks_core.facts.checks import (
    LARGEST,
    LARGEST_COUNT,
    SMALLEST,
    TINIEST,
    checked,
    flat,
    moment,
    number,
    number_if_known,
    text,
)

# Quantities: what can be measured of a brick or a model.


class Composition(StrEnum):
    """How a model's value follows from those of its bricks."""

    SUM = "sum"
    """The bricks' values add up, each as often as the brick occurs."""

    PEAK = "peak"
    """Kept parts of bricks add up; of the parts needed only during a run, the largest counts."""

    ONCE = "once"
    """The value belongs to the process, independently of its networks: it counts once."""

    LOAD = "load"
    """Values are those of a load, such as latencies of its queries. They are not repetitions of
    one value, and are not composed."""


_TIMES = frozenset({"ns", "us", "ms", "s"})
"""Units of time."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """Something that is measured. Name and unit identify it.

    Attributes:
        name: Identifier such as ``load-time``.
        unit: Unit of all its values, such as ``ms``.
        composition: How a model's value follows from those of its bricks.
        meaning: One line for people.
    """

    name: str
    unit: str
    composition: Composition = field(compare=False)
    meaning: str = field(compare=False)

    @property
    def is_time(self) -> bool:
        """Whether it is a time, which is longer while others use the machine."""
        return self.unit in _TIMES

    @property
    def adds_up(self) -> bool:
        """Whether a model's value is the sum of those of its bricks."""
        return self.composition is Composition.SUM

    def to_dict(self) -> dict[str, str]:
        """The quantity as plain data for JSON."""
        return {**flat(self), "composition": self.composition.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; for errors see :mod:`~dlbricks_core.facts.checks`."""
        texts = {name: text(data[name], name) for name in ("name", "unit", "meaning")}
        return cls(**texts, composition=Composition(data["composition"]))


LATENCY = Quantity("latency", "ms", Composition.SUM, "time of one inference")

SCENARIO_LATENCY = Quantity(
    "scenario-latency", "ms", Composition.LOAD, "time from a query's arrival to its last result"
)
SCENARIO_THROUGHPUT = Quantity(
    "scenario-throughput", "1/s", Composition.LOAD, "samples or queries that instances serve"
)


# Questions: a quantity of a subject, under a setup, on a system.

Kind = Literal["brick", "model", "native", "profiled"]
"""A brick that runs alone; a whole model as the backend lowers it, or as its user runs it; or a
brick inside a running model, measured by the framework's profiler."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Network of a question.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        kind: Role of the network. A model so short that it is its only brick is measured
            as both.
    """

    signature: str
    kind: Kind

    @property
    def is_whole(self) -> bool:
        """Whether the network is a whole model, in either form."""
        return self.kind in ("model", "native")


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """How a network runs. Only figures of one setup may be mixed.

    Attributes:
        backend: Name of the backend.
        version: Version of its framework.
        options: The backend's options as :func:`~dlbricks_core.facts.canonical_json`.
        threads: Number of threads that compute one operator.
        protocol: Canonical text of how the network is timed, such as
            ``interleaved:rounds=30,sweep``.
        plugin: Version of the backend's plugin, which lowers networks for the framework;
            for a plugin under development with a hash of its code, such as ``0.1.0+3f9a12c4``.
    """

    backend: str
    version: str
    options: str
    threads: int
    protocol: str
    plugin: str


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """Identity of a figure. Only observations with equal attributes may be mixed.

    Attributes:
        subject: The network.
        quantity: Requested quantity.
        setup: How the network runs.
        system: Fingerprint of the system that the network runs on.
    """

    subject: Subject
    quantity: Quantity
    setup: Setup
    system: str


# Features of measured networks, for predictors.

_LARGEST = 1e6
"""Largest magnitude of a feature: all of them are logarithms, or small numbers."""


@dataclass(frozen=True, slots=True)
class NetworkFeatures:
    """Features of a network's layers and ends, apart from any measurement.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        version: Version of the meaning of kinds and numbers; only features of one version may be
            mixed.
        kinds: Kind of each layer and end.
        numbers: Numbers of each layer and end: float32, little-endian, as many for each.
        groups: Families of models that the network was cut from, or of surveys that drew it. A
            predictor is judged by groups that it has not seen.
    """

    signature: str
    version: str
    kinds: tuple[str, ...]
    numbers: bytes
    groups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.numbers) % (4 * max(len(self.kinds), 1)):
            raise ValueError(f"{len(self.numbers)} bytes for {len(self.kinds)} layers")
        check_numbers(self.numbers)


def check_numbers(numbers: bytes) -> None:
    """Refuses features with which no predictor could compute.

    Args:
        numbers: Numbers as :class:`NetworkFeatures` has them.

    Raises:
        ValueError: If one is not finite, or too large.
    """
    import numpy as np  # not at the top: most that imports facts computes nothing

    # Both comparisons are false for NaN.
    found = np.frombuffer(numbers, dtype="<f4")
    if not ((found <= _LARGEST) & (found >= -_LARGEST)).all():
        raise ValueError("a feature is not finite, or too large")


# Rewrites: graphs that a backend makes of models before running them.


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A graph that a backend makes of a model; it does not depend on how the model is timed.

    Attributes:
        signature: Signature of the whole model.
        backend: Name of the backend.
        version: Version of its framework.
        options: The backend's options as :func:`~dlbricks_core.facts.canonical_json`.
        plugin: Version of the backend's plugin.
        system: Fingerprint of the system that the backend ran on.
        threads: Number of threads that compute one operator.
        graph: Serialized graph.
    """

    signature: str
    backend: str
    version: str
    options: str
    plugin: str
    system: str
    threads: int
    graph: bytes


# Failures: subjects without a result, and the reasons.

Stage = Literal["read", "check", "measure", "compose", "write"]
"""Stage of the failed work: reading a model, checking a layer's support by a backend, measuring,
composing an estimate, or writing files.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that has no result.

    Attributes:
        subject: Name of the model, as the user gave it; of a brick that came without a model, its
            operators and the start of its signature.
        reason: Why there is no result.
        stage: Step that failed.
        part: Failed part of the model: a brick, a kind of layer, or ``end to end``; empty for the
            whole model.
        backend: Name of the backend; empty where no backend had a part in it.
        layers: Number of layers that fail for this reason.
    """

    subject: str
    reason: str
    stage: Stage
    part: str = ""
    backend: str = ""
    layers: int = 1

    @property
    def where(self) -> str:
        """The subject and the part of it that failed."""
        return f"{self.subject}: {self.part}" if self.part else self.subject


DISTURBED_LOAD = 0.10
"""Share of the CPUs that others use above which samples count as disturbed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Raw values of one round or of one hot loop.

    Attributes:
        session: Id of the :class:`~dlbricks_core.facts.Session` that took the values.
        round: Number of the round within the session, from 0.
        values: Values in the quantity's unit, in the order in which they were taken.
        overhead: Share of each value that is due to measuring, in the same unit: for latency, the
            time of an empty call of the timer. ``None`` where it was not measured.
        flags: Disturbances of the machine while the values were taken.
        taken_at: Time of measuring, with time zone.
        spent_s: Seconds for taking the values, including the work around the timed runs.
        loading_s: Seconds of loading the network, if it was loaded right before.
        load: Share of the CPUs that others used meanwhile, from 0 to 1; ``None`` if unknown.
    """

    session: str
    round: int
    values: tuple[float, ...]
    overhead: float | None = None
    flags: tuple[str, ...] = ()
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    spent_s: float | None = None
    loading_s: float | None = None
    load: float | None = None

    def __post_init__(self) -> None:
        if not self.values or not all(
            value == 0 or TINIEST <= value <= LARGEST for value in self.values
        ):
            raise ValueError(
                f"values must be finite, and 0 or from {TINIEST} to {LARGEST}: {self.values!s:.60}"
            )
        if self.taken_at.tzinfo is None:
            raise ValueError("taken_at needs a time zone")
        if not 0 <= self.round <= LARGEST_COUNT:
            raise ValueError(f"round is {self.round}")

    def to_dict(self) -> dict[str, Any]:
        """The observation as plain data for JSON."""
        return {
            **flat(self),
            "values": list(self.values),
            "flags": list(self.flags),
            "taken_at": self.taken_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; for errors see :mod:`~dlbricks_core.facts.checks`."""
        return cls(
            session=text(data["session"], "session"),
            round=checked(data["round"], int, "round"),
            values=tuple(
                number(value, "value", least=SMALLEST) for value in checked(data["values"], list)
            ),
            overhead=number_if_known(data["overhead"], "overhead"),
            flags=tuple(checked(each, str) for each in checked(data["flags"], list)),
            taken_at=moment(data["taken_at"]),
            spent_s=number_if_known(data.get("spent_s"), "spent_s"),
            loading_s=number_if_known(data.get("loading_s"), "loading_s"),
            load=number_if_known(data.get("load"), "load", most=1.0),
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """All observations of one question.

    Attributes:
        question: Question that the observations answer.
        layers: Operator names of the network, for people.
        observations: Observations in the order in which they were added; none if the network
            failed at once.
        failure: Why measuring failed; ``None`` if it did not. Observations from before stay.
        unsupported: Whether it failed because the backend does not support a layer.
    """

    question: Question
    layers: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    failure: str | None = None
    unsupported: bool = False

    @property
    def values(self) -> tuple[float, ...]:
        """All values, in the order in which they were taken."""
        return tuple(value for each in self.observations for value in each.values)

    @property
    def overheads(self) -> tuple[float, ...]:
        """Overheads of the observations, where they were measured."""
        return tuple(each.overhead for each in self.observations if each.overhead is not None)

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of all observations, each once."""
        return tuple(dict.fromkeys(text for each in self.observations for text in each.flags))


@dataclass(frozen=True, slots=True)
class Sampled:
    """All values of one question, reduced to the fields for statistics over many questions.

    Attributes:
        question: Question that the values answer.
        values: Values of each observation, in the quantity's unit.
        overheads: Overhead of each observation, as in :class:`Observation`.
        disturbed: Whether the machine was disturbed during each observation.
        sessions: Ids of the sessions that took the values.
        begin: Time of the first observation, as ISO 8601.
        end: Time of the last observation.
    """

    question: Question
    values: tuple[tuple[float, ...], ...]
    overheads: tuple[float | None, ...]
    disturbed: tuple[bool, ...]
    sessions: tuple[str, ...]
    begin: str
    end: str
