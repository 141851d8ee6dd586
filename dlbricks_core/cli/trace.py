"""``dlbricks trace``: a model at every level, as a file for viewers of traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import write_text
from dlbricks_core.report.trace.events import trace_events
from dlbricks_core.report.trace.terminal import print_trace, trace_data
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import load_model
from dlbricks_core.workflows.trace import trace


@click.command("trace")
@click.argument("model")
@click.option("-o", "--output", "trace_path", type=click.Path(path_type=Path, dir_okay=False),
              required=True, metavar="FILE.json", help="File to write the trace to.")  # fmt: skip
@measuring.estimate_options
@measuring.timing_options
@options.store_option
@options.json_option
@options.quiet_options
def command(model: str, trace_path: Path, store: str | None, **values: Any) -> int:
    """Write a trace of MODEL: whole, bricks, layers, the framework's operators.

    Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open the file; every level is a track
    that begins at 0. Each level comes from runs without the profiler of a deeper level, and shows
    its own overhead. Exit status 3: something could not be timed or profiled; it is named.
    Nothing is written where nothing could be timed.
    """
    output = Output(values)
    load = given.load_options_of(values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_model(model, load, progress, given.import_settings_of(values))
        traced = trace(
            loaded,
            given.cut_options_of(values),
            given.request_of(values),
            opened,
            progress,
        )
    if not traced.empty:
        events = json.dumps(trace_events(traced), ensure_ascii=False, allow_nan=False)
        write_text(events + "\n", trace_path)
    print_trace(output.console, traced, trace_path)
    output.write_json(trace_data(traced, load))
    return 0 if traced.complete else EXIT_PARTIAL
