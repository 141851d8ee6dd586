"""Interprets a request for estimates: how models are cut, and to what precision."""

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
) -> tuple[CutOptions, float | None]:
    """Options of cutting and a precision: the dial's, unless the request rules them out.

    ``None`` stands for a value that the user left open.

    Args:
        granularity: Maximum number of layers in a brick.
        strategy: Name of the split strategy.
        composer: Name of the composer.
        runs: Runs of each network.
        precision: Half-width of the 90% intervals to reach, relative to the figure.
        budget_s: Maximum seconds of measuring.
        protocol: Name of the protocol.
        quantity: Name of the quantity.

    Returns:
        Options of cutting, and the precision to reach; ``None`` for the default precision of
        measurements.

    Raises:
        PluginError: If there is no such composer, or it is broken.
    """
    free = all(each is None for each in (granularity, strategy, composer, runs))
    usual = protocol in (None, next(iter(PROTOCOLS))) and quantity == LATENCY.name
    turned = dialled(precision, budget_s) if free and usual else None
    if turned is not None:
        return CutOptions.chosen(None, None, LEARNED_COMPOSER), turned
    return CutOptions.chosen(granularity, strategy, composer, quantity=quantity), precision
