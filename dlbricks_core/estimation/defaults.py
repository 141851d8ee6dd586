"""Defaults of estimates that help texts name, apart from what uses them: few imports."""

from __future__ import annotations

PREDICTOR = "atlas"
"""Default predictor of latencies."""

REGRESSION = "regression"
"""Predictor of quantities other than latency."""

PROMPT, GENERATE = 512, 128
"""Default numbers of tokens of a prompt and of its answer."""
