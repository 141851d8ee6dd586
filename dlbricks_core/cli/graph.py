"""``dlbricks graph``: draws a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.analysis import Basis, LayerCosts
from dlbricks_core.bricks import BrickSet
from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report import write_text
from dlbricks_core.report.graph.picture import Picture
from dlbricks_core.report.graph.svg import graph_data, graph_svg
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import LayerLatencies, layer_latencies, load_model


@click.command("graph")
@click.argument("model")
@click.option("-o", "--output", "svg_path", type=click.Path(path_type=Path, dir_okay=False),
              required=True, metavar="FILE.svg", help="File to write the picture to.")  # fmt: skip
@measuring.stored_options
@options.store_option
@click.option("--system", metavar="FINGERPRINT", help="Latencies of another system in the store.")
@options.load_options
@options.json_option
@options.quiet_options
def command(
    model: str, svg_path: Path, store: str | None, system: str | None, **values: Any
) -> int:
    """Draw MODEL as SVG, with its critical path and its repeated modules; runs nothing.

    The critical path is the one with the largest sum of latencies in the store where
    --backend is given ('dlbricks run -G 1' puts them there), and otherwise of floating-point
    operations. Modules that repeat are drawn once, with their number.
    """
    output = Output(values)
    with output.progress() as progress:
        load = given.load_options_of(values)
        loaded = load_model(model, load, progress, given.import_settings_of(values))
    picture = _picture(loaded, _latencies(loaded, store, system, values))
    write_text(graph_svg(picture), svg_path)
    for note in picture.notes:
        output.console.print(note)
    output.write_json(graph_data(picture))
    lacking = picture.costs.basis is not Basis.LATENCY or picture.costs.missing(loaded)
    return EXIT_PARTIAL if values["backend"] and lacking else 0


def _latencies(
    model: CanonicalModel, store: str | None, system: str | None, values: dict[str, Any]
) -> LayerLatencies | None:
    if not values["backend"]:
        return None
    with ResultStore.open(store, writes=False) as opened:
        return layer_latencies(model, given.request_of(values), opened, system)


def _picture(model: CanonicalModel, found: LayerLatencies | None) -> Picture:
    (cut,) = BrickSet.of([model]).models
    if found is None:
        return Picture(cut, LayerCosts.of(cut))
    request = found.request
    threads = request.settings.threads
    where = f"{request.backend.name} {request.setup.version}, {threads} thread{'s' * (threads > 1)}"
    if not found.ms:
        reason = f"The store has no latencies of single layers on {where} (dlbricks run -G 1)."
        return Picture(cut, LayerCosts.of(cut), reason)
    origin = f"Latencies: {where}, system {request.fingerprint}; without the timer's own cost."
    return Picture(cut, LayerCosts.of(cut, found.ms), origin)
