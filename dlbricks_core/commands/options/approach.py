"""Approaches to latencies: whole models in the hot condition, or bricks that are timed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from dlbricks_core.backends import Backend
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.defaults import FINEST, adaptive_precision
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.protocols import CONDITIONS, PROTOCOLS, Condition
from dlbricks_core.plugins import discover
from dlbricks_core.wording import argument


@dataclass(frozen=True)
class Wishes:
    """Arguments of a user that decide on the approach; ``None`` for an argument that is not given.

    Attributes:
        granularity: Maximum number of layers in a brick.
        split: Name of the split strategy.
        composer: Name of the composer.
        runs: Runs of each network.
        precision: Half-width of the 90% intervals to reach, relative to the figure.
        budget_s: Maximum seconds of measuring.
        protocol: Name of the protocol.
        quantity: Name of the quantity.
        condition: Condition of the latencies.
        backend: Name of the backend; its trait ``blocks_only`` rules whole models out.
        backends: Names of the backends, where several are compared.
    """

    granularity: int | None = None
    split: str | None = None
    composer: str | None = None
    runs: int | None = None
    precision: float | None = None
    budget_s: float | None = None
    protocol: str | None = None
    quantity: str | None = None
    condition: str | None = None
    backend: str | None = None
    backends: Sequence[str] = ()

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Self:
        """Wishes from the arguments of a command; other arguments are ignored."""
        names = [each.name for each in fields(cls) if arguments.get(each.name) is not None]
        return cls(**{name: arguments[name] for name in names})

    @property
    def of_bricks(self) -> list[str]:
        """Names of the arguments that require bricks to be timed alone."""
        given = {
            "granularity": self.granularity is not None,
            "split": self.split is not None,
            "composer": self.composer is not None,
            "protocol": self.protocol not in (None, next(iter(PROTOCOLS))),
            "quantity": self.quantity not in (None, LATENCY.name),
        }
        blocks = [f"{argument('backend')} {name}" for name in self._of_blocks]
        return blocks + [argument(name) for name, is_given in given.items() if is_given]

    @property
    def blocks_only(self) -> bool:
        """Whether an installed backend runs only blocks of language models."""
        return bool(self._of_blocks)

    @property
    def _of_blocks(self) -> list[str]:
        """Names of the installed backends that run only blocks of language models."""
        names = [self.backend] if self.backend else self.backends
        found = [each for name in names for each in discover("backend", Backend, name)]
        return [p.name for p in found if not p.problem and p.loaded.traits.blocks_only]

    @property
    def cut_options(self) -> CutOptions:
        """How models are cut and composed from bricks that are timed alone.

        Raises:
            PluginError: If there is no such composer, or it is broken.
        """
        quantity = self.quantity or LATENCY.name
        return CutOptions.chosen(self.granularity, self.split, self.composer, quantity=quantity)


@dataclass(frozen=True)
class Approach:
    """Approach to the latencies of models.

    Attributes:
        cut_options: How models are cut and composed.
        precision: Half-width of the 90% intervals to reach, relative to the figure; ``None`` for
            the default of bricks that are timed alone, or for a fixed number of runs.
        condition: Condition of the latencies.
    """

    cut_options: CutOptions
    precision: float | None
    condition: Condition

    @classmethod
    def of_run(cls, wishes: Wishes) -> Self:
        """Approach of estimates: as few runs as possible, unless an argument excludes it.

        Raises:
            DLBricksError: If the hot condition is requested for bricks that are timed alone.
            PluginError: If there is no such composer, or it is broken.
        """
        of_bricks = wishes.of_bricks
        if wishes.runs is not None:
            of_bricks.append(argument("runs"))
        condition = _condition(wishes.condition, of_bricks)
        if of_bricks:
            return cls(wishes.cut_options, wishes.precision, condition)
        precision = adaptive_precision(wishes.precision, wishes.budget_s)
        return cls(CutOptions.chosen(None, None, LEARNED_COMPOSER), precision, condition)

    @classmethod
    def of_comparison(cls, wishes: Wishes) -> Self:
        """Approach of commands that measure all whole models; errors as for :meth:`of_run`."""
        condition = _condition(wishes.condition, wishes.of_bricks)
        if condition == "cold":
            return cls(wishes.cut_options, wishes.precision, condition)
        precision = FINEST if wishes.runs is None else None
        options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
        return cls(options, wishes.precision or precision, condition)


def check_backends(names: Sequence[str]) -> None:
    """Checks that backends can be compared.

    Raises:
        DLBricksError: If fewer than two backends are named, or one is named twice.
    """
    if len(set(names)) < len(names) or len(names) < 2:
        raise DLBricksError(
            f"cannot compare {', '.join(names) or 'nothing'}",
            hint="Name two or more backends, each once.",
        )


def _condition(wanted: str | None, of_bricks: list[str]) -> Condition:
    """Condition of the latencies: hot, unless another is requested or bricks are timed alone.

    Args:
        wanted: Name of a condition; ``None`` if the user gave none.
        of_bricks: Names of the arguments that require bricks to be timed alone.
    """
    if wanted is not None and wanted not in CONDITIONS:
        raise DLBricksError(
            f"there is no condition {wanted!r}", hint=f"Known: {', '.join(CONDITIONS)}."
        )
    if wanted == "hot" and of_bricks:
        raise DLBricksError(
            f"{argument('condition')} hot is for whole models, {of_bricks[0]} for bricks alone",
            hint="Leave one of them out.",
        )
    return "cold" if of_bricks or wanted == "cold" else "hot"
