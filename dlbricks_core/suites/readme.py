"""What a suite says to the person who gets it."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.suites.suite import Suite

README = "README.txt"

_TEXT = Path(__file__).parent / "readme.txt"

_STRUCTURES = "It tells how models are built, and none of their weights."
_BRICKS = "It tells parts of models, and none of their weights."


def readme(suite: Suite) -> str:
    """Text for the person who gets a suite."""
    holds = _STRUCTURES if suite.models else _BRICKS
    return _TEXT.read_text(encoding="utf-8").format(holds=holds)
