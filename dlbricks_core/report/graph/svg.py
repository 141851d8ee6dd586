"""A model's graph as SVG and as plain data."""

from __future__ import annotations

import textwrap
from typing import Any

from dlbricks_core.analysis import Module
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.graph.drawing import draw
from dlbricks_core.report.graph.picture import Picture
from dlbricks_core.report.html.templating import render

_MARGIN, _LEAST_WIDTH, _TITLE, _LINE = 20.0, 720.0, 34.0, 18.0
_LETTER = 6.9


def graph_svg(picture: Picture) -> str:
    """A picture as an SVG file with its own styles, light and dark.

    Args:
        picture: The model, with the costs of its layers.
    """
    drawing = draw(picture)
    width = max(drawing.width + 2 * _MARGIN, _LEAST_WIDTH)
    room = int((min(width, 900) - 2 * _MARGIN) / _LETTER)
    notes = list(picture.notes)
    if any(shape.tag for shape in drawing.shapes):
        notes.append("Boxes with the same letter hold the same layers.")
    lines = [line for note in notes for line in textwrap.wrap(note, room)]
    head = _MARGIN + _TITLE + _LINE * len(lines)
    drawing.move((width - drawing.width) / 2, head)
    return render(
        "graph/graph.svg",
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


def graph_data(picture: Picture) -> dict[str, Any]:
    """A picture as a JSON object for scripts, which identifies layers by position."""
    layers = picture.model.layers
    return {
        "schema_version": SCHEMA_VERSION,
        "name": picture.model.name,
        "source": picture.model.source,
        "layers": [
            {"layer": layer.qualified_op, "signature": signature, "cost": cost}
            for layer, signature, cost in zip(
                layers, picture.cut.layer_signatures, picture.costs.values, strict=True
            )
        ],
        "drawn_layers": picture.drawn,
        "modules": [_module(each) for each in picture.modules],
        "critical_path": {
            "basis": picture.costs.basis.value,
            "origin": picture.origin or None,
            "layers": list(picture.path),
            "cost": picture.costs.total(picture.path),
            "total": picture.costs.total(),
            "missing": dict(picture.costs.missing(picture.model)),
        },
    }


def _module(module: Module) -> dict[str, Any]:
    return {
        "start": module.start,
        "layers": module.period,
        "copies": module.copies,
        "in_a_row": module.in_a_row,
        "inside": [_module(each) for each in module.inside],
    }
