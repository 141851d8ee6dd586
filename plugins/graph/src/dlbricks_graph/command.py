"""``dlbricks show graph``: draws a model as SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click
from dlbricks_pages.html.templating import render

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import SETUP, option, options
from dlbricks_core.figures.precision import FEWEST
from dlbricks_core.progress import Observer
from dlbricks_core.report.data import SCHEMA_VERSION, ReadingData, WrittenData, reading_data
from dlbricks_core.report.files import write_text
from dlbricks_graph.costs import Basis
from dlbricks_graph.drawing import Picture, draw
from dlbricks_graph.modules import Module

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel
    from dlbricks_core.measure.request import Request
    from dlbricks_core.store import ResultStore


class ShowGraphData(WrittenData):
    """Output of ``dlbricks show graph``."""

    name: str  #: Name of the model.
    source: str  #: File or collection, as the user named it.
    settings: GraphSettingsData  #: How the model was read, and which latencies were looked up.
    layers: list[GraphLayerData]  #: In the order of the model.
    drawn_layers: int  #: Layers in the drawing; repeated modules are drawn once.
    modules: list[RepeatedModuleData]  #: Repeated modules.
    modules_complete: bool  #: Whether the search for modules went to its end, not to its limit.
    critical_path: CriticalPathData  #: The path with the largest sum.


class GraphSettingsData(ReadingData):
    """How a model was read, and which latencies were looked up; null for each default."""

    backend: str | None  #: Framework of the latencies; null where operations are the costs.
    backend_options: dict[str, str]  #: Its settings.
    threads: int | None  #: Threads for one operator.
    protocol: str | None  #: Order of the runs.
    runs: int | None  #: Minimum runs of a layer whose latency counts.
    system: str | None  #: Another machine of the store.


class GraphLayerData(TypedDict):
    """A layer of the drawing."""

    layer: str  #: Operator.
    signature: str  #: Of the layer.
    cost: float | None  #: Operations, or milliseconds; see critical_path.basis.


class RepeatedModuleData(TypedDict):
    """Layers that repeat as a whole."""

    start: int  #: First layer of the first copy.
    layers: int  #: Layers of one copy.
    copies: int  #: How many there are.
    in_a_row: bool  #: Whether copies follow each other.
    inside: list[RepeatedModuleData]  #: Modules within one copy.


class CriticalPathData(TypedDict):
    """The path with the largest sum."""

    basis: str  #: Basis of the costs.
    origin: str | None  #: Where latencies are from.
    layers: list[int]  #: Places of its layers.
    cost: float  #: Their sum.
    total: float  #: Sum over all layers.
    missing: dict[str, int]  #: Layers without a cost, by operator.


@dataclass(frozen=True, kw_only=True)
class ShowOperationsJob:
    """A model whose critical path has the most floating-point operations."""

    models: Models  #: The single model.

    def run(self, observer: Observer) -> Picture:
        """Loads the model."""
        return Picture.of(self.models.load_one(observer))


@dataclass(frozen=True, kw_only=True)
class ShowLatenciesJob:
    """A model whose critical path takes longest by stored latencies."""

    models: Models  #: The single model.
    backend: str  #: Name of the backend.
    #: Values of options that the backend declares, by name.
    backend_options: Mapping[str, str] = field(default_factory=dict)
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    protocol: str | None = None  #: Name of the protocol; ``None`` for the default.
    runs: int | None = None  #: Minimum runs of a layer whose latency counts; ``None`` for a few.
    #: Text that names the machine of the latencies; ``None`` for this one.
    system: str | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Picture:
        """Looks up the latencies of the layers."""
        # Pictures without latencies come sooner without this code.
        from dlbricks_core.commands.options.given import open_request
        from dlbricks_core.commands.options.jobs import opened
        from dlbricks_core.commands.options.systems import at_system
        from dlbricks_core.compose.options import CutOptions
        from dlbricks_core.estimation.without_runs import estimate
        from dlbricks_core.figures.figure import Cost
        from dlbricks_core.measure.known_setups import known_setups
        from dlbricks_core.measure.request import Request

        model = self.models.load_one(observer)
        with opened(store, writes=False) as every:
            target, there = at_system(every, self.system)
            setups = partial(known_setups, there, self.backend)
            request = Request.of(**open_request(vars(self)), system=target, known=setups)
            layers = CutOptions(granularity=1, strategy="chain", composer="sequential")
            found = estimate([model], layers, request, there)
        ms = {b.brick.signature: Cost.brick(b.latency).ms for b in found.bricks if b.latency}
        return _with_latencies(model, found.request, ms)


def _with_latencies(model: CanonicalModel, request: Request, ms: Mapping[str, float]) -> Picture:
    """A picture by latencies of layers; by their operations where the store has no latencies.

    Args:
        model: The model.
        request: How the layers were measured.
        ms: Latency of each measured layer in milliseconds without the call of the timer, by
            signature.
    """
    threads = request.settings.threads
    where = f"{request.backend.name} {request.setup.version}, {threads} thread{'s' * (threads > 1)}"
    origin = f"Latencies: {where}, system {request.fingerprint}; without the timer's own cost."
    if not ms:
        origin = f"The store has no latencies of single layers on {where}."
    return Picture.of(model, ms, origin)


_MARGIN, _LEAST_WIDTH, _TITLE, _LINE = 20.0, 720.0, 34.0, 18.0
_LETTER = 6.9
_PACKAGE = "dlbricks_graph"


def graph_svg(picture: Picture) -> str:
    """A picture as an SVG file with its own styles, light and dark."""
    drawing = draw(picture)
    width = max(drawing.width + 2 * _MARGIN, _LEAST_WIDTH)
    room = int((min(width, 900) - 2 * _MARGIN) / _LETTER)
    notes = list(picture.notes)
    if any(shape.tag for shape in drawing.shapes):
        notes.append("Boxes with the same letter have the same layers.")
    lines = [line for note in notes for line in textwrap.wrap(note, room)]
    head = _MARGIN + _TITLE + _LINE * len(lines)
    drawing.move((width - drawing.width) / 2, head)
    return render(
        "graph.svg",
        _PACKAGE,
        name=picture.model.name,
        lines=lines,
        drawing=drawing,
        margin=_MARGIN,
        title_y=_MARGIN + 12,
        lines_y=_MARGIN + _TITLE,
        line_height=_LINE,
        width=round(width),
        height=round(drawing.height + head + _MARGIN),
    )


def graph_data(picture: Picture, job: ShowLatenciesJob | ShowOperationsJob) -> ShowGraphData:
    """A picture as a JSON object for scripts, which identifies layers by position."""
    layers = picture.model.layers
    return {
        "schema_version": SCHEMA_VERSION,
        "name": picture.model.name,
        "source": picture.model.source,
        "settings": _settings(job),
        "layers": [
            {"layer": layer.qualified_op, "signature": signature, "cost": cost}
            for layer, signature, cost in zip(
                layers, picture.cut.layer_signatures, picture.costs.values, strict=True
            )
        ],
        "drawn_layers": picture.drawn,
        "modules": [_module(each) for each in picture.modules.found],
        "modules_complete": picture.modules.complete,
        "critical_path": {
            "basis": picture.costs.basis.value,
            "origin": picture.origin or None,
            "layers": list(picture.path),
            "cost": picture.costs.total(picture.path),
            "total": picture.costs.total(),
            "missing": dict(picture.costs.missing(picture.model)),
        },
    }


def _settings(job: ShowLatenciesJob | ShowOperationsJob) -> GraphSettingsData:
    about = vars(job)
    return {
        **reading_data(job.models.options),
        "backend": about.get("backend"),
        "backend_options": dict(about.get("backend_options", {})),
        "threads": about.get("threads"),
        "protocol": about.get("protocol"),
        "runs": about.get("runs"),
        "system": about.get("system"),
    }


def _module(module: Module) -> RepeatedModuleData:
    return {
        "start": module.start,
        "layers": module.period,
        "copies": module.copies,
        "in_a_row": module.in_a_row,
        "inside": [_module(each) for each in module.inside],
    }


@click.command("graph", cls=Concise)
@click.argument("model")
@click.option("-o", "--output", "svg_path", type=click.Path(path_type=Path, dir_okay=False),
              required=True, metavar="FILE.svg", help="File to write the picture to.")  # fmt: skip
@options(
    *(*SETUP, "threads", "protocol", "runs"),
    backend={"required": False, "help": "Framework whose stored latencies to use."},
    runs={
        "help": "Minimum runs of a layer whose latency counts.",
        "default": f"100 in the protocol paper, otherwise {FEWEST}",
    },
)
@shared.store_option
@option("system", metavar="FINGERPRINT", help="Latencies of another system in the store.")
@shared.load_options_beside_a_file
@shared.json_option
@shared.quiet_options
def command(model: str, svg_path: Path, store: str | None, **values: Any) -> int:
    """Draw MODEL as SVG, with its critical path and its repeated modules; runs nothing.

    With --backend, the critical path has the largest sum of latencies in the store ('dlbricks
    estimate --measure -G 1' puts them there), and otherwise the largest sum of floating-point
    operations. Modules that repeat are drawn once, with their number.
    """
    output = Output(values)
    run: Callable[[Observer], Picture]
    job: ShowLatenciesJob | ShowOperationsJob
    if values["backend"]:
        job = given.job_of(ShowLatenciesJob, (model,), values)
        run = partial(job.run, store)
    else:
        mode = "operations count where no --backend is named"
        job = given.job_of(ShowOperationsJob, (model,), values, mode)
        run = job.run
    with output.progress() as progress:
        picture = run(progress)
    write_text(graph_svg(picture), svg_path)
    for note in picture.notes:
        output.console.print(note)
    output.write_json(graph_data(picture, job))
    lacking = picture.costs.basis is not Basis.LATENCY or picture.costs.missing(picture.model)
    return EXIT_PARTIAL if values["backend"] and lacking else 0
