"""The readme of a suite, for its recipient."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.suites.suite import Suite

README = "README.txt"

_TEXT = Path(__file__).parent / "readme.txt"

_STRUCTURES = "It reveals how models are built, but none of their weights."
_BRICKS = "It reveals parts of models, but none of their weights."


def readme(suite: Suite) -> str:
    """Text of the readme of a suite."""
    holds = _STRUCTURES if suite.models else _BRICKS
    return _TEXT.read_text(encoding="utf-8").format(holds=holds)
