"""What the functions of the API give: plain data, and tables for pandas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report import (
    comparison_data,
    comparison_page,
    inspect_data,
    run_data,
    run_page,
    write_text,
)
from dlbricks_core.workflows import Comparison, RunResult

if TYPE_CHECKING:
    import pandas as pd

Rows = list[dict[str, Any]]


class Result(ABC):
    """What a function of the API gives: plain data, and a table of it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, as the command line writes it with ``--json``."""

    @abstractmethod
    def rows(self) -> Rows:
        """The rows of :meth:`to_frame` as dictionaries."""

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Raises:
            DLBricksError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise DLBricksError(
                "to_frame needs pandas, which is not installed", hint="pip install pandas"
            ) from error
        return pd.DataFrame(self.rows())

    def _repr_html_(self) -> str | None:
        try:
            return str(self.to_frame().to_html(index=False))
        except DLBricksError:
            return None  # a notebook shows the repr then


@dataclass(frozen=True, repr=False)
class LoadedModel(Result):
    """A model in canonical form.

    Attributes:
        ir: The model itself; its layers, tensors and weights are there.
    """

    ir: CanonicalModel

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.ir.name

    def to_dict(self) -> dict[str, Any]:
        """Inputs, outputs, operators, repetition; as ``dlbricks inspect --json``."""
        return inspect_data(BrickSet.of([self.ir]))

    def rows(self) -> Rows:
        """One row a layer."""
        tensors = self.ir.tensors
        return [
            {
                "layer": layer.qualified_op,
                "name": layer.name,
                "inputs": ", ".join(str(tensors[n]) for n in self.ir.activations(layer)),
                "outputs": ", ".join(str(tensors[n]) for n in layer.outputs if n),
            }
            for layer in self.ir.layers
        ]

    def __repr__(self) -> str:
        ir = self.ir
        inputs = ", ".join(f"{name}: {ir.tensors[name]}" for name in ir.inputs)
        return f"<LoadedModel {ir.name}: {len(ir.layers)} layers, inputs {inputs}>"


@dataclass(frozen=True, repr=False)
class Bricks(Result):
    """The unique bricks of one or several models."""

    brickset: BrickSet

    def to_dict(self) -> dict[str, Any]:
        """As ``dlbricks inspect --json``."""
        return inspect_data(self.brickset)

    def rows(self) -> Rows:
        """One row a brick, in order of first occurrence."""
        return [
            {**each, **{key: ", ".join(each[key]) for key in ("layers", "inputs", "outputs")}}
            for each in self.to_dict()["bricks"]
        ]

    def __len__(self) -> int:
        return len(self.brickset.bricks)

    def __repr__(self) -> str:
        models = ", ".join(cut.model.name for cut in self.brickset.models)
        return f"<Bricks: {len(self)} unique, of {models}>"


@dataclass(frozen=True, repr=False)
class _RunBased(Result):
    """What rests on one backend's run.

    Attributes:
        result: As the workflow gave it.
    """

    result: RunResult

    _table: ClassVar[str]
    _columns: ClassVar[tuple[str, ...]]

    @cached_property
    def _data(self) -> dict[str, Any]:
        return run_data(self.result)

    def to_dict(self) -> dict[str, Any]:
        """As ``dlbricks run --json``."""
        return self._data

    def rows(self) -> Rows:
        """One row a model, or a brick where bricks were timed."""
        return [_row(each, self._columns) for each in self._data[self._table]]

    @property
    def failures(self) -> list[dict[str, str]]:
        """What could not be measured, and why."""
        return list(self._data["failures"])

    def to_html(self, path: str | Path) -> None:
        """Writes the report with plots as one HTML file."""
        write_text(run_page(self.result), Path(path))

    def __repr__(self) -> str:
        request, name = self.result.request, type(self).__name__
        failed = f", {len(self.failures)} failures" if self.failures else ""
        return (
            f"<{name}: {len(self.rows())} {self._table} on {request.backend.name} "
            f"{request.setup.version}{failed}>"
        )


class Timings(_RunBased):
    """Latencies of bricks."""

    _table = "bricks"
    _columns = ("signature", "layers", "occurrences", "latency_ms", "interval_ms", "failure")


class Estimates(_RunBased):
    """Latencies of models: estimated, and measured where that was asked for."""

    _table = "models"
    _columns = (
        "name", "layers", "unique_layers", "estimate_ms", "interval_ms",
        "parallel_estimate_ms", "measured_ms", "normalized", "partial",
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class ComparisonResult(Result):
    """The same models and bricks on several backends.

    Attributes:
        result: As the workflow gave it.
    """

    result: Comparison

    @cached_property
    def _data(self) -> dict[str, Any]:
        return comparison_data(self.result)

    def to_dict(self) -> dict[str, Any]:
        """As ``dlbricks compare --json``."""
        return self._data

    def rows(self) -> Rows:
        """One row for each model and backend."""
        return [
            {
                "name": model["name"],
                "backend": backend,
                "winner": model["winner"],
                **_row(each, ("measured_ms", "measured_interval_ms", "estimate_ms", "partial")),
                "ratio": each["ratio"]["value"] if each["ratio"] else None,
                "ideal_ms": model["ideal_ms"],
            }
            for model in self._data["models"]
            for backend, each in model["backends"].items()
        ]

    @property
    def failures(self) -> list[dict[str, str]]:
        """What could not be measured, where, and why."""
        return list(self._data["failures"])

    def to_html(self, path: str | Path) -> None:
        """Writes the report with plots as one HTML file."""
        write_text(comparison_page(self.result), Path(path))

    def __repr__(self) -> str:
        winners = ", ".join(f"{m['name']}: {m['winner']}" for m in self._data["models"])
        return f"<ComparisonResult on {', '.join(self.result.runs)}: {winners}>"


def _row(entry: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """The columns, with lists of names and intervals in a form that tables hold well."""
    row: dict[str, Any] = {}
    for name in columns:
        value = entry[name]
        if name.endswith("interval_ms"):
            low, high = value or (None, None)
            start = name.removesuffix("interval_ms")
            row |= {f"{start}low_ms": low, f"{start}high_ms": high}
        else:
            row[name] = ", ".join(value) if isinstance(value, list) else value
    return row
