"""Turns the outline of a model into shapes: boxes, frames, lines and texts with places."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlbricks_core.analysis import Chain, Outline, Repeated, Terminal
from dlbricks_core.analysis.outline import Node
from dlbricks_core.ir import Layer, TensorSpec
from dlbricks_core.report.graph.layout import Box, Point, layered
from dlbricks_core.report.graph.picture import Picture

_LETTER, _LINE = 7.2, 15.0
"""Width and height that a character of 12 pixels takes at most."""

_PADDING, _LABEL = 9.0, 22.0
_CHARACTERS = 40


@dataclass
class Shape:
    """A rectangle with lines of text.

    Attributes:
        kind: Class of the style sheet: ``layer``, ``module`` or ``terminal``.
        x: Left side.
        y: Upper side.
        width: To the right.
        height: Downwards.
        lines: Text, line by line, of which the last ``details`` are less important; of a
            module, what is written above and below.
        details: Number of such lines.
        critical: Whether it is on the critical path.
        unknown: Whether the cost of something in it is not known.
        tag: Letter of its kind, where others like it are elsewhere.
        title: What is shown when pointing at it.
    """

    kind: str
    width: float
    height: float
    lines: Sequence[str] = ()
    details: int = 0
    critical: bool = False
    unknown: bool = False
    tag: str = ""
    title: str = ""
    x: float = 0.0
    y: float = 0.0


@dataclass
class Line:
    """A connection from box to box.

    Attributes:
        points: Pairs of points; a straight line leads through each, a curve to the next.
        critical: Whether the critical path goes this way.
    """

    points: list[Point]
    critical: bool = False

    @property
    def path(self) -> str:
        """In the notation of SVG."""
        (x, y), *rest = self.points
        words = [f"M{x:.1f} {y:.1f}"]
        for i, (to_x, to_y) in enumerate(rest):
            if i % 2 == 0 or abs(to_x - x) < 0.05:
                words.append(f"L{to_x:.1f} {to_y:.1f}")
            else:
                middle = (y + to_y) / 2
                words.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
            x, y = to_x, to_y
        return " ".join(words)


@dataclass
class Drawing:
    """Shapes and lines, and how much room they take.

    Attributes:
        width: To the right.
        height: Downwards.
        enter: Where lines come in at the upper side, from the left; the middle if ``None``.
        leave: Where lines go out at the lower side.
        shapes: Boxes and frames.
        lines: Connections.
    """

    width: float
    height: float
    enter: float | None = None
    leave: float | None = None
    shapes: list[Shape] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @property
    def box(self) -> Box:
        """What a layout needs to know."""
        middle = self.width / 2
        enter, leave = (0.0 if x is None else x - middle for x in (self.enter, self.leave))
        return Box(self.width, self.height, enter, leave)

    def move(self, x: float, y: float) -> None:
        """Moves everything to the right and down."""
        for shape in self.shapes:
            shape.x += x
            shape.y += y
        for line in self.lines:
            line.points = [(left + x, top + y) for left, top in line.points]


def draw(picture: Picture) -> Drawing:
    """Draws a model's outline from top to bottom."""
    return _draw(picture.outline, picture, _tags(picture))


def _draw(part: Outline, picture: Picture, tags: dict[Hashable, str]) -> Drawing:
    drawn = [_node(node, picture, tags) for node in part.nodes]
    layout = layered([each.box for each in drawn], part.edges)
    whole = Drawing(layout.width, layout.height)
    for each, (x, y) in zip(drawn, layout.places, strict=True):
        each.move(x, y)
        whole.shapes += each.shapes
        whole.lines += each.lines
    on_path = set(picture.path_pairs)
    critical = {edge for edge, pairs in part.edges.items() if not on_path.isdisjoint(pairs)}
    for edge, points in layout.routes.items():
        whole.lines.append(Line(list(points), edge in critical))
    for i, node in enumerate(part.nodes):
        if isinstance(node, Terminal) and not node.tensor:
            on_way = any(i in edge for edge in critical)
            _open(whole, *layout.places[i], is_entry=node.entry, critical=on_way)
    return whole


def _open(inside: Drawing, x: float, y: float, *, is_entry: bool, critical: bool) -> None:
    """Leads the inside of a module to the frame that will be around it."""
    if is_entry:
        inside.enter = x
        inside.lines.append(Line([(x, -_LABEL), (x, y)], critical))
    else:
        inside.leave = x
        inside.lines.append(Line([(x, y), (x, inside.height + _PADDING)], critical))


def _node(node: Node, picture: Picture, tags: dict[Hashable, str]) -> Drawing:
    if isinstance(node, Terminal):
        return _terminal(node, picture)
    if isinstance(node, Repeated):
        return _module(node, picture, tags)
    return _chain(node, picture, tags)


def _terminal(node: Terminal, picture: Picture) -> Drawing:
    if not node.tensor:
        return Drawing(0.0, 0.0)
    text = f"{node.tensor}: {picture.model.tensors[node.tensor]}"
    width = _LETTER * len(text) + 2 * _PADDING
    height = _LINE + _PADDING
    return Drawing(width, height, shapes=[Shape("terminal", width, height, [text])])


