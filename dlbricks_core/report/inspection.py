"""Layers and bricks of models, as tables and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dlbricks_core.facts import Failure
from dlbricks_core.report.console import styled
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data, model_head
from dlbricks_core.report.tables import table

if TYPE_CHECKING:
    from dlbricks_core.bricks import BrickSet, CutModel
    from dlbricks_core.report.console import Console


def print_inspection(console: Console, bricks: BrickSet, *, layers: bool) -> None:
    """Prints counts of layers and bricks, operators, and layers that cannot be timed.

    Args:
        console: Where to print.
        bricks: The models and their bricks.
        layers: Whether to list every layer.
    """
    models = table("Model", "Layers", "Unique", "Share", "Bricks", "Unique bricks", "Opaque")
    for cut in bricks.models:
        unique = len(set(cut.layer_signatures))
        count = len(cut.model.layers)
        models.add_row(
            cut.model.name,
            str(count),
            str(unique),
            f"{unique / max(count, 1):.0%}",
            str(len(cut.occurrences)),
            str(len(cut.counts)),
            str(len(opaque_layers(cut))),
        )
    if len(bricks.models) > 1:
        models.add_section()
        models.add_row(
            "all",
            str(bricks.layers),
            str(bricks.unique_layers),
            f"{bricks.unique_layers / max(bricks.layers, 1):.0%}",
            str(sum(len(cut.occurrences) for cut in bricks.models)),
            str(len(bricks.bricks)),
            str(sum(len(opaque_layers(cut)) for cut in bricks.models)),
        )
    console.print(models)
    operators = Counter(
        layer.qualified_op for cut in bricks.models for layer in cut.model.layers
    ).most_common()
    listed = ", ".join(f"{op} {count}" for op, count in operators)
    console.print(styled(("Operators:", "bold"), f" {listed}"))
    for cut in bricks.models:
        if layers:
            _print_layers(console, cut)
        for where, reason in opaque_layers(cut):
            console.print(styled(("Opaque:", "yellow"), f" {where}: {reason}"))


def _print_layers(console: Console, cut: CutModel) -> None:
    listing = table("#", "Layer", "Results", "Brick", left=4)
    listing.title = cut.model.name
    bricks = {i: o.signature for o in cut.occurrences for i in o.layers}
    for i, layer in enumerate(cut.model.layers):
        results = ", ".join(str(cut.model.tensors[name]) for name in layer.outputs if name)
        listing.add_row(str(i), layer.qualified_op, results, bricks[i][:8])
    console.print(listing)


def opaque_layers(cut: CutModel) -> list[tuple[str, str]]:
    """Names of a model's opaque layers, with the reasons why they are opaque."""
    return [
        (f"{cut.model.name}: {layer.qualified_op} {layer.name or layer.outputs[0]}", layer.opaque)
        for layer in cut.model.layers
        if layer.opaque
    ]


def inspect_data(bricks: BrickSet, unread: Sequence[Failure] = ()) -> dict[str, Any]:
    """Layers and bricks of models as the JSON object that scripts read.

    Args:
        bricks: The models and their bricks.
        unread: Models that were named and could not be loaded.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "settings": {"granularity": bricks.granularity, "split": bricks.strategy},
        "models": [_model(cut) for cut in bricks.models],
        "bricks": [
            {
                "signature": brick.signature,
                "layers": list(brick.operators),
                "occurrences": sum(cut.counts.get(brick.signature, 0) for cut in bricks.models),
                "inputs": [str(brick.model.tensors[name]) for name in brick.model.inputs],
                "outputs": [str(brick.model.tensors[name]) for name in brick.model.outputs],
            }
            for brick in bricks.bricks.values()
        ],
        "totals": {
            "layers": bricks.layers,
            "unique_layers": bricks.unique_layers,
            "unique_bricks": len(bricks.bricks),
        },
        **failures_data(
            [
                *unread,
                *(Failure(*each, "check") for cut in bricks.models for each in opaque_layers(cut)),
            ]
        ),
    }


def _model(cut: CutModel) -> dict[str, Any]:
    model = cut.model
    return {
        **model_head(cut),
        "outputs": {name: str(model.tensors[name]) for name in model.outputs},
        "operators": dict(Counter(layer.qualified_op for layer in model.layers).most_common()),
        "sequence": [occurrence.signature for occurrence in cut.occurrences],
        "opaque": [{"where": w, "reason": r} for w, r in opaque_layers(cut)],
    }
