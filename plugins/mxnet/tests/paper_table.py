"""The paper's layer tables and the IR's layers in one form, to compare them.

What no MXNet or ONNX form can avoid is told once, here:

1. Dropout and arrays of constants (``ConstantArrayLayer``) are no operators of an inference
   graph.
2. A function of several steps (``0.5 + 0.5*Tanh[#1] &``) is one layer in the table and one
   operator a step in ONNX; see ``_FUNCTIONS``.
3. Axes of size one at the end of a shape do not count, and so neither does a layer that only
   adds or removes them: global means and fully connected layers have no such axes in the
   table, broadcasting needs them. Flattening, reshaping and squeezing are one kind.
4. Picking one index of an axis (``PartLayer(5)``) is a slice, and then a squeeze.
5. An identity (``#1 &``) is a multiplication by one: MXNet's identity is dropped on export.
6. CapsNet's routing is a network that its library folds over two copies of the predictions.
   Unrolled, there are no copies to make (``DynamicRouting/1``) or to choose from.
7. Where the largest is (``OrderingLayer``) is a float in MXNet: two casts stand between
   finding a place and taking what is there.
8. The inputs of sums and concatenations are compared in any order; of an output the table
   tells only the first three sizes.
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dlbricks_core.ir import CanonicalModel, Layer

TABLES = Path(__file__).parents[4] / "shared" / "table1"

Shape = tuple[int, ...]


class Form(NamedTuple):
    """A layer: ONNX's name for its kind, parameters, inputs' shapes and the output's."""

    op: str
    parameters: tuple[Any, ...]
    inputs: tuple[Shape, ...]
    output: Shape


