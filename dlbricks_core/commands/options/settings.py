"""Settings of users: the one table for options of commands and arguments of the API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.commands.options import kinds
from dlbricks_core.commands.options.kinds import FLAG, SEED, Kind
from dlbricks_core.commands.options.workload import TASKS
from dlbricks_core.compose.options import DEFAULT_COMPOSER
from dlbricks_core.estimation.defaults import FINEST, GENERATE, PROMPT, REGRESSION
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.precision import BUDGET_S, FEWEST, PRECISION
from dlbricks_core.figures.protocols import CONDITIONS, PROTOCOLS, TIMEOUT_S
from dlbricks_core.passes.convert import CONVERSIONS
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.preferences import BUSY, NAMES, preferred, variable

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

IMPORT_TIMEOUT_S = 600.0
"""Default maximum time in seconds to import a model: exporting a large model takes minutes."""

MODEL_OUTPUT = "--model-output"

_UNITS = ("_ms", "_s")
"""Suffixes of names whose values have a unit; users type the unit with the value."""


@dataclass(frozen=True)
class Setting:
    """A setting of users: an option of commands and an argument of the API."""

    name: str  #: Name in Python, of the argument and of the option's value.
    kind: Kind  #: Kind of the values.
    help: str = ""  #: Help text of the option, without the default.
    #: Default in words, if the library chooses it; a function if the words come from modules that
    #: take long to import.
    default: str | Callable[[], str] = ""
    #: Default value of the option, shown in the help; an ellipsis for no default value.
    value: Any = ...
    metavar: str | None = None  #: Placeholder of the option's value.
    #: Spellings of the option, the spelling for messages first. Empty if the name gives the
    #: spelling.
    spellings: tuple[str, ...] = ()
    required: bool = False  #: Whether the library has no default.

    @property
    def spelling(self) -> str:
        """The option in messages."""
        return self.spellings[0].partition("/")[0] if self.spellings else spelled(self.name)

    def option(self) -> Callable[[CommandT], CommandT]:
        """A decorator that adds the option to a command."""
        default = self.default if isinstance(self.default, str) else self.default()
        more: dict[str, Any] = {"is_flag": True} if self.kind.flag else {"type": self.kind.text}
        is_preferred = self.required and self.name in NAMES
        if is_preferred:
            more["callback"] = _or_preferred
        if self.value is not ...:
            more |= {"default": self.value, "show_default": self.value is not None}
            if self.name in NAMES:
                more |= {"default": self._preferred, "show_default": False}
                default = f"{variable(self.name)}, or {self.value}"
        return click.option(
            *(self.spellings or (self.spelling,)),
            self.name,
            metavar=self.metavar,
            multiple=self.kind.repeated,
            required=self.required and not is_preferred,
            help=f"{self.help}  [default: {default}]" if default else self.help,
            **more,
        )

    def _preferred(self) -> Any:
        return preferred(self.name) or self.value


def _or_preferred(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """The value of a required option, or else the user's preference."""
    if value is None and not context.resilient_parsing:
        value = preferred(str(option.name))
        if value is None:
            raise click.MissingParameter(ctx=context, param=option)
    return value


def spelled(name: str) -> str:
    """Spelling of an option by its name: without the unit, with hyphens."""
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return f"--{name.replace('_', '-')}"


