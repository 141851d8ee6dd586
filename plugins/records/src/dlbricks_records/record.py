"""Records: everything that is needed to repeat a run, and its results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, get_args

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.commands.options.invocation import RecordedCommand
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Calibration, CalibrationKey, Setup, System
from dlbricks_core.facts.checks import checked, moment
from dlbricks_core.files import content
from dlbricks_core.importers import LoadOptions
from dlbricks_core.limits import LimitError, parsed
from dlbricks_core.passes.options import input_value
from dlbricks_core.report.data import plain, reading_data
from dlbricks_core.wording import settings
from dlbricks_records.json_records import (
    RecordedBackend,
    RecordedCut,
    RecordedFigures,
    RecordedModel,
    RecordedProtocol,
    described,
)

if TYPE_CHECKING:
    from dlbricks_records.json_records import (
        RecordedHardwareData,
        ResultsRecordData,
    )

VERSION = 2  #: Version of the records that are written.
COMMANDS = get_args(RecordedCommand)  #: Commands whose results can be recorded and repeated.

#: Placeholder key for checking the numbers of a calibration.
_NO_KEY = CalibrationKey("", "", 1, LATENCY, Setup("", "", "{}", 1, "", ""), "")

#: Commands in files of version 1: the present name, and whether bricks ran.
_EARLIER = {
    "run": ("estimate", True),
    "estimate": ("estimate", False),
    "evaluate": ("check", True),
    "compare": ("compare", True),
}

_MOST_BYTES = 1 << 28  #: Maximum bytes of a record, or of results in JSON.

_NONE = type(None)
#: Types of JSON values, by the annotation of their field.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, _NONE),
    "int": (int,),
    "int | None": (int, _NONE),
    "float": (int, float),
    "float | None": (int, float, _NONE),
    "Mapping[str, str]": (dict,),
    "Interval | None": (list, tuple, _NONE),
    "Literal['user', 'store']": (str,),
    "CalibrationData | None": (dict, _NONE),
}

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class Record:
    """A command's settings and results."""

    command: str  #: Name of the command, one of :data:`COMMANDS`.
    measures: bool  #: Whether bricks ran; ``False`` if all figures were stored or predicted.
    version: str  #: Version of DLBricks.
    written_at: str  #: Time at which the results were written, in ISO 8601.
    quantity: str  #: Name of the quantity that was estimated.
    unit: str  #: Unit of the quantity.
    end_to_end: bool  #: Whether whole models were timed as well.
    models: Sequence[RecordedModel]
    reading: LoadOptions  #: How the models were read.
    backends: Sequence[RecordedBackend]  #: The backends; one unless the command compares several.
    system: System  #: System behind the figures.
    #: Name of the machine that an estimate is for, as
    #: :attr:`~dlbricks_core.facts.Machine.told_apart` gives it; empty if none was chosen.
    machine: str
    protocol: RecordedProtocol  #: How networks were timed.
    cut: RecordedCut  #: How models were cut and composed.
    figures: Sequence[RecordedFigures]  #: Results.

    def to_dict(self) -> ResultsRecordData:
        """The record as plain data for JSON."""
        tasks = sorted({each.task for each in self.models if each.task})
        hardware = {
            **described(self.system),
            "machine": self.machine or None,
            "facts": self.system.to_dict(),
        }
        return {
            "spec_version": VERSION,
            "command": cast("RecordedCommand", self.command),
            "measures": self.measures,
            "written_at": self.written_at,
            "models": [plain(each) for each in self.models],
            "task": {
                "kind": "inference",
                "of_models": tasks,
                "quantity": self.quantity,
                "unit": self.unit,
                "end_to_end": self.end_to_end,
                "reading": reading_data(self.reading),
            },
            "software": {
                "dlbricks": self.version,
                "backends": [plain(each) for each in self.backends],
                "os": self.system.os,
                "kernel": self.system.kernel,
                "python": self.system.python,
            },
            "hardware": cast("RecordedHardwareData", hardware),
            "protocol": plain(self.protocol),
            "composing": plain(self.cut),
            "results": [plain(each) for each in self.figures],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; ``KeyError``, ``TypeError`` or ``ValueError`` name damage."""
        task, software = data["task"], data["software"]
        return cls(
            command=data["command"],
            measures=bool(data["measures"]),
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
            figures=[_read(RecordedFigures, each) for each in data["results"]],
        )

    @classmethod
    def of_result(cls, data: Mapping[str, Any]) -> Self:
        """Record of a command, from the JSON that it wrote."""
        asked, settings = data["invocation"], data["settings"]
        backends = data["backends"] if "backends" in data else [data["backend"]]
        names = {"name": settings["protocol"], "identity": settings["protocol_identity"]}
        cut = {"chosen": asked["cut_chosen_by"], "calibration": data.get("calibration")}
        return cls(
            command=asked["command"],
            measures=bool(asked["measures"]),
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
            cut=_read(RecordedCut, {**settings, **cut}),
            figures=[figures for model in data["models"] for figures in _figures(model, backends)],
        )

    def __post_init__(self) -> None:
        if self.command not in COMMANDS:
            raise ValueError(f"command is {self.command!r:.40}")
        moment(self.written_at)
        if not self.models or not self.backends:
            raise ValueError("there are no models or no backends")
        if len(self.backends) > 1 and self.command != "compare":
            raise ValueError(f"{self.command} has {len(self.backends)} backends")
        if self.cut.split not in STRATEGIES or self.cut.granularity < 1:
            raise ValueError(f"split is {self.cut.split!r:.40} of {self.cut.granularity} layers")
        if self.cut.calibration is not None:
            Calibration.from_dict(_NO_KEY, self.cut.calibration)


def read_record(path: Path) -> Record:
    """Reads a record from a file: from :meth:`Record.to_dict`, or from results of a command.

    Raises:
        DLBricksError: If the file cannot be read, or holds neither.
    """
    try:
        data = parsed(content(path, _MOST_BYTES))
    except OSError as error:
        raise DLBricksError(f"{path}: {error.strerror}", hint="Check the path.") from error
    except LimitError as error:
        raise DLBricksError(f"{path} holds {error}", hint=error.limit.hint) from error
    except (ValueError, RecursionError) as error:
        raise DLBricksError(f"{path} is not JSON", hint=_HINT) from error
    if not isinstance(data, dict) or not data.keys() & {"spec_version", "schema_version"}:
        raise DLBricksError(f"{path} holds no results of DLBricks", hint=_HINT)
    is_record = "spec_version" in data
    version = data["spec_version" if is_record else "schema_version"]
    if version not in (1, VERSION):
        raise DLBricksError(
            f"{path}: {'a record' if is_record else 'results'} of version {version!r:.20}; this "
            f"DLBricks reads version {VERSION}",
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
        if version == 1 and is_record:
            data = _renamed(data)
        elif version == 1:
            data = {**data, "invocation": _renamed(data["invocation"])}
        return read(data)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DLBricksError(f"{path} is damaged: {what}", hint=_HINT) from error


_HINT = f"Name a JSON file that {', '.join(COMMANDS[:-1])} or {COMMANDS[-1]} wrote, or a record."


def _renamed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The command of a file of version 1, in its present words."""
    command, measures = _EARLIER.get(data["command"], (data["command"], True))
    return {**data, "command": command, "measures": measures}


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
            if low > high:
                raise ValueError(f"{each.name} is from {low} to {high}")
        if not all(map(_is_finite, _numbers(value))):
            raise ValueError(f"{each.name} is not a finite number")
        found[each.name] = value
    return record(**found)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, tuple):
        yield from value
    elif isinstance(value, (int, float)):
        yield value


def _is_finite(value: float) -> bool:
    """Whether a number is finite as a float. An integer may be too large to become one."""
    return abs(value) <= sys.float_info.max


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
            name: input_value(checked(value, (int, float, list, _NONE), name))
            for name, value in data["values"].items()
        },
        fold_batchnorm=bool(data["fold_batchnorm"]),
        # Records of earlier DLBricks versions lack these fields.
        dtype=checked(data.get("dtype"), (str, _NONE), "dtype"),
        outputs=tuple(checked(name, str, "output") for name in data.get("outputs", ())),
        form=checked(data.get("form", ""), str, "form"),
    )


def _figures(
    model: Mapping[str, Any], backends: Sequence[Mapping[str, Any]]
) -> Iterator[RecordedFigures]:
    """Figures of a model on each backend, from results in JSON."""
    for backend in backends:
        own = model["backends"][backend["name"]] if "backends" in model else model
        # Comparisons by versions that compared only latencies have the unit in the field names.
        told = {
            name: own[name] if name in own else own[f"{name}_ms"]
            for name in ("estimate", "interval", "measured", "measured_interval")
        }
        names = {"model": model["name"], "backend": backend["name"]}
        yield _read(RecordedFigures, {**told, **names, "missing": len(own["missing"])})
