"""Fills the templates of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dlbricks_core import __version__
from dlbricks_core.harmless import harmless
from dlbricks_core.report.run.terminal import calibrated_with
from dlbricks_core.report.tables import ms
from dlbricks_core.workflows import LoadOptions, RunResult


def render(template: str, **values: Any) -> str:
    """A template of this package with values; markup in them is escaped."""
    environment = Environment(
        loader=PackageLoader("dlbricks_core.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_harmless,
    )
    environment.filters |= {"ms": _ms, "interval": _interval, "join_layers": ", ".join}
    return environment.get_template(template).render(
        version=__version__, written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **values
    )


def _harmless(value: Any) -> Any:
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(
    template: str, runs: Mapping[str, RunResult], load: LoadOptions | None, **values: Any
) -> str:
    """A page on runs, which says how they were made.

    Args:
        template: Its name.
        runs: By backend, all made with the same options.
        load: What was said about how models are read; ``None`` if that is not known.
        **values: What the template asks for besides.
    """
    run = next(iter(runs.values()))
    return render(
        template,
        runs=runs,
        request=run.request,
        cut_options=run.cut_options,
        calibrated=calibrated_with(run.calibration) if run.calibration else "",
        given=given(load) if load else "",
        **values,
    )


def given(load: LoadOptions) -> str:
    """Sizes and values that models were read with."""
    dims = [f"{name}={size}" for name, size in load.dims.items()]
    shapes = [f"{name}={'x'.join(map(str, shape))}" for name, shape in load.shapes.items()]
    values = [f"{name}={number:g}" for name, number in load.values.items()]
    folded = ["batch normalization folded"] if load.fold_batchnorm else []
    return ", ".join([f"batch {load.batch or 1}", *dims, *shapes, *values, *folded])


def _ms(value: float | None) -> str:
    return "–" if value is None else ms(value)


def _interval(ends: Iterable[float] | None) -> str:
    return "–" if ends is None else "–".join(map(ms, ends))