def group(*decorators: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """A decorator that adds several options in this order."""

    def decorate(command: CommandT) -> CommandT:
        return functools.reduce(lambda f, option: option(f), reversed(decorators), command)

    return decorate


def option(setting: str | Setting, **differences: Any) -> Callable[[CommandT], CommandT]:
    """A decorator that adds the option of a setting to a command.

    Args:
        setting: Key of the setting in the table, or a setting of another distribution.
        **differences: Attributes that differ for this command.
    """
    found = SETTINGS[setting] if isinstance(setting, str) else setting
    return replace(found, **differences).option()


def options(
    *settings: str | Setting, **differences: Mapping[str, Any]
) -> Callable[[CommandT], CommandT]:
    """A decorator that adds the options of several settings to a command.

    Args:
        *settings: Keys of the settings in the table, or settings of another distribution.
        **differences: Attributes that differ for this command, by the key or the setting's name.
    """
    names = [each if isinstance(each, str) else each.name for each in settings]
    each_option = (
        option(each, **differences.get(name, {}))
        for each, name in zip(settings, names, strict=True)
    )
    return group(*each_option)


SETTINGS: Mapping[str, Setting] = {
    # Framework
    "backend": Setting(
        "backend",
        kinds.name_of("a backend", "onnxruntime"),
        "Framework to run on.",
        f"{variable('backend')}, or backend in the file of preferences",
        metavar="NAME",
        required=True,
    ),
    "backends": Setting(
        "backends",
        kinds.names_such_as("onnxruntime", "pytorch"),
        "Frameworks to compare, with commas between.",
        metavar="NAME,NAME...",
        required=True,
    ),
    "backend_options": Setting(
        "backend_options",
        Kind(
            kinds.by_name(lambda options: options),
            "options by backend, such as {'mxnet': {'engine': 'naive'}}",
            repeated=True,
        ),
        "Setting of the backend ('dlbricks list plugins' lists them).",
        metavar="KEY=VALUE",
        spellings=("--backend-option",),
    ),
    # How networks are timed
    "threads": Setting(
        "threads",
        kinds.whole("threads"),
        "Threads for one operator.",
        f"{variable('threads')}, or the physical cores available",
    ),
    "threads_by_phase": Setting(
        "threads",
        kinds.THREADS,
        "Threads for one operator; prompt=8,token=4 sets each phase of an answer.",
        f"{variable('threads')}, or the physical cores available",
        metavar="NUMBER",
    ),
    "protocol": Setting(
        "protocol",
        kinds.name_of("a protocol", "interleaved", click.Choice(list(PROTOCOLS))),
        "How networks that run alone are timed.",
        value=next(iter(PROTOCOLS)),
    ),
    "runs": Setting(
        "runs",
        kinds.whole("runs"),
        "Runs of each network.",
        "100 in the protocol paper, otherwise as many as --precision needs",
    ),
    "seed": Setting("seed", SEED, "Seed of weights and inputs.", value=0),
    "precision": Setting(
        "precision",
        Kind(kinds.number, "a share of the latency, such as 0.01 for 1%", kinds.SHARE),
        "Maximum half-width of the 90% intervals, relative to the figure (1% or 0.01). Networks "
        "run until all intervals are this narrow.",
        f"{PRECISION:.0%}, unless --runs is given",
        metavar="SHARE",
    ),
    "budget_s": Setting(
        "budget_s",
        kinds.above_zero("seconds", 60, kinds.TIME),
        "Time after which no round begins (60s, 5m), whether the precision is reached or not. "
        f"Where all bricks are timed, the first {FEWEST} rounds always run.",
        f"{BUDGET_S:g}s for bricks that are timed alone, unless --runs is given",
        metavar="TIME",
    ),
    "condition": Setting(
        "condition",
        kinds.one_of(CONDITIONS),
        "Condition of the latencies. Hot: a whole model in a loop of its own, as its user runs it. "
        "Cold: after other networks, with weights from memory.",
        "hot; cold with an option for bricks alone: a composer, -G, --split, another protocol or "
        "quantity",
    ),
    "quantity": Setting(
        "quantity",
        kinds.name_of("a quantity", "load-time"),
        "Quantity to estimate ('dlbricks list plugins' lists all).",
        value=LATENCY.name,
        metavar="NAME",
    ),
    "timeout_s": Setting(
        "timeout_s",
        kinds.above_zero("seconds", 120, click.FloatRange(min=0, min_open=True)),
        "Maximum time in seconds to import a model, and to load a network or to run it once.",
        f"{IMPORT_TIMEOUT_S:g} and {TIMEOUT_S:g}",
    ),
    "force": Setting(
        "force",
        FLAG,
        "Repeat stored measurements; the first new sample of a network replaces them.",
    ),
    "retry_failed": Setting("retry_failed", FLAG, "Repeat failed measurements."),
    "busy": Setting(
        "busy",
        kinds.one_of(BUSY),
        "Behaviour if other programs use the CPUs before the first round: wait for quiet, a minute "
        "at most, or accept a busy machine, with exit status 0 even for doubtful figures.",
        value=BUSY[0],
    ),
    "measure": Setting("measure", FLAG),
    "end_to_end": Setting("end_to_end", FLAG),
    # How models are cut, and estimated without runs
    "granularity": Setting(
        "granularity",
        kinds.whole("layers"),
        "Maximum number of layers in a brick. Selects the paper's sum of chains unless a composer "
        "is named.",
        spellings=("-G", "--granularity"),
    ),
    "split": Setting(
        "split",
        kinds.name_of("a split strategy", "chain", click.Choice(list(STRATEGIES))),
        "How models are cut.",
    ),
    "composer": Setting(
        "composer",
        kinds.name_of("a composer", "segmented"),
        "How models are cut and latencies joined.",
        f"{DEFAULT_COMPOSER}; with -G or --split the paper's, sequential",
    ),
    "predictor": Setting(
        "predictor",
        kinds.name_of("a predictor", "atlas"),
        "Predictor of bricks that the store lacks ('dlbricks list plugins'); none leaves "
        "them missing.",
        f"{PREDICTOR}; {REGRESSION} for quantities other than latency",
        metavar="NAME",
    ),
    "system": Setting(
        "system",
        Kind(kinds.text, "the name of a machine, or the start of its fingerprint"),
        "Estimate for another system in the store or the reference data: its name, the start "
        "of its fingerprint ('dlbricks machine list' shows both), or its microarchitecture (zen4).",
        metavar="SYSTEM",
    ),
    "systems": Setting("systems", kinds.names_such_as("lab", "71bff16a"), spellings=("--system",)),
    "results": Setting(
        "results",
        replace(kinds.PATH, repeated=True),
        "Estimate from a file that 'dlbricks suite time --results' wrote, instead of a store. May "
        "be given more than once.",
        metavar="FILE",
    ),
    "store": Setting(
        "store",
        Kind(kinds.store, "a path, a URL or an open store"),
        "Result store: a path, or the URL of a PostgreSQL database "
        "(postgresql+psycopg://user@host/database).",
        f"{variable('store')}, or a file in the user's data folder",
        metavar="PATH_OR_URL",
    ),
    # How models are read, and at which sizes
    "models": Setting("models", kinds.names_such_as("onnx:", of="paths, models and collections")),
    "batch": Setting(
        "batch",
        Kind(kinds.at_least(0), "a whole number, 0 or more", kinds.POSITIVE),
        "Size of dynamic batch axes.",
    ),
    "batches": Setting("batch", kinds.sizes_of("requests")),
    "dims": Setting(
        "dims",
        kinds.mapping("sizes", "{'sequence': 128}", kinds.at_least(0)),
        "Size of a dynamic dimension (seq=128, data.2=224), or an input's whole shape "
        "(data=1x3x224x224), of all models that have it, or of one (net:data=1x3x224x224). May be "
        "given more than once.",
        metavar="NAME=SIZE",
        spellings=("--dim",),
    ),
    "shapes": Setting(
        "shapes",
        kinds.mapping("shapes", "{'data': (1, 3, 224, 224)}", kinds.shape),
        spellings=("--dim",),
    ),
    "values": Setting(
        "values",
        kinds.mapping("numbers", "{'sample_rate': 16000}", kinds.constant),
        "Constant value of an input that decides branches or sizes (sample_rate=16000, "
        "crop=1,3,224, or none to leave out an optional input). May be given more than once.",
        metavar="INPUT=NUMBERS",
        spellings=("--value",),
    ),
    "outputs": Setting(
        "outputs",
        kinds.names_such_as("logits", of="outputs", repeated=True),
        "Output to keep, in all models or in one (net:logits): layers that only other outputs need "
        "are dropped before cutting. May be given more than once.",
        "all",
        metavar="NAME",
        # Some commands write to a file that is called --output.
        spellings=("--output", MODEL_OUTPUT),
    ),
    "fold_batchnorm": Setting(
        "fold_batchnorm", FLAG, "Fold BatchNormalization into the layer before it."
    ),
    "dtype": Setting(
        "dtype",
        kinds.name_of("an element type", "bfloat16"),
        f"Convert models to another element type: {', '.join(CONVERSIONS)}, or a type of "
        "the backend's own. Layers that ONNX does not define in this type keep float32.",
        metavar="NAME",
    ),
    "reimport": Setting("reimport", FLAG, "Import models again, even if they are in the cache."),
    "sources": Setting(
        "sources", Kind(kinds.by_name(kinds.text), "sources by name"), spellings=("--source",)
    ),
    "prompt": Setting(
        "prompt",
        kinds.sizes_of("tokens", kinds.POSITIVE),
        "Estimate a language model's speed on a prompt of this many tokens: time to first token, "
        "time per output token.",
        f"{PROMPT}, with {spelled('generate')}",
        metavar="TOKENS",
    ),
    "generate": Setting(
        "generate",
        kinds.sizes_of("tokens", kinds.POSITIVE),
        "Output tokens of the answer.",
        f"{GENERATE}, with {spelled('prompt')}",
        metavar="TOKENS",
    ),
    "task": Setting(
        "task",
        kinds.one_of(TASKS),
        "Prompt and output tokens of a category of MLPerf Client, unless they are given: "
        f"{', '.join(TASKS)}.",
        metavar="NAME",
    ),
    "pictures": Setting(
        "pictures",
        kinds.PICTURES,
        "Pictures in each prompt, beside its text: 2, or 2x640x480 with width and height (640x480 "
        "is usual). The model's configuration says how many tokens each has.",
        metavar="NUMBER",
    ),
    "depth": Setting("depth", kinds.sizes_of("tokens")),
    "axes": Setting("axes", kinds.mapping("sizes", "{'sequence': [1, 128, 512]}", kinds.points)),
    "sweeps": Setting(
        "sweeps",
        kinds.mapping("sizes", "{'sequence': [1, 128, 512]}", kinds.points),
        "Estimate latencies over sizes of an open dimension (sequence=1,128,512), or of several "
        "together (batch,sequence=1x128,8x32); batch means all batch axes. For language models: "
        "over prompt, generate, batch, or depth (tokens in the cache before the prompt). May be "
        "given more than once.",
        metavar="NAME=SIZE,SIZE...",
        spellings=("--sweep",),
    ),
}
"""Settings of the API, and of more than one command, by a key: the setting's name, or another name
if two settings have the same name.
"""

SETUP = ("backend", "backend_options")
TIMED = ("protocol", "runs", "seed")
PRECISE = ("precision", "budget_s")
CUT = ("granularity", "split")
READING = (
    *("batch", "dims", "values", "outputs", "fold_batchnorm", "dtype", "timeout_s", "reimport"),
)
IMPORTED = {
    "timeout_s": {
        "help": "Maximum time in seconds to import a model.",
        "default": f"{IMPORT_TIMEOUT_S:g}",
    }
}
"""Differences of :data:`READING` for commands that run no model."""
RUN = {
    "timeout_s": {
        "help": "Maximum time in seconds to load a network, and to run it once.",
        "default": f"{TIMEOUT_S:g}",
    }
}
"""Differences of a time limit for commands that read no model."""
BESIDE_A_FILE = {"outputs": {"spellings": (MODEL_OUTPUT,)}}
"""Differences of :data:`READING` for commands that write to a file ``--output``."""
REPEATING = ("force", "retry_failed", "busy")
ANSWER = ("prompt", "generate", "task")

COMPARED_PRECISION = (
    f"{FINEST:.0%}; {PRECISION:.0%} for bricks that are timed alone; unless --runs is given"
)
"""Default precision of commands that measure all whole models, in words."""
