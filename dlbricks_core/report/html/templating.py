"""Fills the templates of pages and drawings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dlbricks_core.harmless import harmless
from dlbricks_core.report import heading
from dlbricks_core.report.remarks import Effect, Remark
from dlbricks_core.report.tables import ms
from dlbricks_core.version import __version__
from dlbricks_core.workflows import LoadOptions, RunResult

Fact = tuple[str, str]
"""A name, and a fact about how figures were made, in words."""


def render(template: str, **values: Any) -> str:
    """A template of this package filled with values; markup in them is escaped.

    Args:
        template: Path of the template in ``dlbricks_core/report``.
        **values: Variables of the template.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            version=__version__, written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **values
        )
    )


@cache
def _environment() -> Environment:
    """Compiled templates: a site has many pages of one kind."""
    return Environment(
        loader=PackageLoader("dlbricks_core.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_harmless,
    )


def _harmless(value: Any) -> Any:
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(
    template: str,
    *,
    title: str,
    answer: Sequence[str],
    facts: Sequence[Fact] = (),
    remarks: Sequence[Remark] = (),
    failures: Sequence[tuple[str, str]] = (),
    **values: Any,
) -> str:
    """A page in the common layout, which begins with the answer and doubts about it.

    Args:
        template: Path of the template, which fills the block ``results``.
        title: Subject of the page.
        answer: Sentences; the first is the answer itself.
        facts: Facts about how the figures were made.
        remarks: Remarks, the worst first; notes come below the figures.
        failures: Failures with their reasons.
        **values: Further variables of the template.
    """
    return render(
        template,
        title=title,
        answer=answer,
        facts=facts,
        warnings=[remark for remark in remarks if remark.effect < Effect.NOTE],
        notes=[remark for remark in remarks if remark.effect == Effect.NOTE],
        failures=failures,
        **values,
    )


def run_facts(runs: Mapping[str, RunResult], load: LoadOptions | None) -> list[Fact]:
    """Facts about how runs were made.

    Args:
        runs: Runs by backend, all with the same options.
        load: How models were read; ``None`` if unknown.
    """
    run = next(iter(runs.values()))
    request, cut = run.request, run.cut_options
    found = []
    for name, each in runs.items():
        timer = ""
        if each.call_ms is not None:
            timer = f"; timer {each.call_ms * 1e3:.1f} µs a call, taken off each brick"
        about = f"{name} {each.request.setup.version}{heading.options(each.request)}{timer}"
        found.append(("Backend", about))
    system = f"{heading.system(request)} (fingerprint {request.fingerprint})"
    found.append(("System", system))
    read = f"{given(load)}; " if load else ""
    threads = heading.count(request.settings.threads, "thread")
    measuring = f"{heading.protocol(request)}; {threads}; {read}seed {request.seed}"
    layers = heading.count(cut.granularity, "layer")
    bricks = f"up to {layers}, split {cut.strategy}, composer {cut.composer}"
    found += [("Measuring", measuring), ("Bricks", bricks)]
    if run.calibration:
        found.append(("Calibrated", heading.calibrated_with(run.calibration)))
    return found


def given(load: LoadOptions) -> str:
    """Sizes, values and element type that models were read with."""
    dims = [f"{name}={size}" for name, size in load.dims.items()]
    shapes = [f"{name}={'x'.join(map(str, shape))}" for name, shape in load.shapes.items()]
    values = [f"{name}={number:g}" for name, number in load.values.items()]
    folded = ["batch normalization folded"] if load.fold_batchnorm else []
    converted = [f"converted to {load.dtype}"] if load.dtype else []
    return ", ".join([f"batch {load.batch or 1}", *dims, *shapes, *values, *folded, *converted])


def or_dash(value: float | None) -> str:
    """Milliseconds; a dash if unknown."""
    return "–" if value is None else ms(value)


def between(ends: Iterable[float] | None) -> str:
    """An interval in milliseconds; a dash if unknown."""
    return "–" if ends is None else "–".join(map(ms, ends))
