"""Records: everything that is needed to repeat a run, and its results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Calibration, CalibrationKey, Setup, System
from dlbricks_core.facts.checks import checked, moment
from dlbricks_core.files import content
from dlbricks_core.importers import LoadOptions
from dlbricks_core.wording import settings
from dlbricks_core.workflows.mlperf import described

VERSION = 1
"""Version of the records that are written."""

COMMANDS = ("run", "estimate", "evaluate", "compare")
"""Commands whose results can be recorded and repeated."""

Interval = tuple[float, float]

_NO_KEY = CalibrationKey("", "", 1, LATENCY, Setup("", "", "{}", 1, "", ""), "")
"""Placeholder key for checking the numbers of a calibration."""

_MOST_BYTES = 1 << 28
"""Maximum bytes of a record, or of results in JSON."""

_NONE = type(None)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, _NONE),
    "int": (int,),
    "int | None": (int, _NONE),
    "float": (int, float),
    "float | None": (int, float, _NONE),
    "Mapping[str, str]": (dict,),
    "Interval | None": (list, tuple, _NONE),
}
"""Types of JSON values, by the annotation of their field."""

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class RecordedModel:
    """A model that was run.

    Attributes:
        name: Name of the model.
        source: File or collection that it came from, as the user named it.
        structure: Signature of the whole model in canonical form: the same for models that differ
            in names and in values of weights alone.
        inputs: Type and shape of each input, by name.
        sha256: Hash of the model's file; ``None`` where it came from no file.
        bytes: Size of the file.
        licence: Licence of the model, if its file names one.
        author: Author of the model, if its file names one.
        task: Task of the model, if its file or its collection names one.
        producer: Program that wrote the file.
    """

    name: str
    source: str
    structure: str
    inputs: Mapping[str, str]
    sha256: str | None
    bytes: int | None
    licence: str | None
    author: str | None
    task: str | None
    producer: str | None


@dataclass(frozen=True)
class RecordedBackend:
    """A framework that ran the models.

    Attributes:
        name: Name of the backend.
        version: Version of the framework.
        plugin: Version of the backend's plugin.
        settings: Options of the backend, by name.
        environment: Environment variables that affect its speed, by name.
    """

    name: str
    version: str
    plugin: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class RecordedProtocol:
    """How networks were timed.

    Attributes:
        name: Name of the protocol.
        identity: Text that changes whenever the protocol would give other samples.
        statistic: Statistic that represents a network's samples.
        runs: Minimum number of samples of a network.
        precision: Relative half-width of the intervals to reach; ``None`` for a fixed number.
        budget_s: Seconds after which measuring ends; ``None`` for a fixed number of runs.
        threads: Threads that compute one operator.
        seed: Seed of weights and inputs.
        timeout_s: Maximum seconds to load a network, or to run it once.
    """

    name: str
    identity: str
    statistic: str
    runs: int
    precision: float | None
    budget_s: float | None
    threads: int
    seed: int
    timeout_s: float


@dataclass(frozen=True)
class RecordedCut:
    """How models were cut and composed.

    Attributes:
        composer: Name of the composer.
        split: Name of the split strategy.
        granularity: Maximum number of layers in a brick.
        predictor: Name of the predictor of bricks without a measurement; ``None`` for none.
        chosen: Source of the decision how each model is cut: ``user`` (request and defaults) or
            ``store`` (the bricks in it).
    """

    composer: str
    split: str
    granularity: int
    predictor: str | None
    chosen: str


@dataclass(frozen=True)
class Figures:
    """Results for one model on one backend, in the unit of the record's quantity.

    Attributes:
        model: Name of the model.
        backend: Name of the backend.
        estimate: The estimate; ``None`` if there is none.
        interval: Its 90% interval.
        measured: Figure of the whole model; ``None`` if it was not measured.
        measured_interval: Its 90% interval.
        missing: Number of bricks without a figure. If it is not 0, the estimate is a lower bound.
    """

    model: str
    backend: str
    estimate: float | None
    interval: Interval | None
    measured: float | None
    measured_interval: Interval | None
    missing: int


@dataclass(frozen=True)
class Record:
    """A command's settings and results.

    Attributes:
        command: Name of the command, one of :data:`COMMANDS`.
        version: Version of DLBricks.
        written_at: Time at which the results were written, in ISO 8601.
        quantity: Name of the quantity that was estimated.
        unit: Unit of the quantity.
        end_to_end: Whether whole models were timed as well.
        models: The models.
        reading: How the models were read.
        backends: The backends; one unless the command compares several.
        system: System behind the figures.
        machine: Name of the machine that an estimate is for, as
            :func:`~dlbricks_core.workflows.systems.told_apart` gives it; empty if none was chosen.
        protocol: How networks were timed.
        cut: How models were cut and composed.
        calibration: Fitted parameters of the composer and their basis, in JSON form; ``None`` for
            the composer's defaults.
        figures: Results.
    """

    command: str
    version: str
    written_at: str
    quantity: str
    unit: str
    end_to_end: bool
    models: Sequence[RecordedModel]
    reading: LoadOptions
    backends: Sequence[RecordedBackend]
    system: System
    machine: str
    protocol: RecordedProtocol
    cut: RecordedCut
    calibration: Mapping[str, Any] | None
    figures: Sequence[Figures]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data for JSON."""
        tasks = sorted({each.task for each in self.models if each.task})
        return {
            "spec_version": VERSION,
            "command": self.command,
            "written_at": self.written_at,
            "models": [asdict(each) for each in self.models],
            "task": {
                "kind": "inference",
                "of_models": tasks,
                "quantity": self.quantity,
                "unit": self.unit,
                "end_to_end": self.end_to_end,
                "reading": _reading_data(self.reading),
            },
            "software": {
                "dlbricks": self.version,
                "backends": [asdict(each) for each in self.backends],
                **{name: getattr(self.system, name) for name in ("os", "kernel", "python")},
            },
            "hardware": {
                **described(self.system),
                "machine": self.machine or None,
                "facts": self.system.to_dict(),
            },
            "protocol": asdict(self.protocol),
            "composing": {**asdict(self.cut), "calibration": self.calibration},
            "results": [asdict(each) for each in self.figures],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is not what it should be.
        """
        task, software = data["task"], data["software"]
        return cls(
            command=data["command"],
            version=checked(software["dlbricks"], str, "dlbricks"),
            written_at=data["written_at"],
            quantity=checked(task["quantity"], str, "quantity"),
            unit=checked(task["unit"], str, "unit"),
            end_to_end=bool(task["end_to_end"]),
            models=[_read(RecordedModel, each) for each in data["models"]],
            reading=_reading(task["reading"]),
            backends=[_read(RecordedBackend, each) for each in software["backends"]],
            system=_system(data["hardware"]["facts"]),
            machine=_machine(data["hardware"]),
            protocol=_read(RecordedProtocol, data["protocol"]),
            cut=_read(RecordedCut, data["composing"]),
            calibration=data["composing"]["calibration"],
            figures=[_read(Figures, each) for each in data["results"]],
        )

    @classmethod
    def of_result(cls, data: Mapping[str, Any]) -> Self:
        """Record of a command, from the JSON that it wrote.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is not what it should be.
        """
        asked, settings = data["invocation"], data["settings"]
        backends = data["backends"] if "backends" in data else [data["backend"]]
        names = {"name": settings["protocol"], "identity": settings["protocol_identity"]}
        return cls(
            command=asked["command"],
            version=checked(asked["version"], str, "version"),
            written_at=asked["written_at"],
            quantity=checked(asked["quantity"]["name"], str, "quantity"),
            unit=checked(asked["quantity"]["unit"], str, "unit"),
            end_to_end=bool(asked["end_to_end"]),
            models=[
                _read(RecordedModel, {**each, **each["facts"], "structure": each["signature"]})
                for each in data["models"]
            ],
            reading=_reading(settings),
            backends=[_read(RecordedBackend, each) for each in backends],
            system=_system(data["system"]),
            machine=_machine(data["system"]),
            protocol=_read(RecordedProtocol, {**settings, **names}),
            cut=_read(RecordedCut, {**settings, "chosen": asked["cut_chosen_by"]}),
            calibration=data.get("calibration"),
            figures=[figures for model in data["models"] for figures in _figures(model, backends)],
        )

    def __post_init__(self) -> None:
        if self.command not in COMMANDS:
            raise ValueError(f"command is {self.command!r:.40}")
        moment(self.written_at)
        if not self.models or not self.backends:
            raise ValueError("there are no models or no backends")
        if self.cut.split not in STRATEGIES or self.cut.granularity < 1:
            raise ValueError(f"split is {self.cut.split!r:.40} of {self.cut.granularity} layers")
        if self.calibration is not None:
            Calibration.from_dict(_NO_KEY, checked(self.calibration, dict, "calibration"))


def read_record(path: Path) -> Record:
    """Reads a record from a file: from :meth:`Record.to_dict`, or from results of a command.

    Raises:
        DLBricksError: If the file cannot be read, or holds neither.
    """
    try:
        data = json.loads(content(path, _MOST_BYTES))
    except OSError as error:
        raise DLBricksError(f"{path}: {error.strerror}", hint="Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise DLBricksError(f"{path} is not JSON", hint=_HINT) from error
    if not isinstance(data, dict) or not data.keys() & {"spec_version", "schema_version"}:
        raise DLBricksError(f"{path} holds no results of DLBricks", hint=_HINT)
    is_record = "spec_version" in data
    if is_record and data["spec_version"] != VERSION:
        raise DLBricksError(
            f"{path}: a record of version {data['spec_version']!r:.20}; this DLBricks reads "
            f"version {VERSION}",
            hint="Use the DLBricks that wrote it, or a newer one.",
        )
    if not is_record and not data.get("invocation"):
        raise DLBricksError(
            f"{path} does not say how its results were made: another command wrote it, or a "
            "DLBricks before records",
            hint=_HINT,
        )
    if data.get("answers") or data.get("curves"):
        raise DLBricksError(
            f"{path} holds results of models at several sizes: no record is made of these",
            hint=f"Run a model at one size, with {settings(dims={'sequence': 128})}.",
        )
    read: Callable[[Mapping[str, Any]], Record]
    read = Record.from_dict if is_record else Record.of_result
    try:
        return read(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DLBricksError(f"{path} is damaged: {what}", hint=_HINT) from error


_HINT = f"Name a JSON file that {', '.join(COMMANDS[:-1])} or {COMMANDS[-1]} wrote, or a record."


def _read(record: type[RecordT], data: Mapping[str, Any]) -> RecordT:
    """A record of texts and numbers. Values without a field are left out."""
    found = {}
    for each in fields(record):  # type: ignore[arg-type]
        kinds = _KINDS[str(each.type)]
        value: Any = checked(data[each.name], kinds, each.name)
        if kinds == (dict,):
            value = {key: checked(text, str, key) for key, text in value.items()}
        elif isinstance(value, (list, tuple)):
            low, high = (checked(end, (int, float), each.name) for end in value)
            value = (float(low), float(high))
        found[each.name] = value
    return record(**found)


def _system(data: Mapping[str, Any]) -> System:
    fingerprint = checked(data["fingerprint"], str, "fingerprint")
    return System.from_dict(fingerprint, data)


def _machine(data: Mapping[str, Any]) -> str:
    """Name of a machine. Files of earlier DLBricks versions have none."""
    return checked(data.get("machine"), (str, _NONE), "machine") or ""


def _reading(data: Mapping[str, Any]) -> LoadOptions:
    return LoadOptions(
        batch=checked(data["batch"], (int, _NONE), "batch"),
        dims={name: checked(size, int, name) for name, size in data["dims"].items()},
        shapes={
            name: tuple(checked(size, int, name) for size in shape)
            for name, shape in data["shapes"].items()
        },
        values={
            name: checked(number, (int, float), name) for name, number in data["values"].items()
        },
        fold_batchnorm=bool(data["fold_batchnorm"]),
        # Records of DLBricks versions that did not convert models lack this field.
        dtype=checked(data.get("dtype"), (str, _NONE), "dtype"),
    )


def _reading_data(options: LoadOptions) -> dict[str, Any]:
    shapes = {name: list(shape) for name, shape in options.shapes.items()}
    return {**asdict(options), "shapes": shapes}


def _figures(model: Mapping[str, Any], backends: Sequence[Mapping[str, Any]]) -> Iterator[Figures]:
    """Figures of a model on each backend, from results in JSON."""
    for backend in backends:
        own = model["backends"][backend["name"]] if "backends" in model else model
        # Comparisons by versions that compared only latencies have the unit in the field names.
        told = {
            name: own[name] if name in own else own[f"{name}_ms"]
            for name in ("estimate", "interval", "measured", "measured_interval")
        }
        names = {"model": model["name"], "backend": backend["name"]}
        yield _read(Figures, {**told, **names, "missing": len(own["missing"])})
