"""Short names of layers and bricks, for people to read.

A name has the type of a layer, its distinguishing attributes, and its sizes:
``Conv 3×3 s2 64→128 @56×56`` is a 3×3 convolution of stride 2 from 64 to 128 channels, on feature
maps of 56×56. A batch of 1 is left out. Runs that repeat are folded: ``(Slice, Cast) ×26``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

LENGTH = 60
"""Most characters of a name, unless the caller says otherwise."""

_LONGEST_RUN = 24
"""Maximum number of items in a run that folding looks for; longer runs hardly ever repeat."""

_LONGEST_VALUE = 12
"""Most characters of an attribute's value that a name shows."""

_ROOM = 16
"""Characters that a folded run leaves for the following items."""

_ROOMY = 40
"""Characters from which a name that is cut says in words how many layers there are."""

_FEWEST_DIGITS = 4
"""Least hexadecimal digits of a signature that a name shows."""

_Key = TypeVar("_Key", bound=Hashable)


def operator(layer: Layer) -> str:
    """Operator and shape of its window: ``Conv 3×3 s2``; without the operator's domain."""
    words = [operator_name(layer.op), _kernel(layer), _steps("s", layer, "strides"),
             _steps("d", layer, "dilations")]  # fmt: skip
    return " ".join(word for word in words if word)


def layer_name(model: CanonicalModel, layer: Layer) -> str:
    """Operator, window and sizes: ``Conv 3×3 s2 64→128 @56×56``."""
    return " ".join(word for word in (operator(layer), _sizes(model, layer)) if word)


def brick_name(model: CanonicalModel, length: int = LENGTH) -> str:
    """Name of a layer sequence: operators, folded and cut, and the sizes that it begins with."""
    if not model.layers:
        return "nothing"
    first = model.layers[0]
    words = [operator(layer) for layer in model.layers]
    begin, *rest = _folded(words)
    sized = f"{begin} {_input(model, first)}".rstrip()
    if begin == words[0]:
        begin = layer_name(model, first)
    elif len(sized) <= length - _ROOM:
        begin = sized
    else:
        begin, rest = layer_name(model, first), words[1:]
    name = _cut([begin, *rest], len(words), length)
    if len(name) <= length:
        return name
    # The first layer alone is too long: its sizes go first, then its window.
    shorter = (layer_name(model, first).rpartition(" @")[0], words[0], operator_name(first.op))
    cuts = (_cut([begin, *words[1:]], len(words), length) for begin in shorter if begin)
    return next((each for each in cuts if len(each) <= length), _shortened(words[0], length))


def names(bricks: Mapping[str, CanonicalModel], length: int = LENGTH) -> dict[str, str]:
    """Names of bricks; no two bricks have the same name.

    Bricks with equal names get the attributes in which they differ, or else the first digits of
    their signatures: ``Conv 3×3 64→64 @56×56 #381b``.

    Args:
        bricks: Layer sequences by signature.
        length: Maximum characters of a name, unless more are needed to distinguish the bricks.
    """
    found = {signature: brick_name(model, length) for signature, model in bricks.items()}
    for name, alike in _alike(found).items():
        distinct = _told_apart({each: bricks[each] for each in alike})
        for signature, more in distinct.items():
            longer = f"{name} {more}"
            if more and len(longer) <= length:
                found[signature] = longer
    for alike in _alike(found).values():
        digits = _digits(alike)
        for signature in alike:
            mark = f" #{signature[:digits]}"
            found[signature] = f"{brick_name(bricks[signature], length - len(mark))}{mark}"
    return found


def sequence_names(
    sequences: Iterable[tuple[str, ...]], length: int = LENGTH
) -> dict[tuple[str, ...], str]:
    """Names of sequences of operators; no two sequences have the same name.

    Args:
        sequences: Operator types, with their domains.
        length: Maximum characters of a name, unless more are needed to distinguish the sequences.
    """
    found = {
        sequence: fold([operator_name(op) for op in sequence], length) for sequence in sequences
    }
    for alike in _alike(found).values():
        for number, sequence in enumerate(alike, 1):
            mark = f" #{number}"
            found[sequence] = f"{_shortened(found[sequence], length - len(mark))}{mark}"
    return found