def read_layers() -> dict[str, list[dict[str, str]]]:
    """The rows of ``layers.csv`` by the number of their model."""
    layers = defaultdict(list)
    with (TABLES / "layers.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            layers[row["model_id"]].append(row)
    return dict(layers)


def read_models() -> dict[str, dict[str, str]]:
    """The rows of ``models.csv`` by number."""
    with (TABLES / "models.csv").open(newline="") as file:
        return {row["model_id"]: row for row in csv.DictReader(file)}


def form(op: str, parameters: Iterable[Any], inputs: Iterable[Shape], output: Shape) -> Form:
    shapes = [_trimmed(shape) for shape in inputs]
    if op in ("Add", "Sum", "Mul", "Concat"):
        shapes.sort()
    return Form(op, tuple(parameters), tuple(shapes), _trimmed(output)[:3])


def _trimmed(shape: Iterable[int]) -> Shape:
    sizes = list(shape)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(sizes)


def counted(forms: Iterable[Form]) -> list[Form]:
    """Without those that only add or remove axes of size one."""
    return [f for f in forms if f.op != "Reshape" or f.inputs[0][:3] != f.output]


def rounded(value: float) -> float:
    """To five significant digits: the IR's numbers are floats of 32 bits."""
    return 0.0 if value == 0 else round(value, 4 - math.floor(math.log10(abs(value))))


# -- the table ---------------------------------------------------------------------------


class Spec(NamedTuple):
    """A row's specification in pieces."""

    arguments: list[Any]
    options: dict[str, Any]
    inputs: list[Shape]
    output: Shape


def table_forms(row: dict[str, str]) -> list[Form]:
    """What a row of the table is in ONNX."""
    name, arguments = re.fullmatch(r"(\w+?)Layer\((.*)\)", row["spec"]).groups()
    positional: list[Any] = []
    options: dict[str, Any] = {}
    for piece in _split(arguments):
        key, equals, value = piece.partition("=")
        if equals and key.isalpha():
            options[key] = _value(value)
        else:
            positional.append(_value(piece))
    if "Inputs" in options:
        inputs = [_shape(each) for each in options["Inputs"]]
    else:
        inputs = [_shape(options["Input"])] if "Input" in options else []
    if name == "SequenceLast" or row["name"] == "DynamicRouting/1":
        return []
    sizes = (row[key] for key in ("out_channel", "out_height", "out_width"))
    output = tuple(int(size) for size in sizes if size)
    return counted(_KINDS[name](Spec(positional, options, inputs, output)))


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    pieces, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            pieces.append(text[start:i].strip())
            start = i + 1
    return [piece for piece in (*pieces, text[start:].strip()) if piece]


def _value(text: str) -> Any:
    """A number, a list, or the text itself."""
    text = text.strip().strip('"')
    if text.startswith("["):
        return [_value(piece) for piece in _split(text[1:-1])]
    number = text.replace(".*^", "e")
    try:
        return int(number)
    except ValueError:
        try:
            return float(number)
        except ValueError:
            return text


def _shape(value: Any) -> Shape:
    return tuple(value) if isinstance(value, list) else (value,)


def _one(op: str, *parameters: Any) -> Callable[[Spec], list[Form]]:
    return lambda s: [form(op, parameters, s.inputs, s.output)]


def _nothing(spec: Spec) -> list[Form]:
    return []


def _pads(spec: Spec) -> Shape:
    """As ONNX writes them: all beginnings, then all ends."""
    (top, bottom), (left, right) = spec.options["PaddingSize"]
    return top, left, bottom, right


def _convolution(s: Spec) -> list[Form]:
    channels, kernel = s.arguments
    parameters = (
        channels,
        tuple(kernel),
        tuple(s.options["Stride"]),
        _pads(s),
        tuple(s.options["Dilation"]),
        s.options.get("ChannelGroups", 1),
    )
    return [form("Conv", parameters, s.inputs, s.output)]


def _deconvolution(s: Spec) -> list[Form]:
    channels, kernel = s.arguments
    parameters = (channels, tuple(kernel), tuple(s.options["Stride"]), _pads(s))
    return [form("ConvTranspose", parameters, s.inputs, s.output)]


def _pooling(s: Spec) -> list[Form]:
    kernel, stride = s.arguments
    op = {"Max": "MaxPool", "Mean": "AveragePool"}[s.options.get("Function", "Max")]
    return [form(op, (tuple(kernel), tuple(stride), _pads(s)), s.inputs, s.output)]


def _normalization(op: str) -> Callable[[Spec], list[Form]]:
    return lambda s: [form(op, [rounded(s.options.get("Epsilon", 1e-3))], s.inputs, s.output)]


def _aggregation(s: Spec) -> list[Form]:
    """Over the given level, or over all but the first."""
    function, *levels = s.arguments
    axes = tuple(levels) or tuple(range(2, len(s.inputs[0]) + 1))
    return [form({"Mean": "ReduceMean", "Total": "ReduceSum"}[function], axes, s.inputs, s.output)]


def _softmax(s: Spec) -> list[Form]:
    level = s.arguments[0] if s.arguments else len(s.inputs[0])
    return [form("Softmax", [level], s.inputs, s.output)]


def _total(s: Spec) -> list[Form]:
    return [form("Add" if len(s.inputs) == 2 else "Sum", (), s.inputs, s.output)]


def _padding(s: Spec) -> list[Form]:
    modes = {"Reflected": "reflect", "Fixed": "edge", 0: "constant"}
    mode = modes[s.options.get("Padding", 0)]
    begins, ends = zip(*s.arguments[0], strict=True)
    return [form("Pad", (mode, *begins, *ends), s.inputs, s.output)]


def _resize(s: Spec) -> list[Form]:
    mode = {"Nearest": "nearest", "Linear": "linear"}[s.options.get("Resampling", "Linear")]
    return [form("Resize", [mode], s.inputs, s.output)]


def _replicate(s: Spec) -> list[Form]:
    """New axes before the given level, -1 for after the last, with the same along them."""
    sizes, level = (*s.arguments, 1)[:2]
    (shape,) = s.inputs
    place = level - 1 if level > 0 else len(shape)
    ones = (1,) * (len(sizes) if isinstance(sizes, list) else 1)
    aligned = (*shape[:place], *ones, *shape[place:])
    return [form("Reshape", (), [shape], aligned), form("Expand", (), [aligned], s.output)]


def _ordering(s: Spec) -> list[Form]:
    """The place of the largest."""
    cast = form("Cast", (), [s.output], s.output)
    return [form("ArgMax", [1], s.inputs, s.output), cast, cast]


def _extract(s: Spec) -> list[Form]:
    """What is at a place on the first axis; then axes of size one dropped."""
    shape = s.inputs[0]
    picked = (1, 1, *shape[1:])
    return [
        form("Gather", [1], [shape, (1,)], picked),
        form("Reshape", (), [picked], s.output),
    ]


def _transpose(s: Spec) -> list[Form]:
    """Exchanges of two levels, one after another."""
    order = list(range(len(s.inputs[0]) + 1))
    swaps = s.arguments[0] if s.arguments else "1 <-> 2"
    for swap in swaps if isinstance(swaps, list) else [swaps]:
        a, b = map(int, swap.split(" <-> "))
        order[a], order[b] = order[b], order[a]
    return [form("Transpose", order, s.inputs, s.output)]


def _part(s: Spec) -> list[Form]:
    """Spans count from one and include their end; a single index drops its axis."""
    (shape,) = s.inputs
    first = s.arguments[0]
    parts = first if isinstance(first, list) else [first]
    cut, sliced = [], list(shape)
    for axis, (part, size) in enumerate(zip(parts, shape, strict=False), start=1):
        begin, end = (part, part) if isinstance(part, int) else map(int, part.split(" ;; "))
        end = size if end == -1 else end
        if (begin, end) != (1, size):
            cut.append((axis, begin - 1, end))
            sliced[axis - 1] = end - begin + 1
    forms = [form("Slice", cut, s.inputs, tuple(sliced))] if cut else []
    return [*forms, form("Reshape", (), [tuple(sliced)], s.output)]


#: The steps of each function: an operator and its number, or without one an operator of
#: the inputs or of what the step before gave.
_N = r"(-?[\d.]+(?:\*\^-?\d+)?)"
_FUNCTIONS: dict[str, Callable[..., list[tuple[Any, ...]]]] = {
    "Ramp": lambda: [("Relu",)],
    "LogisticSigmoid": lambda: [("Sigmoid",)],
    r"Sigmoid\"\[#1\] &": lambda: [("Sigmoid",)],
    "Exp": lambda: [("Exp",)],
    "Sqrt": lambda: [("Sqrt",)],
    "#1 &": lambda: [("Mul", 1.0)],
    rf"{_N}\*#1 &": lambda a: [("Mul", a)],
    rf"{_N} \+ {_N}\*#1 &": lambda a, b: [("Mul", b), ("Add", a)],
    rf"{_N} \+ {_N}\*Tanh\[#1\] &": lambda a, b: [("Tanh",), ("Mul", b), ("Add", a)],
    rf"Max\[0, #1\] \+ {_N}\*Min\[0, #1\] &": lambda a: [("LeakyRelu", a)],
    rf"Min\[{_N}, Max\[{_N}, #1\]\] &": lambda high, low: [("Clip", low, high)],
    rf"#1\^{_N} &": lambda a: [("Pow", a)],
    rf"{_N}\*\({_N} - #1\) &": lambda a, b: [("RSub", b), ("Mul", a)],
    rf"Exp\[{_N}\*#1\] &": lambda a: [("Mul", a), ("Exp",)],
    rf"Log\[Max\[{_N}, #1\^{_N}\]\] &": lambda a, b: [("Pow", b), ("Max", a), ("Log",)],
    rf"Sqrt\[#1\]/\({_N} \+ #1\) &": lambda a: [("Sqrt",), ("Add", a), ("Div2",)],
    "Plus": lambda: [("Add2",)],
    "Times": lambda: [("Mul2",)],
    "Divide": lambda: [("Div2",)],
    r"#1 - 0.5\*#2 &": lambda: [("Mul", 0.5), ("Sub2",)],
    r"#1 \+ 0.5\*#2 &": lambda: [("Mul", 0.5), ("Add2",)],
    r"\(#1 \+ -#2\)\^2 &": lambda: [("Sub2",), ("Pow", 2.0)],
    r"#1 \+ -#2 &": lambda: [("Sub2",)],
    r"#1 \+ #2 &": lambda: [("Add2",)],
    r"#1\*#2 &": lambda: [("Mul2",)],
    rf"#1/\({_N} \+ #2\) &": lambda a: [("Add", a), ("Div2",)],
}


def _function(s: Spec) -> list[Form]:
    """The steps of an elementwise function; all tensors have one shape.

    A number that is added is not compared: it is another one before a product than after it.
    """
    (text,) = s.arguments
    for pattern, steps in _FUNCTIONS.items():
        match = re.fullmatch(pattern, text.strip())
        if match:
            numbers = (float(number.replace(".*^", "e")) for number in match.groups())
            return [_step(s, op, constants) for op, *constants in steps(*numbers)]
    raise KeyError(f"no form for the function {text!r}")


def _step(s: Spec, op: str, constants: list[float]) -> Form:
    shape = s.inputs[0]
    inputs = [shape, shape] if op.endswith("2") else [shape]
    parameters = ["number"] if op == "Add" else map(rounded, constants)
    return form(op.removesuffix("2"), parameters, inputs, s.output)


_KINDS: dict[str, Callable[[Spec], list[Form]]] = {
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "Pooling": _pooling,
    "BatchNormalization": _normalization("BatchNormalization"),
    "Normalization": _normalization("InstanceNormalization"),
    "LocalResponseNormalization": lambda s: [form("LRN", s.arguments, s.inputs, s.output)],
    "Linear": _one("Gemm"),
    "Elementwise": _function,
    "Threading": _function,
    "Total": _total,
    "Catenate": _one("Concat", 1),
    "Aggregation": _aggregation,
    "Softmax": _softmax,
    "Padding": _padding,
    "Resize": _resize,
    "Replicate": _replicate,
    "Ordering": _ordering,
    "Extract": _extract,
    "Transpose": _transpose,
    "Part": _part,
    "Reshape": _one("Reshape"),
    "Flatten": _one("Reshape"),
    "ConstantTimes": lambda s: [_step(s, "Mul2", [])],
    "ConstantPlus": lambda s: [_step(s, "Add2", [])],
    "Dropout": _nothing,
    "ConstantArray": _nothing,
}


# -- the IR ------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A layer of the IR in pieces; shapes are without the batch."""

    layer: Layer
    inputs: list[Shape]
    output: Shape
    constants: list[Any]

    def attribute(self, name: str) -> Any:
        return self.layer.attributes[name]


def model_forms(model: CanonicalModel) -> list[Form]:
    """A canonical model's layers in the form of the table."""
    return counted(_layer_form(model, layer) for layer in model.layers)


def _layer_form(model: CanonicalModel, layer: Layer) -> Form:
    def shape(name: str) -> Shape:
        return tuple(model.tensors[name].sizes)[1:]

    constants = [_constant(model, name) for name in layer.inputs if name in model.weights]
    read = [shape(name) for name in layer.inputs if name and name not in model.weights]
    if layer.op in ("Add", "Sub", "Mul", "Div"):  # a weight is as large as what it meets
        read += [read[0] for constant in constants if constant == _WEIGHT]
    seen = Seen(layer, read, shape(layer.outputs[0]), constants)
    op, parameters = _OPERATORS.get(layer.op, _other)(seen)
    # A number comes first where it is what something is subtracted from.
    if op == "Sub" and layer.inputs[0] in model.weights:
        op = "RSub"
    elif op in ("Add", "Sub") and len(read) == 1:
        op, parameters = "Add", ["number"]
    return form(op, parameters, read, seen.output)


_WEIGHT = "weight"


def _constant(model: CanonicalModel, name: str) -> Any:
    """A number or list of numbers that the table tells; what is trained is only a weight."""
    value = model.constants.get(name)
    if value is None or (value.dtype.kind == "f" and value.size != 1):
        return _WEIGHT
    return value.ravel().tolist()


def _other(seen: Seen) -> tuple[str, Iterable[Any]]:
    """An elementwise operator: its parameters are numbers."""
    return seen.layer.op, [rounded(c[0]) for c in seen.constants if c != _WEIGHT]


def _conv(seen: Seen) -> tuple[str, Iterable[Any]]:
    keys = ("kernel_shape", "strides", "pads", "dilations", "group")
    return "Conv", (seen.output[0], *map(seen.attribute, keys))


def _conv_transpose(seen: Seen) -> tuple[str, Iterable[Any]]:
    keys = ("kernel_shape", "strides", "pads")
    return "ConvTranspose", (seen.output[0], *map(seen.attribute, keys))


def _pool(seen: Seen) -> tuple[str, Iterable[Any]]:
    return seen.layer.op, [seen.attribute(key) for key in ("kernel_shape", "strides", "pads")]


def _attributes(*keys: str, op: str = "") -> Callable[[Seen], tuple[str, Iterable[Any]]]:
    def read(seen: Seen) -> tuple[str, Iterable[Any]]:
        values = (seen.attribute(key) for key in keys)
        return op or seen.layer.op, [rounded(v) if isinstance(v, float) else v for v in values]

    return read


def _reduce(seen: Seen) -> tuple[str, Iterable[Any]]:
    return seen.layer.op, seen.constants[0]


def _pad(seen: Seen) -> tuple[str, Iterable[Any]]:
    pads = seen.constants[0]
    rank = len(pads) // 2
    return "Pad", (seen.attribute("mode"), *pads[1:rank], *pads[rank + 1 :])


def _slice(seen: Seen) -> tuple[str, Iterable[Any]]:
    starts, ends, axes, _ = seen.constants
    return "Slice", sorted(zip(axes, starts, ends, strict=True))


def _plain(op: str) -> Callable[[Seen], tuple[str, Iterable[Any]]]:
    return lambda seen: (op, ())


_OPERATORS: dict[str, Callable[[Seen], tuple[str, Iterable[Any]]]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": lambda seen: ("ReduceMean", (2, 3)),
    "BatchNormalization": _attributes("epsilon"),
    "InstanceNormalization": _attributes("epsilon"),
    "LRN": _attributes("alpha", "beta"),
    "LeakyRelu": _attributes("alpha"),
    "Softmax": _attributes("axis"),
    "Concat": _attributes("axis"),
    "Gather": _attributes("axis"),
    "ArgMax": _attributes("axis"),
    "Resize": _attributes("mode"),
    "Transpose": lambda seen: ("Transpose", seen.attribute("perm")),
    "Gemm": _plain("Gemm"),
    "Expand": _plain("Expand"),
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "Pad": _pad,
    "Slice": _slice,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _plain("Reshape")),
}
