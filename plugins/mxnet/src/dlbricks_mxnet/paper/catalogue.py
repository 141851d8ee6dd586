"""What Table 1 of the paper lists, and which function builds each network.

Titles, tasks and numbers of layers are those of Table 1 in Li et al., "DLBricks", ICPE
2020; the tasks are image classification (IC), image processing (IP), object detection
(OD), regression (RG) and semantic segmentation (SS). Importing this module imports no
framework.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """One network of the table.

    Attributes:
        number: Its row in the table.
        slug: Short name, unique without the number where models differ in more than weights.
        title: Its name in the table.
        task: The table's abbreviation.
        layers: How many layers the table counts.
        builder: ``"module:function"`` in this package; gives an uninitialized block.
        inputs: Shape of each input without the batch.
        arguments: What the function is called with.
    """

    number: int
    slug: str
    title: str
    task: str
    layers: int
    builder: str
    inputs: Mapping[str, Shape]
    arguments: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What reports call the model; sorts and reads well."""
        return f"{self.number:02d}_{self.slug}"

    def build(self) -> Any:
        """The network as a Gluon ``HybridBlock`` without weights; imports MXNet."""
        module, _, function = self.builder.partition(":")
        return getattr(importlib.import_module(f"{__package__}.{module}"), function)(
            **self.arguments
        )


Row = tuple[int, str, str, int, str, tuple[Shape, ...], Mapping[str, Any]]


def row(
    number: int, slug: str, title: str, layers: int, builder: str, *shapes: Shape, **arguments: Any
) -> Row:
    """A line of the tables below; several inputs are called data0, data1 and so on."""
    return number, slug, title, layers, builder, shapes, arguments


# Two lines a network: what the table says, then how it is built.
# fmt: off

_CLASSIFICATION = (  # 1 to 21
)

_PROCESSING = (  # 22 to 38
)

_DETECTION = (  # 39 to 41
)

_REGRESSION = (  # 42 to 47
)

_SEGMENTATION = (  # 48 to 50
)

# fmt: on


def _entry(task: str, line: Row) -> Entry:
    number, slug, title, layers, builder, shapes, arguments = line
    names = ("data",) if len(shapes) == 1 else tuple(f"data{i}" for i in range(len(shapes)))
    inputs = dict(zip(names, shapes, strict=True))
    return Entry(number, slug, title, task, layers, builder, inputs, arguments)


#: Every network by its number as users type it, in the table's order.
ENTRIES: Mapping[str, Entry] = {
    str(line[0]): _entry(task, line)
    for task, lines in (
        ("IC", _CLASSIFICATION),
        ("IP", _PROCESSING),
        ("OD", _DETECTION),
        ("RG", _REGRESSION),
        ("SS", _SEGMENTATION),
    )
    for line in lines
}
