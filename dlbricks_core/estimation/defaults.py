"""Defaults of estimates that help texts name, apart from what uses them: few imports."""

from __future__ import annotations

REGRESSION = "regression"
"""Predictor of quantities other than latency."""

PROMPT, GENERATE = 512, 128
"""Default numbers of tokens of a prompt and of its answer."""

FINEST = 0.05
"""Finest precision of adaptive measuring. Below it, a framework's changes to a segment inside a
model matter, and only bricks of the executed graph include them.
"""

USUAL = 0.1
"""Default precision. It suffices to choose between models, machines or backends, which mostly
differ by more. A shared machine drifts by half as much within minutes, and half the
precision takes about twice as long (docs/results/predicting.md).
"""


def adaptive_precision(precision: float | None, budget_s: float | None) -> float:
    """Precision to reach for estimates.

    Args:
        precision: Precision that the user requests, if any.
        budget_s: Seconds that the user grants, if any.
    """
    if precision is not None:
        return precision
    return USUAL if budget_s is None else FINEST
