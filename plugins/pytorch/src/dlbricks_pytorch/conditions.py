"""Conditions on the sizes of a program: its bounds of symbols, and its guards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbricks_core.ir import RawModel
from dlbricks_pytorch.archive import Archive, program_entry

if TYPE_CHECKING:
    import torch

Bounds = Mapping[str, tuple[int | None, int | None]]

_SPECIAL = 2
"""Least bound that torch does not check: 0 and 1 may follow from the sizes that it traced."""

_PLACE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]", re.ASCII)
"""Size of an input's axis in a guard."""


def with_conditions(model: RawModel, bounds: Bounds, guards: Iterable[str]) -> RawModel:
    """The model with the conditions on its dynamic dimensions.

    Args:
        model: A program in ONNX.
        bounds: Least and greatest value of each symbol or expression.
        guards: Conditions on sizes of inputs, as torch writes them. Conditions on other facts, such
            as values, are left out.
    """
    found = [*_of_bounds(bounds), *_of_guards(model, guards)]
    return replace(model, conditions=tuple(dict.fromkeys(found)))


def _of_bounds(bounds: Bounds) -> Iterable[str]:
    for text, (least, most) in bounds.items():
        if least is not None and least > _SPECIAL:
            yield f"{text} >= {least}"
        if most is not None:
            yield f"{text} <= {most}"


def _of_guards(model: RawModel, guards: Iterable[str]) -> Iterable[str]:
    for guard in guards:
        places = _PLACE.findall(guard)
        if all(int(axis) < _rank(model, name) for name, axis in places):
            yield _PLACE.sub(lambda place: _size(model, place[1], int(place[2])), guard)


def _rank(model: RawModel, name: str) -> int:
    spec = model.tensors.get(name) if name in model.input_names else None
    return len(spec.shape or ()) if spec is not None else 0


def _size(model: RawModel, name: str, axis: int) -> str:
    """A dimension as a part of an expression."""
    dim = (model.tensors[name].shape or ())[axis]
    return f"({dim})"


def of_program(program: torch.export.ExportedProgram) -> tuple[Bounds, Sequence[str]]:
    """Bounds and guards of a program in memory."""
    from torch.utils._sympy.numbers import int_oo

    bounds = {
        str(symbol): (
            int(each.lower) if each.lower not in (-int_oo, int_oo) else None,
            int(each.upper) if each.upper not in (-int_oo, int_oo) else None,
        )
        for symbol, each in program.range_constraints.items()
    }
    return bounds, getattr(program, "_guards_code", None) or []


def of_file(path: Path) -> tuple[Bounds, Sequence[str]]:
    """Bounds and guards in a file. Other expressions are left out."""
    with Archive(path) as archive:
        entry = program_entry(archive.names)
        described: Any = archive.json(entry) if entry else {}
    ranges, guards = described.get("range_constraints"), described.get("guards_code")
    bounds = {
        text: (_whole(each.get("min_val")), _whole(each.get("max_val")))
        for text, each in (ranges if isinstance(ranges, dict) else {}).items()
        if isinstance(each, dict)
    }
    listed = guards if isinstance(guards, list) else []
    return bounds, [each for each in listed if isinstance(each, str)]


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
