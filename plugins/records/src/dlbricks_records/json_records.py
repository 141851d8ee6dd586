"""Records of results in JSON, with hardware by the names of MLPerf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from dlbricks_core.facts import Cache, System
from dlbricks_core.report.data import CalibrationData, Interval, ReadingData, SystemData


@dataclass(frozen=True)
class RecordedModel:
    """A model that was run."""

    name: str  #: Name of the model.
    source: str  #: File or collection that it came from, as the user named it.
    #: Signature of the whole model in canonical form: the same for models that differ in names and
    #: in values of weights alone.
    structure: str
    inputs: Mapping[str, str]  #: Type and shape of each input, by name.
    #: Hash of the model's file, without files of weights; ``None`` where it came from no file.
    sha256: str | None
    bytes: int | None  #: Size of the file.
    licence: str | None  #: Licence of the model, if its file names one.
    author: str | None  #: Author of the model, if its file names one.
    task: str | None  #: Task of the model, if its file or its collection names one.
    producer: str | None  #: Program that wrote the file.


@dataclass(frozen=True)
class RecordedBackend:
    """A framework that ran the models."""

    name: str  #: Name of the backend.
    version: str  #: Version of the framework.
    plugin: str  #: Version of the backend's plugin.
    settings: Mapping[str, str]  #: Options of the backend, by name.
    environment: Mapping[str, str]  #: Environment variables that affect its speed, by name.


@dataclass(frozen=True)
class RecordedProtocol:
    """How networks were timed."""

    name: str  #: Name of the protocol.
    identity: str  #: Text that changes whenever the protocol would give other samples.
    statistic: str  #: Statistic that represents a network's samples.
    runs: int  #: Minimum number of samples of a network.
    #: Relative half-width of the intervals to reach; ``None`` for a fixed number.
    precision: float | None
    #: Seconds after which measuring ends; ``None`` for a fixed number of runs.
    budget_s: float | None
    threads: int  #: Threads that compute one operator.
    seed: int  #: Seed of weights and inputs.
    timeout_s: float  #: Maximum seconds to load a network, or to run it once.


@dataclass(frozen=True)
class RecordedFigures:
    """Results for one model on one backend, in the unit of the record's quantity."""

    model: str  #: Name of the model.
    backend: str  #: Name of the backend.
    estimate: float | None  #: The estimate; ``None`` if there is none.
    interval: Interval | None  #: Its 90% interval.
    measured: float | None  #: Figure of the whole model; ``None`` if it was not measured.
    measured_interval: Interval | None  #: Its 90% interval.
    #: Number of bricks without a figure. If it is not 0, the estimate is a lower bound.
    missing: int


@dataclass(frozen=True)
class RecordedCut:
    """How models were cut and composed."""

    composer: str  #: Name of the composer.
    split: str  #: Name of the split strategy.
    granularity: int  #: Maximum number of layers in a brick.
    predictor: str | None  #: Predictor of bricks without a measurement; ``None`` for none.
    #: Origin of this setting: the user, with the command's defaults, or the content of the store.
    chosen: Literal["user", "store"]
    calibration: CalibrationData | None  #: Fitted numbers of the composer; ``None`` for its own.


class ResultsRecordData(TypedDict):
    """Output of ``dlbricks results record``: a record that others can repeat."""

    spec_version: int  #: 1. Fields are added freely and never renamed.
    command: Literal["estimate", "check", "compare"]  #: The command.
    measures: bool  #: Whether bricks ran; false if all figures were stored or predicted.
    written_at: str  #: When the results were written, in ISO 8601.
    models: list[RecordedModel]  #: The models.
    task: RecordedTaskData  #: The task.
    software: RecordedSoftwareData  #: With which software.
    hardware: RecordedHardwareData  #: On which hardware.
    protocol: RecordedProtocol  #: How networks were timed.
    composing: RecordedCut  #: How models were cut and composed.
    results: list[RecordedFigures]  #: The results.


