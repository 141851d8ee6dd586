"""The border to the terminal: names come through as they are, and do nothing there."""

from __future__ import annotations

from typing import Any

import rich.console
from rich.text import Text

from dlbricks_core.harmless import harmless


class Console(rich.console.Console):
    """A terminal on which text is only text: neither markup nor control characters.

    Args:
        **options: As those of :class:`rich.console.Console`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """What every text goes through, also in cells of tables."""
        return super().render_str(harmless(text), **options)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of parts, each of which may have a style: ``("Note:", "yellow")``."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((harmless(text), style) for text, style in pairs))


def lines(*texts: str | Text) -> Text:
    """Several lines, for a cell of a table."""
    return Text("\n").join(styled(text) if isinstance(text, str) else text for text in texts)
