"""Terminal output that prints names literally, so that no name can control the terminal."""

from __future__ import annotations

from typing import Any

import rich.console
from rich.text import Text

from dlbricks_core.harmless import harmless


class Console(rich.console.Console):
    """A terminal that prints text literally, without markup and control characters.

    Args:
        **options: Options of :class:`rich.console.Console`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it is printed; every text passes through here, including tables."""
        return super().render_str(harmless(text), **options)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts, each with or without a style: ``("Note:", "yellow")``."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((harmless(text), style) for text, style in pairs))


def lines(*texts: str | Text) -> Text:
    """Several lines as one text, for a cell of a table."""
    return Text("\n").join(styled(text) if isinstance(text, str) else text for text in texts)
