"""Settings of models under a load, and of advice."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.commands.options import kinds
from dlbricks_core.commands.options.kinds import Kind
from dlbricks_core.commands.options.settings import Setting
from dlbricks_serving.scenarios import LOAD_S, Scenario

SCENARIO = Setting(
    "scenario",
    replace(
        kinds.one_of([each.value for each in Scenario]),
        convert=lambda value: Scenario(kinds.text(value)).value,
    ),
    "Load of MLPerf Inference.",
    required=True,
)

MAX_LATENCY = Setting(
    "max_latency_ms",
    kinds.above_zero("milliseconds", 50, kinds.LATENCY_MS),
    "Maximum latency (50ms, 0.5s; milliseconds without a unit): of a run, under load its "
    "percentile, of an answer its total time.",
    metavar="TIME",
)

LOAD = (
    SCENARIO,
    Setting(
        "instances",
        kinds.counts("instances"),
        "Numbers of instances (1,2), with cores of their own.",
        "all that fit; above 4 cores powers of two",
        metavar="LIST",
    ),
    replace(MAX_LATENCY, help="Maximum of the scenario's percentile of the latency (50ms)."),
    Setting(
        "duration_s",
        kinds.above_zero("seconds", 600, kinds.DURATION),
        "Duration of each load with --end-to-end; MLPerf's rules require 10m.",
        f"{LOAD_S:g}s",
        metavar="TIME",
    ),
)
"""Settings of a load."""

THREADS = Setting(
    "threads",
    kinds.counts("threads"),
    "Threads for one operator of an instance: several numbers (1,2).",
    "all that fit",
    metavar="LIST",
)
"""Threads of an instance, of which there may be several numbers."""

PLACES = (
    MAX_LATENCY,
    Setting(
        "require",
        kinds.names_such_as("peak-memory<=500MiB", of="bounds", repeated=True),
        "Upper bound on a quantity (peak-memory<=500MiB, cold-start<=2s; 'dlbricks list plugins' "
        "lists metrics), or with --prompt time-to-first-token and time-per-output-token. May be "
        "given more than once.",
        metavar="QUANTITY<=VALUE",
    ),
    Setting(
        "by",
        Kind(kinds.text, "'latency', 'price', or the name of a quantity, such as 'peak-memory'"),
        "Quantity whose best value comes first: latency, price, or one with a metric, such as "
        "peak-memory ('dlbricks list plugins'); with --prompt also time-to-first-token and "
        "time-per-output-token, with --scenario also throughput.",
        "price with --prices, otherwise latency, or throughput of the scenarios offline and server",
        metavar="QUANTITY",
    ),
    Setting(
        "systems",
        kinds.names_such_as("71bff16a", repeated=True),
        "Only this system: its name ('dlbricks machine list'), the beginning of its fingerprint, "
        "or the name of its processor or its microarchitecture (zen4). A system that only "
        "the atlas has must be named. May be given more than once.",
        "all of the store",
        metavar="SYSTEM",
        spellings=("--system",),
    ),
    Setting(
        "backends",
        kinds.names_such_as("onnxruntime", "pytorch", repeated=True),
        "Only this framework. May be given more than once.",
        "all of the store",
        metavar="NAME",
        spellings=("--backend",),
    ),
)
"""Settings of the places that advice compares, of bounds and of their order."""

FILES = (
    Setting(
        "prices",
        kinds.EXISTING,
        "TOML file with prices of systems. The cheapest comes first, unless --by says otherwise.",
        metavar="FILE",
    ),
    Setting(
        "accuracies",
        kinds.EXISTING,
        "TOML file with accuracies of the MODELs, which then are alternatives for one task.",
        metavar="FILE",
    ),
    Setting(
        "min_accuracy",
        Kind(kinds.number, "a number in the unit of the file", float),
        "Minimum accuracy, in the unit of the file.",
        metavar="NUMBER",
    ),
)
"""Settings of advice on prices and on several models for one task."""

OWN = {each.name: each for each in (*LOAD, THREADS, *PLACES, *FILES)}
"""Settings by name."""
