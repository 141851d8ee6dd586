"""Convolutions with different padding on two sides, which MXNet has not and ONNX has.

In MXNet such a convolution is two operators. A block that means one marks the first::

    with mx.AttrScope(**PART_OF_CONVOLUTION):
        x = F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 0, 2, 0, 2))
    x = convolution(x)

and its import gives one ``Conv`` with these pads, which every backend computes alike: that of
MXNet takes it apart again. Layers without a mark stay two layers, as written.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from onnx import helper

from dlbricks_core.errors import ModelError
from dlbricks_mxnet.export_converters import CONVERTERS, Converted, Node, converts
from dlbricks_mxnet.export_graph import Symbol
from dlbricks_mxnet.framework import import_mxnet

_MARK = "__dlbricks_part_of_convolution__"
_PADS = "__dlbricks_pads__"

#: Attributes of a ``Pad`` that is part of the convolution after it.
PART_OF_CONVOLUTION = {_MARK: "1"}


def merge_pads(symbol: Symbol) -> Symbol:
    """Makes marked pads part of the convolutions that read them.

    Raises:
        ModelError: If a marked ``Pad`` is no zero padding of images before an unpadded
            convolution, or if its two sides differ by an odd number: MXNet could not infer
            the shape of the result then.
    """
    text = symbol.tojson()
    if _MARK not in text:
        return symbol
    graph = json.loads(text)
    nodes = graph["nodes"]
    marked = {i for i, node in enumerate(nodes) if _MARK in node.get("attrs", {})}
    for node in nodes:
        pad = next((index for index, *_ in node["inputs"][:1] if index in marked), None)
        if pad is None:
            continue
        sides = _sides(nodes[pad], node)
        node["attrs"][_PADS] = json.dumps(
            [side for pair in zip(*sides, strict=True) for side in pair]
        )
        node["attrs"]["pad"] = str(tuple(sum(pair) // 2 for pair in sides))
        node["inputs"][0] = nodes[pad]["inputs"][0]
    return import_mxnet().sym.load_json(json.dumps(graph))


def _sides(pad: Mapping[str, Any], convolution: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Padding by a marked ``Pad`` before and after each axis of an image."""
    attributes, own = pad["attrs"], convolution.get("attrs", {})
    widths = ast.literal_eval(attributes.get("pad_width", "()"))
    sides = list(zip(widths[4::2], widths[5::2], strict=True))
    if (
        pad["op"] != "Pad"
        or convolution["op"] != "Convolution"
        or attributes.get("mode") != "constant"
        or float(attributes.get("constant_value", 0))
        or any(widths[:4])
        or any(ast.literal_eval(own.get("pad", "()")))
        or any(sum(pair) % 2 for pair in sides)
    ):
        raise ModelError(
            f"{pad['name']} cannot be part of {convolution['name']}",
            hint="Only zeros around images before an unpadded convolution can, even in sum.",
        )
    return sides


_plain = CONVERTERS["Convolution"]


@converts("Convolution")
def _convolution(node: Node) -> Converted:
    """The ordinary one, with the pads that a ``Pad`` had."""
    converted = _plain(node.raw, **node.context)
    pads = node.text(_PADS)
    for made in converted if pads else ():
        kept = [attribute for attribute in made.attribute if attribute.name != "pads"]
        del made.attribute[:]
        made.attribute.extend([*kept, helper.make_attribute("pads", json.loads(pads))])
    return converted
