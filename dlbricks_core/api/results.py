"""Results of the API's functions: plain data, and tables for pandas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.show.inspection import inspect_data
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report.files import write_text
from dlbricks_core.report.notes import texts
from dlbricks_core.report.pages import ESTIMATE, page_of
from dlbricks_core.sanitize import sanitized
from dlbricks_core.wording import count, listed

if TYPE_CHECKING:
    import pandas as pd

Rows = list[dict[str, Any]]


class Result(ABC):
    """Result of a function of the API: plain data, and a table of it.

    A result iterates over its rows, and its length is their number.
    """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of the command of the same name."""

    @abstractmethod
    def rows(self) -> Rows:
        """Rows of :meth:`to_frame` as dictionaries."""

    def to_frame(self) -> pd.DataFrame:
        """Rows as a pandas DataFrame.

        Raises:
            DLBricksError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise DLBricksError(
                "a table needs pandas, which is not installed",
                hint="pip install pandas, or use rows(), which needs nothing.",
            ) from error
        return pd.DataFrame(self.rows())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.rows())

    def _repr_html_(self) -> str | None:
        try:
            return str(self.to_frame().to_html(index=False))
        except DLBricksError:
            return None  # a notebook shows the repr then


@dataclass(frozen=True, repr=False)
class LoadedModel(Result):
    """A model in canonical form.

    Attributes:
        ir: Layers, tensors and names of weights, as a :class:`dlbricks_core.ir.CanonicalModel`.
            Backends receive models in this form.

    Examples:
        >>> model = load("onnx:light_squeezenet")
        >>> model.ir.layers[0].op, model.ir.layers[0].inputs
        ('Conv', ('data_0', 'conv1_w_0', 'conv1_b_0'))
    """

    ir: CanonicalModel

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.ir.name

    def to_dict(self) -> dict[str, Any]:
        """Inputs, outputs, operators and repetition, as ``dlbricks show`` writes them."""
        return dict(inspect_data(BrickSet.of([self.ir])))

    def rows(self) -> Rows:
        """One row for each layer."""
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
        return f"<LoadedModel {self.ir.summary}>"


@dataclass(frozen=True, repr=False)
class Bricks(Result):
    """The unique bricks of one or several models.

    Attributes:
        brickset: The bricks by signature, and the models that consist of them.
    """

    brickset: BrickSet

    def to_dict(self) -> dict[str, Any]:
        """Models, bricks and repetition, as ``dlbricks show`` writes them."""
        return dict(inspect_data(self.brickset))

    def rows(self) -> Rows:
        """One row for each brick, in order of first occurrence."""
        return [
            {**each, **{key: ", ".join(each[key]) for key in ("layers", "inputs", "outputs")}}
            for each in self.to_dict()["bricks"]
        ]

    def __len__(self) -> int:
        return len(self.brickset.bricks)

    def __repr__(self) -> str:
        models = named(cut.model.name for cut in self.brickset.models)
        return f"<Bricks: {len(self)} unique, of {models}>"


class MeasuredResult(Result):
    """Result for which something was timed."""

    @cached_property
    def _data(self) -> dict[str, Any]:
        return self.to_dict()

    @property
    def failures(self) -> list[dict[str, str]]:
        """Failures: the network that could not be measured (``where``), and the ``reason``."""
        return [dict(each) for each in self._data["failures"]]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, such as a machine that was busy."""
        return texts(self._data["warnings"])

    def to_html(self, path: str | Path) -> None:
        """Writes the report with plots as one HTML file.

        Raises:
            DLBricksError: If the file cannot be written.
        """
        write_text(self._page(), Path(path))

    @abstractmethod
    def _page(self) -> str:
        """The report as HTML."""


@dataclass(frozen=True, repr=False)
class _RunBased(MeasuredResult):
    """Result of one backend's run.

    Attributes:
        result: Result of the workflow.
    """

    result: RunResult

    _table: ClassVar[str]
    _columns: ClassVar[tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks estimate``."""
        return dict(run_data(self.result))

    def rows(self) -> Rows:
        """One row for each model, or for each brick if only bricks were timed."""
        unit = self.result.request.quantity.unit
        return [table_row(each, self._columns, unit) for each in self._data[self._table]]

    def _page(self) -> str:
        return page_of(ESTIMATE, self.result)

    def _shown(self, what: str) -> str:
        setup = self.result.request.setup
        failed = f", {len(self.failures)} failed" if self.failures else ""
        name, threads = type(self).__name__, count(setup.threads, "thread")
        return f"<{name}: {what} on {setup.backend} {setup.version}, {threads}{failed}>"


class Timings(_RunBased):
    """Latencies of bricks."""

    _table = "bricks"
    _columns = ("signature", "layers", "occurrences", "value", "interval", "failure")

    def __repr__(self) -> str:
        return self._shown(count(len(self), "brick"))


class Estimates(_RunBased):
    """Latencies of models: estimated, and measured on request."""

    _table = "models"
    _columns = (
        "name", "layers", "unique_layers", "estimate", "interval",
        "parallel_estimate", "measured", "normalized", "partial",
    )  # fmt: skip

    def rows(self) -> Rows:
        """One row for each model, or for each workload or size if several were requested."""
        answers, curves = self._data["answers"], self._data["curves"]
        points = [{**each, **point} for each in curves for point in each["points"]]
        return [*map(_answer_row, answers), *map(_point_row, points)] or super().rows()

    def __repr__(self) -> str:
        if self.result.over_sizes is not None:
            return self._shown(f"{named(self.result.by_name)} at {len(self)} sizes")
        return self._shown(named(map(_estimated, self._data["models"])))


_WORKLOAD = ("name", "prompt", "generate", "depth", "batch")


def _answer_row(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A row for a workload: times with their intervals, and tokens per second."""
    row = {name: answer[name] for name in _WORKLOAD}
    for name in ("ttft", "tpot", "total"):
        time = answer[name] or {}
        low, high = time.get("interval") or (None, None)
        row |= {
            name: time.get("estimate"),
            f"{name}_low": low,
            f"{name}_high": high,
            f"{name}_measured": time.get("measured"),
        }
    rate = answer["generated_tokens_per_s"]["value"]
    return {
        **row,
        "unit": answer["quantity"]["unit"],
        "generated_tokens_per_s": rate,
        "partial": answer["total"]["partial"],
    }


def _point_row(point: Mapping[str, Any]) -> dict[str, Any]:
    sizes = point["sizes"]
    columns = ("name", *sizes, "estimate", "interval", "measured", "normalized", "partial")
    return table_row({**point, **sizes}, columns, point["quantity"]["unit"])


def named(texts: Iterable[str]) -> str:
    """The first few texts, safe to print, and the number of the others."""
    return listed([*map(sanitized, texts)], 3)


def _estimated(model: Mapping[str, Any]) -> str:
    """A model's name and its estimate; a partial one is a lower bound."""
    value, unit = model["estimate"], model["quantity"]["unit"]
    if value is None:
        return f"{model['name']} unknown"
    return f"{model['name']} {'> ' if model['partial'] else ''}{value:.3g} {unit}"


def table_row(entry: Mapping[str, Any], columns: Iterable[str], unit: str) -> dict[str, Any]:
    """A row of a table: an interval becomes two columns, a list of names becomes one text."""
    row: dict[str, Any] = {}
    for column in columns:
        value = entry[column]
        before, is_interval, _ = column.partition("interval")
        if is_interval:
            low, high = value or (None, None)
            row |= {f"{before}low": low, f"{before}high": high}
        else:
            row[column] = ", ".join(value) if isinstance(value, list) else value
    return {**row, "unit": unit}