def fold(words: Sequence[str], length: int = LENGTH) -> str:
    """Words with their repeated runs folded: ``Conv, (Relu, Add) ×3``; cut if it is too long."""
    return _shortened(_cut(list(_folded(words)), len(words), length), length)


def _folded(words: Sequence[str]) -> Iterator[str]:
    """Words and folded runs, in order; at each word, the run that covers most words is folded."""
    start = 0
    while start < len(words):
        period, copies = _run(words, start)
        if copies < 2:
            yield words[start]
            start += 1
            continue
        run = ", ".join(_folded(words[start : start + period]))
        yield f"{run} ×{copies}" if period == 1 else f"({run}) ×{copies}"
        start += period * copies


def _run(words: Sequence[str], start: int) -> tuple[int, int]:
    """Length and repetitions of the run that begins at a word and covers most words."""
    period, copies = 1, 1
    for length in range(1, min(_LONGEST_RUN, (len(words) - start) // 2) + 1):
        times = 1
        while (
            words[start : start + length]
            == words[start + times * length : start + (times + 1) * length]
        ):
            times += 1
        if times > 1 and times * length > period * copies:
            period, copies = length, times
    return period, copies


def _cut(terms: Sequence[str], count: int, length: int) -> str:
    """Terms with commas between them, without the last terms if all are too long.

    The first term stays even if it is too long itself.
    """
    whole = ", ".join(terms)
    if len(whole) <= length or count == 1:
        return whole
    shown, *others = terms
    end = f" … ({count} layers)" if length >= _ROOMY else f" …+{count - 1}"
    for term in others:
        if len(shown) + len(term) + len(end) + 2 > length:
            break
        shown = f"{shown}, {term}"
    return f"{shown}{end}"


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(length - 1, 1)].rstrip(' ,')}…"


def _alike(named: Mapping[_Key, str]) -> dict[str, list[_Key]]:
    """Keys that share a name, by the name."""
    found: dict[str, list[_Key]] = {}
    for key, name in named.items():
        found.setdefault(name, []).append(key)
    return {name: keys for name, keys in found.items() if len(keys) > 1}


def _digits(signatures: Sequence[str]) -> int:
    """Fewest digits in which signatures differ."""
    longest = max(map(len, signatures))
    each = range(_FEWEST_DIGITS, longest)
    return next((n for n in each if len({s[:n] for s in signatures}) == len(signatures)), longest)


def _told_apart(bricks: Mapping[str, CanonicalModel]) -> dict[str, str]:
    """One or two attributes in which all of the bricks differ; empty if there are none."""
    features = {signature: _features(model) for signature, model in bricks.items()}
    every = dict.fromkeys(name for each in features.values() for name in each)
    differing = [name for name in every if len({f.get(name) for f in features.values()}) > 1]
    for chosen in (*((name,) for name in differing), *combinations(differing[:8], 2)):
        distinct = {
            signature: ", ".join(each[name] for name in chosen if name in each)
            for signature, each in features.items()
        }
        if len(set(distinct.values())) == len(distinct):
            return distinct
    return {}


def _features(model: CanonicalModel) -> dict[str, str]:
    """Words for each feature in which two bricks of one name may differ, by the feature's key."""
    found: dict[str, str] = {}
    for i, layer in enumerate(model.layers):
        for attribute, value in layer.attributes.items():
            text = _value(value)
            if text:
                found[f"{i} {attribute}"] = f"{attribute} {text}"
        for j, spec in enumerate(model.specs((*layer.inputs, *layer.outputs))):
            if spec is not None:
                found[f"{i} type {j}"] = spec.dtype
                found[f"{i} size {j}"] = _shape(spec)
                if spec.layout:
                    found[f"{i} layout {j}"] = spec.layout
    for key, value in model.annotations.items():
        found[key] = f"{key.replace('_', ' ')}: {value}"
    return found


def _value(value: Any) -> str:
    """Text of an attribute's value; empty if the text would be long."""
    if isinstance(value, tuple):
        same = len(set(value)) == 1
        text = "×".join(_value(each) for each in (value[:1] if same else value))
    elif isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    elif isinstance(value, float):
        text = f"{value:g}"
    else:
        text = str(value) if isinstance(value, int | str) else ""
    return text if len(text) <= _LONGEST_VALUE else ""


