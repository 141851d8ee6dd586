"""Drawings of models: pictures of layers, and their connections."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Self

from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.bricks.naming import operator
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.limits import DRAWN
from dlbricks_core.report.tables import ms, quantity
from dlbricks_graph.costs import Basis, LayerCosts, critical_path
from dlbricks_graph.layout import Box, Point, extent, layered
from dlbricks_graph.modules import Modules, repeated_modules
from dlbricks_graph.outline import (
    OUTSIDE,
    Chain,
    Node,
    Outline,
    Pair,
    Repeated,
    Terminal,
    outline,
)


@dataclass(frozen=True)
class Picture:
    """A model with its critical path and repeated modules."""

    cut: CutModel  #: The model and its bricks.
    costs: LayerCosts  #: Costs of its layers.
    origin: str = ""  #: Origin of the costs, or the reason why they are not latencies.

    @classmethod
    def of(cls, model: CanonicalModel, ms: Mapping[str, float] | None = None,
           origin: str = "") -> Self:  # fmt: skip
        """The picture of a model by milliseconds of its layers, or by their operations."""
        (cut,) = BrickSet.of([model]).models
        return cls(cut, LayerCosts.of(cut, ms), origin)

    @property
    def model(self) -> CanonicalModel:
        """The model that is drawn."""
        return self.cut.model

    @cached_property
    def modules(self) -> Modules:
        """Modules that are drawn once and represent several copies."""
        return repeated_modules(self.cut)

    @cached_property
    def outline(self) -> Outline:
        """The graph that is drawn."""
        return outline(self.model, self.modules.found)

    @cached_property
    def path(self) -> tuple[int, ...]:
        """Positions of the layers on the critical path."""
        return critical_path(self.model, self.costs)

    @cached_property
    def on_path(self) -> frozenset[int]:
        """The positions of :attr:`path` as a set."""
        return frozenset(self.path)

    @property
    def path_pairs(self) -> list[Pair]:
        """Pairs of producer and reader along the critical path, from outside to outside."""
        return list(pairwise((OUTSIDE, *self.path, OUTSIDE)))

    @property
    def drawn(self) -> int:
        """Number of layers that are drawn; a repeated module counts once."""
        hidden = sum(each.end - each.start - each.drawn for each in self.modules.found)
        return len(self.model.layers) - hidden

    @property
    def notes(self) -> list[str]:
        """Sentences at the top of the drawing."""
        count = len(self.model.layers)
        lines = [
            f"{count} layers, {len(set(self.cut.layer_signatures))} unique. "
            + (f"{self.drawn} drawn: dashed frames show one of several equal modules."
               if self.drawn < count else "No modules repeat in a row.")
        ]  # fmt: skip
        if not self.modules.complete:
            lines.append("The search for equal modules ended at its limit: more may repeat.")
        whole = self.costs.total()
        share = f", {self.costs.total(self.path) / whole:.1%} of the sum" if whole else ""
        lines.append(
            f"Critical path (bold) by {self.costs.basis.value}: {len(self.path)} layers{share}."
        )
        if self.origin:
            lines.append(self.origin)
        missing = self.costs.missing(self.model)
        if missing:
            listed = ", ".join(f"{op} ({number})" for op, number in missing.items())
            lines.append(f"Cost not known, missing in the path's (dashed boxes): {listed}.")
        return lines

    def cost(self, layers: Iterable[int]) -> str:
        """Total cost of some layers in words; empty if only layers are counted."""
        chosen = list(layers)
        if self.costs.basis is Basis.LAYERS:
            return ""
        unknown = any(self.costs.values[i] is None for i in chosen)
        if unknown and all(self.costs.values[i] is None for i in chosen):
            return "cost not known"
        return f"{'>' if unknown else ''}{self._write(self.costs.total(chosen))}"

    def _write(self, cost: float) -> str:
        if self.costs.basis is Basis.LATENCY:
            return f"{ms(cost)} ms"
        return f"{quantity(cost)} FLOPs" if cost < 1000 else f"{quantity(cost)}FLOPs"


_LETTER, _LINE = 7.2, 15.0  #: Maximum width and height of a character of 12 pixels, in pixels.

_PADDING, _LABEL = 9.0, 22.0  #: Space in a frame, and height of its label, in pixels.
_CHARACTERS = 40  #: Maximum characters of a line.


@dataclass
class Shape:
    """A rectangle with lines of text."""

    kind: str  #: Class of the style sheet: ``layer``, ``module`` or ``terminal``.
    width: float  #: Width in pixels.
    height: float  #: Height in pixels.
    #: Lines of text. The last ``details`` of them are less important. A module has one line above
    #: and one below.
    lines: Sequence[str] = ()
    details: int = 0  #: Number of less important lines.
    critical: bool = False  #: Whether the shape is on the critical path.
    unknown: bool = False  #: Whether the cost of some layer in the shape is unknown.
    tag: str = ""  #: Letter of the shape's kind; empty if the kind occurs only once.
    title: str = ""  #: Tooltip of the shape.
    x: float = 0.0  #: Position of the left side in pixels.
    y: float = 0.0  #: Position of the upper side in pixels.


@dataclass
class Connection:
    """A connection from box to box."""

    #: Pairs of points. A straight line joins the two points of a pair, a curve joins one pair to
    #: the next.
    points: list[Point]
    critical: bool = False  #: Whether the connection is on the critical path.

    @property
    def path(self) -> str:
        """The line in the notation of SVG."""
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
    """Shapes and lines, and their total size."""

    width: float  #: Width in pixels.
    height: float  #: Height in pixels.
    #: Distance from the left side, in pixels, at which lines enter the upper side; the middle if
    #: ``None``.
    enter: float | None = None
    #: Distance from the left side, in pixels, at which lines leave the lower side; the middle if
    #: ``None``.
    leave: float | None = None
    shapes: list[Shape] = field(default_factory=list)  #: Boxes and frames.
    lines: list[Connection] = field(default_factory=list)  #: Connections.

    @property
    def box(self) -> Box:
        """Size of the drawing for a layout."""
        middle = self.width / 2
        enter, leave = (0.0 if x is None else x - middle for x in (self.enter, self.leave))
        return Box(self.width, self.height, enter, leave)

    def move(self, x: float, y: float) -> None:
        """Moves all shapes and lines to the right and down, by pixels."""
        for shape in self.shapes:
            shape.x += x
            shape.y += y
        for line in self.lines:
            line.points = [(left + x, top + y) for left, top in line.points]


def draw(picture: Picture) -> Drawing:
    """The outline of a model as shapes, from top to bottom.

    Raises:
        DLBricksError: If it would be too large; nothing is drawn then.
    """
    size = _extent(picture.outline)
    if size > DRAWN.most:
        raise DLBricksError(
            f"{picture.model.name:.60}: the drawing would have {size:,} {DRAWN.unit}, "
            f"more than {DRAWN.most:,}",
            hint=f"Draw a part of the model, or raise the environment variable {DRAWN.variable}.",
        )
    return _draw(picture.outline, picture, _tags(picture))


def _extent(part: Outline) -> int:
    """Number of boxes, lines and bends in an outline and in its modules."""
    inside = (_extent(each.inside) for each in part.nodes if isinstance(each, Repeated))
    return extent(len(part.nodes), part.edges) + sum(inside)


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
        whole.lines.append(Connection(list(points), edge in critical))
    for i, node in enumerate(part.nodes):
        if isinstance(node, Terminal) and not node.tensor:
            on_way = any(i in edge for edge in critical)
            _open(whole, *layout.places[i], is_entry=node.entry, critical=on_way)
    return whole


def _open(inside: Drawing, x: float, y: float, *, is_entry: bool, critical: bool) -> None:
    """Draws a line from the inside of a module to its frame."""
    if is_entry:
        inside.enter = x
        inside.lines.append(Connection([(x, -_LABEL), (x, y)], critical))
    else:
        inside.leave = x
        inside.lines.append(Connection([(x, y), (x, inside.height + _PADDING)], critical))


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
    # The text is to the left of the line that enters at the middle.
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
    """A letter for each kind of module, or of box with several layers, that occurs twice."""
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
    """Key that equal nodes share: the signatures of their layers."""
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
    """Operator with its distinguishing attributes: ``Conv 3×3 s2``."""
    words = f"{layer.domain}.{operator(layer)}" if layer.domain else operator(layer)
    # Lines do not break between an operator and its features.
    return words.replace(" ", "\N{NO-BREAK SPACE}")
