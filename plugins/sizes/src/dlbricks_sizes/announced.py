"""Options of several sizes, which the list of plugins imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlbricks_core.commands import SizesOptions, SizesRequest


class RequestedSizes(SizesOptions):
    """Sizes of language models' answers, and of sweeps."""

    name = "sizes"

    def request(self, values: Mapping[str, Any], names: Sequence[str]) -> SizesRequest | None:
        """The requested sizes."""
        from dlbricks_sizes.options import sizes_of

        return sizes_of(values, names)