def operator_name(op: str) -> str:
    """An operator without its domain, and as frameworks spell it: ``BatchNorm``."""
    return op.rpartition(".")[2].replace("Normalization", "Norm")


def _numbers(layer: Layer, attribute: str) -> tuple[Any, ...]:
    """Numbers of an attribute; empty if it has other values, as some opaque layers have."""
    value = layer.attributes.get(attribute)
    return value if isinstance(value, tuple) else ()


def _kernel(layer: Layer) -> str:
    return "×".join(map(str, _numbers(layer, "kernel_shape")))


def _steps(letter: str, layer: Layer, attribute: str) -> str:
    """Strides or dilations that are not 1: ``s2``, ``s2×1``."""
    steps = _numbers(layer, attribute)
    if all(step == 1 for step in steps):
        return ""
    return f"{letter}{'×'.join(map(str, steps if len(set(steps)) > 1 else steps[:1]))}"


def _sizes(model: CanonicalModel, layer: Layer) -> str:
    """Channels and sizes that a layer works on; empty if they are unknown."""
    inputs = [spec for spec in model.specs(model.activations(layer)) if spec is not None]
    outputs = [spec for spec in model.specs(layer.outputs[:1]) if spec is not None]
    if not outputs or not outputs[0].is_static:
        return _input(model, layer)
    out = outputs[0]
    if not inputs:
        return f"→ {_shape(out)}"
    into = inputs[0]
    if not into.is_static:
        return f"→ {_shape(out)}"
    if len({spec.shape for spec in inputs}) > 1:
        return f"{len(inputs)} inputs → {_shape(out)}"
    if len(inputs) == 1 and _multiplies(model, layer) and into.rank > 1 and out.rank > 1:
        return _channels(layer, into, out)
    several = f"{len(inputs)} inputs " if len(inputs) > 2 else ""
    if into.elements != out.elements and not _kernel(layer):
        return f"{several}@{_shape(into)} → {_shape(out)}"
    return f"{several}@{_shape(into)}"


def _input(model: CanonicalModel, layer: Layer) -> str:
    """Sizes of the first tensor that a layer reads: ``@64×56×56``."""
    specs = [spec for spec in model.specs(model.activations(layer)[:1]) if spec is not None]
    return f"@{_shape(specs[0])}" if specs else ""


def _multiplies(model: CanonicalModel, layer: Layer) -> bool:
    """Whether the layer is a convolution or matrix product with weights."""
    weights = [model.tensors[name] for name in layer.inputs if name in model.weights]
    product = bool(_kernel(layer)) or layer.op.endswith(("Gemm", "MatMul"))
    return product and any(spec.is_static and spec.rank > 1 for spec in weights)


def _channels(layer: Layer, into: TensorSpec, out: TensorSpec) -> str:
    """Channels in and out, groups and sizes of a product: ``64→128 g2 @56×56``."""
    windowed = bool(_kernel(layer)) and into.rank > 2
    axis = 1 if windowed else -1
    rows = into.sizes[2:] if windowed else _without_batch(into.sizes[:-1])
    group = layer.attributes.get("group", 1)
    words = [
        f"{into.sizes[axis]}→{out.sizes[axis]}",
        f"g{group}" if isinstance(group, int) and group > 1 else "",
        f"batch {into.sizes[0]}" if windowed and into.sizes[0] > 1 else "",
        f"@{'×'.join(map(str, rows))}" if rows else "",
    ]
    return " ".join(word for word in words if word)


def _without_batch(sizes: Sequence[Any]) -> Sequence[Any]:
    return sizes[1:] if sizes[:1] == (1,) else sizes


def _shape(spec: TensorSpec) -> str:
    """Sizes of a tensor, without a batch of 1."""
    if spec.shape is None:
        return "?"
    kept = _without_batch(spec.shape) if len(spec.shape) > 1 else spec.shape
    return "×".join("?" if size is None else str(size) for size in kept) or "scalar"
