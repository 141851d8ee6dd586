"""Interface of predictors, which give figures of bricks without running them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Note, Setup, System
from dlbricks_core.figures.figure import Figure
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.store import ResultStore


class MeasuredNetworks(Protocol):
    """Networks that were measured under one setup on one system, as a predictor learns from them.

    A predictor adds what it needs to know of them.
    """

    @property
    def system(self) -> System:
        """The system."""

    @property
    def setup(self) -> Setup:
        """How the networks ran."""

    @property
    def call_ms(self) -> FloatArray:
        """Cost of a call of the timer, for each network, in milliseconds."""

    def without(self, signatures: Collection[str]) -> Self | None:
        """All networks but some of the store's; ``None`` if none is left.

        Networks that ship with the predictor come from other sessions, and stay.
        """


class Predictor(ABC):
    """Gives figures of bricks without running them.

    Found through the entry-point group ``dlbricks.predictors``. A predictor that learns from the
    known figures alone has only :meth:`predict`.
    """

    #: Name of the predictor, equal to the name of its entry point.
    name: str

    @abstractmethod
    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Any] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies of the bricks without known figures, in milliseconds.

        Intervals are honest: on systems and bricks that a predictor has not seen, 90% of them
        contain the measured latency. A brick that the predictor cannot predict is left out and
        stays missing.

        Args:
            bricks: Bricks by signature: bricks to predict, and bricks with known figures. Their
                layers are those that the backend runs.
            setup: How the bricks run.
            system: System on which the bricks run.
            known: Figures measured under this setup on this system, by signature.
            atlas: Further measurements, here and elsewhere, as :meth:`training_data`
                returns them.

        Returns:
            Figures by signature, with joint draws across bricks.
        """

    def training_data(
        self, store: ResultStore, backend: str | None = None
    ) -> Sequence[MeasuredNetworks]:
        """Measurements that the predictor learns from: the store's, and those that it ships.

        Args:
            store: Store of the measurements.
            backend: Name of the backend; ``None`` for every one.
        """
        return ()

    def shipped(self, backend: str | None = None) -> Sequence[MeasuredNetworks]:
        """Measurements that the predictor ships.

        Args:
            backend: Name of the backend; ``None`` for every one.
        """
        return ()

    def remember(  # noqa: B027 - a predictor may need to know nothing
        self, store: ResultStore, bricks: Mapping[str, Brick], groups: Mapping[str, Collection[str]]
    ) -> None:
        """Stores what the predictor has to know of networks that are being measured.

        Args:
            store: The store, which is written only if something is new.
            bricks: The networks by signature.
            groups: Groups of each network by signature; a missing network has none.
        """

    def probes(self) -> Sequence[tuple[Brick, str]]:
        """Networks that may be timed first on an unknown system, each with its group."""
        return ()

    def rates(self) -> Sequence[tuple[Brick, str]]:
        """Networks that show the rates of an unknown system, each with its group.

        They are timed before much is measured there.
        """
        return ()

    def doubts(
        self,
        bricks: Sequence[Brick],
        setup: Setup,
        system: System,
        atlas: Sequence[Any],
        *,
        here: bool,
    ) -> Iterable[Note]:
        """Notes on predicted bricks, or on the system, that differ from everything measured.

        Args:
            bricks: The bricks, as for :meth:`predict`.
            setup: How the bricks run.
            system: System on which the bricks run.
            atlas: Measurements with the backend, from :meth:`training_data`.
            here: Whether the system is this machine's.
        """
        return ()
