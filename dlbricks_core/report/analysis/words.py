"""Results of an analysis in words."""

from __future__ import annotations

from dlbricks_core.analysis import Analysis, Count, Work
from dlbricks_core.report.heading import count
from dlbricks_core.report.tables import quantity


def answer(analysis: Analysis) -> list[str]:
    """Sentences on the repetition in models, in layers and in operations."""
    total, models = analysis.repetition.total, analysis.models
    who = models[0].name if len(models) == 1 else count(len(models), "model")
    unique = f", {total.unique:,} of them unique ({share(total)})" if total.layers else ""
    lines = [f"{who}: {count(total.layers, 'layer')}{unique}."]
    if operations := unique_operations(analysis):
        lines.append(operations)
    return lines


def share(count: Count) -> str:
    """Unique layers in percent of all layers."""
    return "-" if count.unique_share is None else f"{count.unique_share:.1%}"


def flops(work: Work) -> str:
    """A model's operations, marked where some layers have no rule."""
    return f"{'>' if work.without_flops else ''}{quantity(work.flops)}"


def all_flops(analysis: Analysis) -> str:
    """The operations of all models, marked as :func:`flops` does."""
    lacking = any(each.work.without_flops for each in analysis.models)
    return f"{'>' if lacking else ''}{quantity(analysis.operations.flops)}"


def moved(work: Work) -> str:
    """The bytes that a model's layers read and write; marked where some are unknown."""
    return f"{'>' if work.without_bytes else ''}{quantity(work.moved_bytes)}B"


def unique_operations(analysis: Analysis) -> str | None:
    """A sentence on the share of operations in unique layers."""
    operations = analysis.operations
    if operations.saving is None:
        return None
    return (
        f"Unique layers: {quantity(operations.unique)} of {all_flops(analysis)} floating-point "
        f"operations, {operations.saving:.2f} times fewer."
    )


def notes(analysis: Analysis) -> list[str]:
    """A note for each model on layers that its sums lack."""
    return [
        f"{each.name}: no {what} for {', '.join(f'{op} ({n})' for op, n in missing.items())}; "
        "its sum leaves them out"
        for each in analysis.models
        for what, missing in (
            ("rule for the operations", each.work.without_flops),
            ("known size", each.work.without_bytes),
        )
        if missing
    ]
