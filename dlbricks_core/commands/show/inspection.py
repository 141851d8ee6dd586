"""Layers and bricks of models as tables and plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from dlbricks_core.facts import Failure
from dlbricks_core.report import data as common
from dlbricks_core.report.tables import styled, table

if TYPE_CHECKING:
    from dlbricks_core.bricks import BrickSet, CutModel
    from dlbricks_core.importers import LoadOptions
    from dlbricks_core.report.tables import Console


class ShowLayersData(common.ListedFailuresData):
    """Output of ``dlbricks show``."""

    settings: CutSettingsData  #: How models were cut.
    models: list[ShownModelData]  #: In the order in which they were named.
    bricks: list[ShownBrickData]  #: Different bricks of all models.
    totals: ShownTotalsData  #: Counts over all models.


class CutSettingsData(common.ReadingData):
    """How models were read and cut."""

    granularity: int  #: The most layers that a brick holds.
    split: str  #: Strategy by which models were cut.


class ShownModelData(common.ModelHeadData):
    """A model's layers."""

    outputs: dict[str, str]  #: Type and shape of each output.
    operators: dict[str, int]  #: Layers by operator.
    sequence: list[str]  #: Signatures of the bricks, in the order of the model.
    opaque: list[common.FailureData]  #: Layers that cannot be timed, and why.


class ShownBrickData(common.BrickHeadData):
    """A brick."""

    inputs: list[str]  #: Types and shapes.
    outputs: list[str]  #: Types and shapes.


class ShownTotalsData(TypedDict):
    """Counts over all models."""

    layers: int  #: Layers of all models.
    unique_layers: int  #: Different layers.
    unique_bricks: int  #: Different bricks.


def print_inspection(console: Console, bricks: BrickSet, *, layers: bool) -> None:
    """Prints counts of layers and bricks, operators, and layers that cannot be timed."""
    cuts = bricks.models
    rows = [
        _row(cut.model.name, len(cut.model.layers), len(set(cut.layer_signatures)),
             len(cut.counts), [cut])
        for cut in cuts
    ]  # fmt: skip
    if len(cuts) > 1:
        unique = bricks.unique_layers, len(bricks.bricks)
        rows.append(_row("all", bricks.layers, *unique, cuts))
    columns = ("Model", "Layers", "Unique", "Share", "Bricks", "Unique bricks", "Opaque")
    models = table(*columns, rows=rows)
    if len(cuts) > 1:
        models.rows[-2].end_section = True
    console.print(models)
    operators = Counter(layer.qualified_op for cut in cuts for layer in cut.model.layers)
    listed = ", ".join(f"{op} {count}" for op, count in operators.most_common())
    console.print(styled(("Operators:", "bold"), f" {listed}"))
    for cut in cuts:
        if layers:
            _print_layers(console, cut)
        for where, reason in opaque_layers(cut):
            console.print(styled(("Opaque:", "yellow"), f" {where}: {reason}"))


def _row(
    name: str, layers: int, unique: int, unique_bricks: int, cuts: Sequence[CutModel]
) -> list[str]:
    bricks = sum(len(cut.occurrences) for cut in cuts)
    opaque = sum(len(opaque_layers(cut)) for cut in cuts)
    numbers = (unique_bricks, opaque)
    return [name, str(layers), str(unique), f"{unique / max(layers, 1):.0%}", str(bricks),
            *map(str, numbers)]  # fmt: skip


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


def _opaque(cut: CutModel) -> list[Failure]:
    return [Failure(where, reason, "check") for where, reason in opaque_layers(cut)]


def inspect_data(
    bricks: BrickSet, unread: Sequence[Failure] = (), load: LoadOptions | None = None
) -> ShowLayersData:
    """Layers and bricks of models as the JSON object that scripts read."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "settings": {
            **common.reading_data(load),
            "granularity": bricks.granularity,
            "split": bricks.strategy,
        },
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
        "failures": common.failures_data(
            [*unread, *(each for cut in bricks.models for each in _opaque(cut))]
        ),
    }


def _model(cut: CutModel) -> ShownModelData:
    model = cut.model
    return {
        **common.model_head(cut),
        "outputs": {name: str(model.tensors[name]) for name in model.outputs},
        "operators": dict(Counter(layer.qualified_op for layer in model.layers).most_common()),
        "sequence": [occurrence.signature for occurrence in cut.occurrences],
        "opaque": common.failures_data(_opaque(cut)),
    }
