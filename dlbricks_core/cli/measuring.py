"""Options on how networks are timed, and on estimates, that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.kinds import COUNTS, POSITIVE, SHARE, TIME
from dlbricks_core.cli.options import CommandT, group
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.precision import BUDGET_S, FEWEST, PRECISION, SURVEY_S
from dlbricks_core.figures.protocols import CONDITIONS, PROTOCOLS
from dlbricks_core.workflows import (
    DEFAULT_COMPOSER,
    GENERATE,
    NO_PREDICTOR,
    PREDICTOR,
    PROMPT,
)
from dlbricks_core.workflows.dial.precisions import FINEST, USUAL
from dlbricks_core.workflows.regressing import REGRESSION

answer_options = group(
    click.option(
        "--prompt",
        type=POSITIVE,
        metavar="TOKENS",
        help="Estimate a language model's speed on a prompt of so many tokens: time to first "
        f"token, time per output token.  [default: {PROMPT}, with --generate]",
    ),
    click.option(
        "--generate",
        type=POSITIVE,
        metavar="TOKENS",
        help=f"Output tokens of the answer.  [default: {GENERATE}, with --prompt]",
    ),
)

sizes_options = group(
    answer_options,
    click.option(
        "--sweep",
        "sweeps",
        metavar="NAME=SIZE,SIZE...",
        multiple=True,
        help="Estimate latencies over sizes of an open dimension (sequence=1,128,512); batch means "
        "all batch axes. For language models over prompt, generate, batch, or depth, the "
        "tokens that the cache holds before the prompt. May be given more than once.",
    ),
)

quantity_option = click.option(
    "--quantity",
    default=LATENCY.name,
    metavar="NAME",
    show_default=True,
    help="What to estimate ('dlbricks plugins' lists probes for others).",
)

composer_option = click.option(
    "--composer",
    help=f"How models are cut and latencies joined.  [default: {DEFAULT_COMPOSER}; with -G or "
    "--split the paper's, sequential]",
)

predictor_option = click.option(
    "--predictor",
    metavar="NAME",
    help="What predicts bricks that the store does not hold ('dlbricks plugins' lists predictors); "
    f"{NO_PREDICTOR} leaves them missing.  [default: {PREDICTOR}; {REGRESSION} for quantities "
    "other than latency]",
)

_threads_option = click.option(
    "--threads",
    type=POSITIVE,
    help="Threads for one operator.  [default: physical cores available]",
)

_several_threads_option = click.option(
    "--threads",
    type=COUNTS,
    metavar="LIST",
    help="Threads for one operator; with --scenario several numbers (1,2).  "
    "[default: physical cores available; with --scenario all that fit]",
)


condition_option = click.option(
    "--condition",
    type=click.Choice(CONDITIONS),
    help="Condition of the latencies. Hot: a whole model in a loop of its own, as its user runs "
    "it. Cold: after other networks, with weights from memory.  [default: hot; cold with an option "
    "for bricks alone: a composer, -G, --split, another protocol or quantity]",
)


def _protocol_options_with(
    runs: str, threads: Callable[[Any], Any] = _threads_option
) -> tuple[Callable[[Any], Any], ...]:
    """Options on how networks are timed.

    Args:
        runs: Default number of runs, in words.
        threads: Option for the number of threads.
    """
    return (
        threads,
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default=next(iter(PROTOCOLS)),
            show_default=True,
            help="How networks that run alone are timed.",
        ),
        click.option("--runs", type=POSITIVE, help=f"Runs of each network.  [default: {runs}]"),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Seed of weights and inputs.",
        ),
    )


_RUNS = "100 in the protocol paper, otherwise as many as --precision needs"
_protocol_options = _protocol_options_with(_RUNS)


def _precision_options_with(default: str) -> tuple[Callable[[CommandT], CommandT], ...]:
    """Options of precision and time.

    Args:
        default: Default precision, in words.
    """
    return (
        click.option(
            "--precision",
            type=SHARE,
            metavar="SHARE",
            help="Maximum half-width of all 90% intervals, relative to the figure: networks run "
            f"until it is reached.  [default: {default}]",
        ),
        click.option(
            "--budget",
            "budget_s",
            type=TIME,
            metavar="TIME",
            help="Time after which no round begins (60s, 5m), whatever the precision; where all "
            f"bricks are timed, the first {FEWEST} rounds always run.  [default: {BUDGET_S:g}s "
            "for bricks that are timed alone, unless --runs is given]",
        ),
    )


_precision_options = _precision_options_with(f"{PRECISION:.0%}, unless --runs is given")
_compared_options = _precision_options_with(
    f"{FINEST:.0%}; {PRECISION:.0%} for bricks that are timed alone; unless --runs is given"
)

_backend_settings = click.option(
    "--backend-option",
    "backend_options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Setting of the backend ('dlbricks plugins' lists them).",
)

_backend_option = click.option(
    "--backend", required=True, metavar="NAME", help="Framework to run on."
)

measure_options = group(
    _backend_option,
    _backend_settings,
    *_protocol_options,
    *_precision_options,
)


def fixed_runs_options(default: str) -> Callable[[CommandT], CommandT]:
    """Options for commands with a fixed number of runs, whose backend may be omitted.

    Args:
        default: Default number of runs, in words.
    """
    backend = click.option("--backend", metavar="NAME", help="Framework to run on.")
    return group(backend, _backend_settings, *_protocol_options_with(default))


stored_options = group(
    click.option("--backend", metavar="NAME", help="Framework whose stored latencies to use."),
    _backend_settings,
    *_protocol_options,
)

_each_backend_options = (
    click.option(
        "--backends",
        required=True,
        metavar="NAME,NAME...",
        help="Frameworks to compare, with commas between.",
    ),
    click.option(
        "--backend-option",
        "backend_options",
        metavar="NAME.KEY=VALUE",
        multiple=True,
        help="Setting of one of the backends ('dlbricks plugins' lists them).",
    ),
)

measure_each_options = group(
    *_each_backend_options,
    *_protocol_options_with(_RUNS, _several_threads_option),
    *_compared_options,
    condition_option,
)

verify_options = group(
    *_each_backend_options,
    click.option("--threads", type=POSITIVE, default=1, show_default=True,
                 help="Threads for one operator."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                 help="Seed of weights and inputs."),
    click.option("--tolerance", type=click.FloatRange(min=0), default=1e-3, show_default=True,
                 help="Maximum relative error that counts as agreement."),
    click.option("--reference-timeout", "reference_s", type=click.FloatRange(min=0), default=20.0,
                 show_default=True,
                 help="Seconds that the ONNX reference evaluator may take for a model; where it "
                 "takes longer, the first backend is the reference. 0 leaves it out."),
)  # fmt: skip

survey_options = group(
    click.option("--backend", metavar="NAME", help="Framework to run on."),
    _backend_settings,
    click.option(
        "--threads",
        type=POSITIVE,
        help="Threads for one operator.  [default: physical cores available]",
    ),
    click.option(
        "--budget",
        "budget_s",
        type=TIME,
        metavar="TIME",
        default=f"{SURVEY_S:g}s",
        show_default=True,
        help="Time after which no further network is started (60s, 5m).",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                 help="Seed of networks, weights and inputs."),
)  # fmt: skip

timing_options = group(
    click.option(
        "--force",
        is_flag=True,
        help="Repeat stored measurements; the first new sample of a network replaces them.",
    ),
    click.option("--retry-failed", is_flag=True, help="Repeat failed measurements."),
)

evaluate_options = group(
    _backend_option,
    _backend_settings,
    *_protocol_options,
    *_compared_options,
    condition_option,
    options.cut_options,
    composer_option,
    options.load_options,
)

estimate_options = group(
    measure_options, options.cut_options, composer_option, options.load_options
)


def _several_threads_options_with(
    precision: tuple[Callable[[Any], Any], ...],
) -> Callable[[CommandT], CommandT]:
    """Options of a command that may take several numbers of threads.

    Args:
        precision: Options of precision and time.
    """
    return group(
        _backend_option,
        _backend_settings,
        *_protocol_options_with(_RUNS, _several_threads_option),
        *precision,
        options.cut_options,
        composer_option,
        options.load_options,
    )


known_options = _several_threads_options_with(_precision_options)
run_options = _several_threads_options_with(
    _precision_options_with(
        f"{USUAL:.0%}; {FINEST:.0%} with --budget; {PRECISION:.0%} with an option that times all "
        "bricks: a composer, -G, --split, another protocol or quantity"
    )
)
