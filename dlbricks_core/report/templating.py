"""Fills the templates of this package."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dlbricks_core import __version__
from dlbricks_core.report.tables import ms


def render(template: str, **values: Any) -> str:
    """A template of this package with values; markup in them is escaped."""
    environment = Environment(
        loader=PackageLoader("dlbricks_core.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"ms": _ms, "interval": _interval, "join_layers": ", ".join}
    return environment.get_template(template).render(
        version=__version__, written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **values
    )


def _ms(value: float | None) -> str:
    return "–" if value is None else ms(value)


def _interval(ends: Iterable[float] | None) -> str:
    return "–" if ends is None else "–".join(map(ms, ends))
