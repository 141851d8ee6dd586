"""Judges variances of processors' physical terms by predictions of systems that are left out.

    python benchmarks/predictor/rates.py

As `nearness.py` beside it: for each system, the surprise of each setting where this system takes no
part. Nothing is measured. The program takes ten minutes on one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

from dlbricks_prediction import transfer
from dlbricks_prediction.transfer import Rates
from nearness import judge

CANDIDATES: Mapping[str, Rates] = {
    "0.015": Rates(0.015, 0.015, 0.015, 0.015, 0.015),
    "0.03": Rates(0.03, 0.03, 0.03, 0.03, 0.03),
    "0.05": Rates(0.05, 0.05, 0.05, 0.05, 0.05),
    "0.08": Rates(0.08, 0.08, 0.08, 0.08, 0.08),
}
"""Settings that are judged: round numbers, equal for all terms."""


def main() -> None:
    """Judges the candidates."""
    judge({
        name: patch.object(transfer, "rates", lambda chosen=setting: chosen)
        for name, setting in CANDIDATES.items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
