"""What a user who estimates models asks for: how they are cut, and how precisely."""

from __future__ import annotations

from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.dial.precisions import dialled


def cut_and_precision(
    granularity: int | None = None,
    strategy: str | None = None,
    composer: str | None = None,
    *,
    runs: int | None = None,
    precision: float | None = None,
    budget_s: float | None = None,
    protocol: str | None = None,
    quantity: str = LATENCY.name,
    compares: bool = False,
) -> tuple[CutOptions, float | None]:
    """How models are cut, and the precision: those of the dial, if nothing speaks against it.

    ``None`` is what the user does not say.

    Args:
        granularity: Most layers in a brick.
        strategy: Name of the split strategy.
        composer: Name of the composer.
        runs: Runs of each network.
        precision: Half-width of the 90% intervals to reach, relative to the figure.
        budget_s: Seconds that measuring may take.
        protocol: Name of the protocol.
        quantity: Name of the quantity.
        compares: Whether the user wants to see how good estimates are, not estimates.

    Returns:
        Options of cutting, and the precision to ask for, which stays ``None`` where the default
        of all other measurements holds.

    Raises:
        PluginError: If there is no such composer, or it is broken.
    """
    free = all(each is None for each in (granularity, strategy, composer, runs))
    usual = protocol in (None, next(iter(PROTOCOLS))) and quantity == LATENCY.name
    turned = dialled(precision, budget_s, compares=compares) if free and usual else None
    if turned is not None:
        return CutOptions.chosen(None, None, LEARNED_COMPOSER), turned
    return CutOptions.chosen(granularity, strategy, composer, quantity=quantity), precision