def _chain(node: Chain, picture: Picture, tags: dict[Hashable, str]) -> Drawing:
    layers = [picture.model.layers[step[0]] for step in node.steps]
    words = [describe(layer) for layer in layers]
    lines = textwrap.wrap(
        ", ".join(words), _CHARACTERS, break_long_words=True, break_on_hyphens=False
    )
    firsts = [step[0] for step in node.steps]
    shape, cost = _result(layers[-1], picture), picture.cost(firsts)
    lines.append(" · ".join(text for text in (shape, cost) if text))
    tag = tags.get(_kind(node, picture), "")
    width = max(_LETTER * len(line) for line in lines) + 2 * _PADDING + (20 if tag else 0)
    height = _LINE * len(lines) + _PADDING
    every = [i for step in node.steps for i in step]
    titles = [f"{layer.qualified_op} {layer.name}".strip() for layer in layers]
    return Drawing(
        width,
        height,
        shapes=[
            Shape(
                "layer",
                width,
                height,
                lines,
                details=1,
                critical=not picture.on_path.isdisjoint(every),
                unknown=any(picture.costs.values[i] is None for i in every),
                tag=tag,
                title="\n".join(titles),
            )
        ],
    )


def _module(node: Repeated, picture: Picture, tags: dict[Hashable, str]) -> Drawing:
    inside = _draw(node.inside, picture, tags)
    module = node.module
    how = "in a row" if module.in_a_row else "side by side"
    every = node.layers
    cost = picture.cost(range(module.start, module.end))
    lines = [f"{module.copies} × {how}", f"{cost} in all" if cost else ""]
    tag = tags.get(_kind(node, picture), "")
    # Left of the line that comes in at the middle.
    room = 2 * (_LETTER * max(map(len, lines)) + 2 * _PADDING)
    width = max(inside.width + 2 * _PADDING, room)
    height = inside.height + _LABEL + _PADDING
    left = (width - inside.width) / 2
    enter, leave = (None if x is None else x + left for x in (inside.enter, inside.leave))
    inside.move(left, _LABEL)
    frame = Shape(
        "module",
        width,
        height,
        lines,
        critical=not picture.on_path.isdisjoint(every),
        unknown=any(picture.costs.values[i] is None for i in every),
        tag=tag,
    )
    return Drawing(width, height, enter, leave, [frame, *inside.shapes], inside.lines)


def _tags(picture: Picture) -> dict[Hashable, str]:
    """A letter for each kind of box with several layers, or of module, that is there twice."""
    kinds = Counter(
        kind for kind in _kinds(picture.outline, picture) if isinstance(kind, tuple) and kind[1:]
    )
    often = [kind for kind, count in kinds.items() if count > 1]
    return {kind: _letters(i) for i, kind in enumerate(often)}


def _letters(number: int) -> str:
    first, last = divmod(number, 26)
    return (chr(ord("A") + first - 1) if first else "") + chr(ord("A") + last)


def _kinds(part: Outline, picture: Picture) -> Iterable[Hashable]:
    for node in part.nodes:
        yield _kind(node, picture)
        if isinstance(node, Repeated):
            yield from _kinds(node.inside, picture)


def _kind(node: Node, picture: Picture) -> Hashable:
    """What equal nodes have in common: the signatures of their layers."""
    signatures = picture.cut.layer_signatures
    if isinstance(node, Chain):
        return tuple(signatures[step[0]] for step in node.steps)
    if isinstance(node, Repeated):
        start = node.module.start
        return ("module", *signatures[start : start + node.module.period])
    return None


def _result(layer: Layer, picture: Picture) -> str:
    specs = [picture.model.tensors[name] for name in layer.outputs[:1] if name]
    return ", ".join(_shape(spec) for spec in specs)


def _shape(spec: TensorSpec) -> str:
    if spec.shape is None:
        return "?"
    return "×".join(str(dim if dim is not None else "?") for dim in spec.shape) or "scalar"


def describe(layer: Layer) -> str:
    """An operator with what tells it from others of its type: ``Conv 3×3 /2``."""
    words = [layer.qualified_op, *(write(layer.attributes) for write in _FEATURES)]
    # Lines do not break between an operator and its features.
    return "\N{NO-BREAK SPACE}".join(word for word in words if word)


def _kernel(attributes: Any) -> str:
    return "×".join(map(str, _numbers(attributes, "kernel_shape")))


def _strides(attributes: Any) -> str:
    strides = _numbers(attributes, "strides")
    if all(stride == 1 for stride in strides):
        return ""
    return f"/{'×'.join(map(str, strides if len(set(strides)) > 1 else strides[:1]))}"


def _numbers(attributes: Any, name: str) -> tuple[Any, ...]:
    """An attribute; nothing where it is something else, as it may be in an opaque layer."""
    value = attributes.get(name)
    return value if isinstance(value, tuple) else ()


_FEATURES: tuple[Callable[[Any], str], ...] = (_kernel, _strides)
