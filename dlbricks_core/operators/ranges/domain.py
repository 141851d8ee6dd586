"""Domains: the arguments for which an operator is defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_core.operators.ranges.interval import TINY, Range


@dataclass(frozen=True)
class Domain:
    """Arguments for which a function is defined.

    Attributes:
        valid: Range of all of them.
        choice: Range to choose from, at some distance from the ends.
    """

    valid: Range
    choice: Range


DomainRule = Callable[[Sequence[Array | None]], tuple[Domain, ...]]
"""Domains of an input, each of which is valid, from the known values of all inputs."""

#: Ranges to choose from for a number that must not be zero.
POSITIVE, NEGATIVE = Range.of(0.1, np.inf), Range.of(-np.inf, -0.1)

_POSITIVE = Domain(Range.of(TINY, np.inf), POSITIVE)
_NEGATIVE = Domain(Range.of(-np.inf, -TINY), NEGATIVE)
_NOT_NEGATIVE = Domain(Range.of(0, np.inf), POSITIVE)


def _always(*domains: Domain) -> DomainRule:
    return lambda known: domains


ABOVE_ZERO = _always(_POSITIVE)
NOT_NEGATIVE = _always(_NOT_NEGATIVE)
NOT_ZERO = _always(_POSITIVE, _NEGATIVE)
COSINE = _always(Domain(Range.of(-1, 1), Range.of(-0.9, 0.9)))
INSIDE_UNIT = _always(Domain(Range.of(TINY - 1, 1 - 1e-7), Range.of(-0.9, 0.9)))
ABOVE_ONE = _always(Domain(Range.of(1, np.inf), Range.of(1.1, np.inf)))


def base_of_power(known: Sequence[Array | None]) -> tuple[Domain, ...]:
    """Domains of the base of a power, by the exponent; empty if every base is valid."""
    exponent = known[1]
    if exponent is None:
        return (_POSITIVE,)
    whole = bool((exponent == np.round(exponent)).all())
    if (exponent >= 0).all():
        return () if whole else (_NOT_NEGATIVE,)
    return (_POSITIVE, _NEGATIVE) if whole else (_POSITIVE,)
