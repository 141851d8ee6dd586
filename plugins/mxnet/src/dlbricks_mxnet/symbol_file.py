"""MXNet's graphs as JSON: checked before MXNet reads them, because MXNet does not check them.

A few of MXNet's operators take addresses of memory, or run Python code of the process; a reference
to a missing node ends the process.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.base import cut
from dlbricks_core.importers.formats import check_file
from dlbricks_mxnet.framework import import_mxnet, one_line
from dlbricks_mxnet.params import TYPES

MOST_BYTES = 64 << 20
"""A symbol file; those of the largest networks are of some megabytes."""
MOST_NODES = 100_000
_MOST_OUTPUTS = 10_000
"""Maximum number of nodes of a graph, and of outputs of a node or of a graph."""

#: Attributes that are numbers of tensors, or of layers inside of one, which MXNet makes at once.
_COUNTS = frozenset(("num_args", "num_arrays", "num_layers", "num_outputs", "num_weights"))

_HINT = "Save it again with net.export() or symbol.save()."
#: Where the attributes of an operator stand: today's name, and those of MXNet 0.9 and 0.7.
_ATTRIBUTES = ("attrs", "attr", "param")
_SHAPE = re.compile(r"\s*[(\[]?\s*((-?\d{1,18}L?\s*(,\s*|(?=[)\]\s]*$)))*)[)\]]?\s*")
#: Operators that stand for objects of the process that wrote them.
_OF_A_PROCESS = frozenset(("_Native", "_NDArray", "_CachedOp", "_CachedOpThreadSafe",
                           "_CustomFunction"))  # fmt: skip


def read_graph(path: Path) -> dict[str, Any]:
    """The graph in a file, with nothing in it that MXNet could not read safely.

    Raises:
        ModelError: If the file is missing, damaged, or too large.
    """
    check_file(path, "-symbol.json file", MOST_BYTES)
    try:
        graph = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path} is not JSON, or is truncated", hint="Fetch or export it again."
        ) from error
    if not isinstance(graph, dict) or not {"nodes", "heads"} <= graph.keys():
        raise ModelError(
            f"{path} is JSON, but no MXNet graph", hint="MXNet's graphs have nodes and heads."
        )
    return _checked(graph)


def load_symbol(graph: Mapping[str, Any]) -> Any:
    """The symbol of a graph that :func:`read_graph` gave.

    Raises:
        ModelError: If MXNet lacks an operator, or refuses an operator's attributes.
    """
    mx = import_mxnet()
    _check_operators(graph["nodes"], mx.operator.get_all_registered_operators())
    try:
        _check_outputs(graph)
        return _load(graph)
    except (mx.MXNetError, ValueError) as error:
        raise ModelError(f"MXNet {mx.__version__}: {one_line(error)}", hint=_HINT) from error


def _load(graph: Mapping[str, Any]) -> Any:
    return import_mxnet().sym.load_json(json.dumps(graph, ensure_ascii=False))


def _check_outputs(graph: Mapping[str, Any]) -> None:
    """Refuses outputs that nodes have not: MXNet does not look before it reads them.

    How many there are, MXNet says of the same graph that reads first outputs only.

    Raises:
        ModelError: If one is read that is not there.
    """
    nodes = graph["nodes"]
    reads = [
        *((f"its node {node['name']!r}", node["inputs"]) for node in nodes),
        ("a head", graph["heads"]),
    ]
    if not any(output for _, references in reads for _, output, *_ in references):
        return  # each node has a first output; asking for more reads the graph twice
    shared = {name for name, count in Counter(n["name"] for n in nodes).items() if count > 1}
    names = [f"{n['name']}#{i}" if n["name"] in shared else n["name"] for i, n in enumerate(nodes)]
    plain = [
        {**node, "name": name, "inputs": [[at, 0, *rest] for at, _, *rest in node["inputs"]]}
        for node, name in zip(nodes, names, strict=True)
    ]
    heads = [[index, 0] for index in range(len(nodes))]
    internals = _load({**graph, "nodes": plain, "heads": heads}).get_internals()
    counts = Counter(each.name for each in internals)
    for reader, references in reads:
        for node, output, *_ in references:
            _require(
                output < counts[names[node]],
                f"{reader} reads output {output} of {nodes[node]['name']!r}, which has "
                f"{counts[names[node]]}",
            )


def parsed_shape(text: Any) -> tuple[int, ...] | None:
    """A shape as MXNet writes it; ``None`` for what is none."""
    match = _SHAPE.fullmatch(text) if isinstance(text, str) and len(text) < 1000 else None
    return None if match is None else tuple(int(n) for n in re.findall(r"-?\d+", match[1]))


def variables_of(graph: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Attributes of each variable of a graph that :func:`read_graph` gave, by its name."""
    return {
        node["name"]: {k: v for key in _ATTRIBUTES for k, v in node.get(key, {}).items()}
        for node in graph["nodes"]
        if node["op"] == "null"
    }


def named(nodes: Iterable[Mapping[str, Any]]) -> str:
    """Operators, each with the name of its first node."""
    first: dict[str, str] = {}
    for node in nodes:
        first.setdefault(node["op"], node["name"])
    return cut([f"{op} ({name!r})" for op, name in first.items()])


