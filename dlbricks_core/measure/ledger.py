"""Ledgers: samples of networks with their figures, failures, and the effort for both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar, get_args

from dlbricks_core.facts import Kind, Measurement, Note, Quantity, Question
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.protocols import Protocol
from dlbricks_core.wording import argument

_KINDS: tuple[Kind, ...] = get_args(Kind)

NumberT = TypeVar("NumberT", int, float)
ValueT = TypeVar("ValueT")


@dataclass
class Effort:
    """Effort of a session, by kind of network.

    Attributes:
        seconds: Total seconds.
        runs: Number of timed runs.
        networks: Number of loaded networks.
        groups: Number of groups in which the networks were loaded.
        loading: Part of the total seconds that does not depend on the number of runs: loading, and
            rewriting models.
    """

    seconds: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0.0))
    runs: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    networks: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    groups: int = 0
    loading: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0.0))

    @classmethod
    def of(cls, measurements: Iterable[Measurement]) -> Effort:
        """Effort for samples of all sessions.

        Samples of older stores have no recorded effort and are left out. The effort excludes
        seconds spent on networks that failed, and the number of groups.
        """
        effort = cls()
        for measurement in measurements:
            kind, taken = measurement.question.subject.kind, measurement.observations
            loading_s = sum(each.loading_s or 0.0 for each in taken)
            effort.networks[kind] += 1
            effort.runs[kind] += sum(len(t.values) for t in taken if t.spent_s is not None)
            effort.seconds[kind] += sum(each.spent_s or 0.0 for each in taken) + loading_s
            effort.loading[kind] += loading_s
        return effort

    def __add__(self, other: Effort) -> Effort:
        """Total effort of two sessions."""

        def sums(
            mine: Mapping[Kind, NumberT], theirs: Mapping[Kind, NumberT]
        ) -> dict[Kind, NumberT]:
            return {kind: mine[kind] + theirs[kind] for kind in _KINDS}

        return Effort(
            sums(self.seconds, other.seconds),
            sums(self.runs, other.runs),
            sums(self.networks, other.networks),
            self.groups + other.groups,
            sums(self.loading, other.loading),
        )

    def counted_as(self, kind: Kind) -> Effort:
        """A copy of the effort in which everything is assigned to one kind of network."""

        def moved(numbers: Mapping[Kind, NumberT]) -> dict[Kind, NumberT]:
            every = sum(numbers.values(), start=type(numbers[kind])(0))
            return {each: every if each == kind else every - every for each in _KINDS}

        return Effort(
            moved(self.seconds),
            moved(self.runs),
            moved(self.networks),
            self.groups,
            moved(self.loading),
        )

    def with_loading(self, kind: Kind, seconds: float) -> Effort:
        """The effort with further seconds that do not depend on the number of runs."""
        spent = {**self.seconds, kind: self.seconds[kind] + seconds}
        return replace(
            self, seconds=spent, loading={**self.loading, kind: self.loading[kind] + seconds}
        )


@dataclass(frozen=True)
class Networks:
    """Networks of one kind in a ledger, by signature.

    Attributes:
        figures: Figures of measured networks.
        measurements: Samples of the figures.
        failures: Reason for each missing figure.
        unsupported: Signatures of networks with a layer that the backend does not support.
        anew: Signatures of networks to which the session added samples.
    """

    figures: Mapping[str, Measured]
    measurements: Mapping[str, Measurement]
    failures: Mapping[str, str]
    unsupported: AbstractSet[str]
    anew: AbstractSet[str]

    def over(self, others: Networks) -> Networks:
        """Union with other networks; of equal signatures, these networks stay."""
        own = self.figures.keys() | self.failures.keys()

        def both(mine: Mapping[str, ValueT], theirs: Mapping[str, ValueT]) -> dict[str, ValueT]:
            return {**{s: each for s, each in theirs.items() if s not in own}, **mine}

        return Networks(
            both(self.figures, others.figures),
            both(self.measurements, others.measurements),
            both(self.failures, others.failures),
            self.unsupported | (others.unsupported - own),
            self.anew | (others.anew - own),
        )


@dataclass(frozen=True)
class Ledger:
    """Samples of networks with their figures, and failures, by question.

    Attributes:
        measurements: Complete measurements.
        figures: Figure of each measurement.
        failures: Reason for each missing measurement.
        unsupported: Failures in which the backend does not support a layer.
        reused: Number of measurements that were complete in the store already.
        anew: Questions of the measurements to which this session added samples.
        effort: Effort of the session; zero without measurements.
        warnings: Disturbances of the machine during the session.
        waited_s: Seconds of waiting for a quiet machine, which are not part of a budget.
        notes: Figures that are less precise than requested, with the reason.
        apart: Standard deviation of the relative difference of a latency between two moments, as
            pulses of this machine show it.
    """

    measurements: Mapping[Question, Measurement] = field(default_factory=dict)
    figures: Mapping[Question, Measured] = field(default_factory=dict)
    failures: Mapping[Question, str] = field(default_factory=dict)
    unsupported: Mapping[Question, str] = field(default_factory=dict)
    reused: int = 0
    anew: AbstractSet[Question] = frozenset()
    effort: Effort = field(default_factory=Effort)
    warnings: tuple[Note, ...] = ()
    waited_s: float = 0.0
    notes: tuple[Note, ...] = ()
    apart: float = 0.0

    @classmethod
    def of(
        cls, measurements: Mapping[Question, Measurement], protocol: Protocol, **others: Any
    ) -> Self:
        """A ledger of measurements by a protocol, with further attributes."""
        figures = {key: Measured.of(each, protocol) for key, each in measurements.items()}
        return cls(measurements, figures, **others)

    @property
    def measured(self) -> int:
        """Number of measurements to which this session added samples."""
        return len(self.anew)

    def networks(self, kind: Kind, quantity: Quantity) -> Networks:
        """Figures and failures of the networks of one kind, for one quantity."""

        def own(found: Mapping[Question, ValueT]) -> dict[str, ValueT]:
            return {
                key.subject.signature: each
                for key, each in found.items()
                if key.subject.kind == kind and key.quantity == quantity
            }

        anew = own(dict.fromkeys(self.anew)).keys()
        unsupported = own(self.unsupported).keys()
        found = own(self.figures), own(self.measurements), own(self.failures)
        return Networks(*found, unsupported, anew)

    def __or__(self, other: Ledger) -> Ledger:
        """Union of both ledgers, with the sum of both efforts."""
        return Ledger(
            {**self.measurements, **other.measurements},
            {**self.figures, **other.figures},
            {**self.failures, **other.failures},
            {**self.unsupported, **other.unsupported},
            self.reused + other.reused,
            self.anew | other.anew,
            self.effort + other.effort,
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            self.waited_s + other.waited_s,
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            max(self.apart, other.apart),
        )

    def only(self, keys: Collection[Question]) -> Ledger:
        """The part for some questions, with the effort for all."""
        keys = frozenset(keys)

        def part(found: Mapping[Question, ValueT]) -> dict[Question, ValueT]:
            return {key: each for key, each in found.items() if key in keys}

        return replace(
            self,
            measurements=part(self.measurements),
            figures=part(self.figures),
            failures=part(self.failures),
            unsupported=part(self.unsupported),
        )

    def failing(self, reasons: Mapping[Question, str], *, unsupported: bool = False) -> Ledger:
        """The ledger with further failures; an earlier reason for the same question stays."""
        new = {key: why for key, why in reasons.items() if key not in self.failures}
        refused = {**self.unsupported, **new} if unsupported else self.unsupported
        return replace(self, failures={**self.failures, **new}, unsupported=refused)

    def recalling(self, failed: Iterable[tuple[Question, str, bool]]) -> Ledger:
        """The ledger with failures from the store: question, reason, and whether unsupported."""
        found = self
        again = f"(earlier; {argument('retry_failed')} tries again)"
        every = list(failed)
        for kind in (False, True):
            reasons = {key: f"{why} {again}" for key, why, refused in every if refused == kind}
            found = found.failing(reasons, unsupported=kind)
        return found

    def noting(self, *added: Note, first: Iterable[Note] = ()) -> Ledger:
        """The ledger with further notes after and before its own notes."""
        return replace(self, notes=(*first, *self.notes, *added))