class RecordedTaskData(TypedDict):
    """Task of the record."""

    kind: Literal["inference"]  #: Kind of work.
    of_models: list[str]  #: Tasks of the models, where these are known.
    quantity: str  #: Estimated quantity, such as latency.
    unit: str  #: Unit of the results.
    end_to_end: bool  #: Whether whole models were timed as well.
    reading: ReadingData  #: How models were read.


class RecordedSoftwareData(TypedDict):
    """Software of a record."""

    dlbricks: str  #: Version of DLBricks.
    backends: list[RecordedBackend]  #: Frameworks; several for a comparison.
    os: str  #: Operating system.
    kernel: str  #: Version of Linux.
    python: str  #: Version of Python.


class RecordedHardwareData(TypedDict):
    """Hardware of a record, with the names of MLPerf's system descriptions.

    Unknown values are empty.
    """

    system_name: str  #: Name of the system.
    number_of_nodes: str  #: Number of machines: 1.
    host_processor_model_name: str  #: Name of the processor.
    #: Number of processors; known if the machine has one NUMA node.
    host_processors_per_node: str
    host_processor_core_count: str  #: Cores of a processor; known if there is one.
    host_processor_vcpu_count: str  #: Its hardware threads; known if there is one processor.
    host_processor_frequency: str  #: Highest frequency.
    host_processor_caches: str  #: Caches of a core.
    host_processor_interconnect: str  #: Interconnect of processors.
    host_memory_capacity: str  #: Memory.
    host_memory_configuration: str  #: Memory modules.
    host_storage_type: str  #: Kind of storage.
    host_storage_capacity: str  #: Size of storage.
    host_networking: str  #: Network.
    host_networking_topology: str  #: Topology of the network.
    accelerators_per_node: str  #: Number of accelerators; DLBricks uses none.
    accelerator_model_name: str  #: Name of the accelerator.
    hw_notes: str  #: Facts that change latency and have no field of their own.
    facts: SystemData  #: The system in DLBricks' own fields.
    #: Name of the machine that an estimate is for, if one was chosen and it has a name or equals.
    machine: str | None


def described(system: System) -> dict[str, str]:
    """The hardware fields of a system description, as texts.

    Unknown fields stay empty. MLCommons' submission checkers require these names.
    """
    # MLPerf counts by processor, and the numbers of the whole machine are known.
    has_one = system.numa_nodes == 1
    known = {
        "number_of_nodes": "1",
        "host_processor_model_name": system.cpu,
        "host_processors_per_node": "1" if has_one else "",
        "host_processor_core_count": _number(system.physical_cores) if has_one else "",
        "host_processor_vcpu_count": _number(system.logical_cpus) if has_one else "",
        "host_processor_frequency": f"{max(system.max_mhz)} MHz" if system.max_mhz else "",
        "host_processor_caches": ", ".join(map(_cache, system.caches)),
        "host_memory_capacity": f"{system.memory / 2**30:.1f} GiB" if system.memory else "",
        "hw_notes": _notes(system),
    }
    of_others = {"facts", "machine"}
    names = (each for each in RecordedHardwareData.__annotations__ if each not in of_others)
    return {name: known.get(name, "") for name in names}


def _number(value: int) -> str:
    return str(value) if value else ""


def _cache(cache: Cache) -> str:
    kind = {"data": "d", "instruction": "i"}.get(cache.kind, "")
    return f"L{cache.level}{kind} {cache.size // 2**10} KiB shared by {cache.shared_by} threads"


def _notes(system: System) -> str:
    """Facts that affect latency and have no field of their own."""
    boost = {True: "on", False: "off", None: ""}[system.boost]
    facts = {
        "cores of the machine": _number(system.physical_cores),
        "hardware threads": _number(system.logical_cpus),
        "usable cores": _number(system.available_cores),
        "CPU quota": "" if system.cpu_quota is None else f"{system.cpu_quota:g}",
        "instruction sets": " ".join(system.isa),
        "NUMA nodes": _number(system.numa_nodes),
        "governor": " ".join(system.governors),
        "boost": boost,
        "huge pages": system.huge_pages or "",
        "hypervisor": system.hypervisor or "",
    }
    return "; ".join(f"{name}: {text}" for name, text in facts.items() if text)