def _checked(graph: Mapping[str, Any]) -> dict[str, Any]:
    nodes = graph["nodes"]
    _require(isinstance(nodes, list) and nodes, "its nodes are no list, or an empty one")
    if len(nodes) > MOST_NODES:
        raise ModelError(f"it has {len(nodes)} nodes; {MOST_NODES} is the limit", hint=_HINT)
    checked = [_node(node, index) for index, node in enumerate(nodes)]
    variables = [i for i, node in enumerate(checked) if node["op"] == "null"]
    counts = Counter(checked[i]["name"] for i in variables)
    twice = next((name for name, count in counts.items() if count > 1), None)
    _require(twice is None, f"two of its variables are called {twice!r}")
    heads = graph["heads"]
    _require(isinstance(heads, list) and heads, "its heads are no list, or an empty one")
    _require(
        len(heads) <= _MOST_OUTPUTS, f"it has {len(heads)} heads; {_MOST_OUTPUTS} is the limit"
    )
    return {
        "nodes": checked,
        "arg_nodes": variables,
        "heads": [_reference(head, len(nodes), "a head") for head in heads],
        **_version(graph.get("attrs")),
    }


def _version(attributes: Any) -> dict[str, Any]:
    """Attributes of a graph that MXNet needs: the version that wrote it."""
    version = attributes.get("mxnet_version") if isinstance(attributes, dict) else None
    match version:
        case ["int", int(number)] if 0 <= number < 10**6:
            return {"attrs": {"mxnet_version": ["int", number]}}
    return {}


def _node(node: Any, index: int) -> dict[str, Any]:
    _require(isinstance(node, dict), f"its node {index} is not an object")
    name, op = node.get("name"), node.get("op")
    _require(_is_text(name), f"its node {index} has no name")
    _require(_is_text(op), f"its node {name!r} has no operator")
    inputs = node.get("inputs", [])
    _require(isinstance(inputs, list), f"the inputs of its node {name!r} are no list")
    # MXNet itself reads the first input's type before it looks whether there is one.
    _require(
        inputs or op == "null" or op.startswith("_"), f"its node {name!r} ({op}) reads nothing"
    )
    made = {
        "op": op,
        "name": name,
        "inputs": [_reference(each, index, f"its node {name!r}") for each in inputs],
    }
    for key in _ATTRIBUTES:
        if key in node:
            made[key] = _attributes(node[key], name)
    if "param" in made:  # a version of that age asks for it
        made["backward_source_id"] = -1
    return made


def _attributes(attributes: Any, name: str) -> dict[str, str]:
    proper = isinstance(attributes, dict) and all(isinstance(v, str) for v in attributes.values())
    _require(proper, f"the attributes of its node {name!r} are not texts")
    kept = dict(attributes)
    if "__shape__" in kept and parsed_shape(kept["__shape__"]) is None:
        del kept["__shape__"]  # the user gives it, or the error requests it
    for count in _COUNTS.intersection(kept):
        digits = kept[count].strip().lstrip("+0")
        large = digits.isdigit() and (len(digits) > 9 or int(digits) > _MOST_OUTPUTS)
        _require(
            not large, f"its node {name!r} has {count}={digits:.20}; {_MOST_OUTPUTS} is the limit"
        )
    number = kept.get("__dtype__", "-1")
    known = re.fullmatch(r"-?\d{1,3}", number) is not None and int(number) < len(TYPES)
    _require(known, f"its node {name!r} has the element type {number[:20]!r}, which MXNet lacks")
    return kept


def _reference(reference: Any, limit: int, reader: str) -> list[int]:
    """A node's number, that of its output and, where it is there, a version."""
    proper = (
        isinstance(reference, list)
        and 2 <= len(reference) <= 3
        and all(type(number) is int for number in reference)
    )
    _require(proper, f"an input of {reader} is {str(reference)[:40]}, not two or three numbers")
    node, output, *_ = reference
    _require(
        0 <= node < limit and 0 <= output < _MOST_OUTPUTS,
        f"{reader} reads output {output} of node {node}, which is not before it",
    )
    return reference[:2] if len(reference) == 2 else [node, output, max(reference[2], 0) % 2**31]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 10_000 and "\0" not in value


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise ModelError(problem, hint=_HINT)


def _check_operators(nodes: Sequence[Mapping[str, Any]], registered: Collection[str]) -> None:
    version = import_mxnet().__version__
    known = {"null", *registered} - _OF_A_PROCESS
    custom = [node for node in nodes if node["op"] == "Custom"]
    if custom:
        attributes = next((custom[0][key] for key in _ATTRIBUTES if key in custom[0]), {})
        raise ModelError(
            f"node {custom[0]['name']!r} is the custom operator "
            f"{attributes.get('op_type', '?')!r}, whose Python code is not in the file",
            hint="Write that part with MXNet's own operators, and export the network again.",
        )
    fused = [node for node in nodes if node["op"].startswith("_sg_")]
    if fused:
        raise ModelError(
            f"it is optimized for one runtime, with the fused operators {named(fused)}",
            hint="Export the network before it is optimized or quantized.",
        )
    unknown = [node for node in nodes if node["op"] not in known]
    if unknown:
        raise ModelError(
            f"MXNet {version} has no operator {named(unknown)}",
            hint="The library that it comes from is not loaded, or another version of MXNet "
            "wrote the file; export the network without it.",
        )
