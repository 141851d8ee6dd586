"""Groups of options on how networks are timed, and on estimates, that several commands share."""

from __future__ import annotations

from dlbricks_core.commands.options.settings import (
    ANSWER,
    BESIDE_A_FILE,
    COMPARED_PRECISION,
    CUT,
    PRECISE,
    READING,
    REPEATING,
    SETUP,
    TIMED,
    option,
    options,
)
from dlbricks_core.estimation.adaptive.precisions import FINEST, USUAL
from dlbricks_core.figures.precision import PRECISION

answer_options = options(*ANSWER)
sizes_options = options(*ANSWER, "pictures", "sweeps")
quantity_option = option("quantity")
predictor_option = option("predictor")
condition_option = option("condition")

setup_options = options(*SETUP, "threads", *TIMED)
measure_options = options(*SETUP, "threads", *TIMED, *PRECISE)
timing_options = options(*REPEATING)
_ESTIMATED = (*SETUP, "threads", *TIMED, *PRECISE, *CUT, "composer", *READING)
estimate_options = options(*_ESTIMATED)
estimate_options_beside_a_file = options(*_ESTIMATED, **BESIDE_A_FILE)

stored_options = options(
    *(*SETUP, "threads", "protocol", "runs"),
    backend={"required": False, "help": "Framework whose stored latencies to use."},
)

run_options = options(
    *(*SETUP, "threads_by_phase", *TIMED, *PRECISE, *CUT, "composer", *READING),
    precision={
        "default": f"{USUAL:.0%}; {FINEST:.0%} with --budget; {PRECISION:.0%} with an option that "
        "times all bricks: a composer, -G, --split, another protocol or quantity"
    },
)

evaluate_options = options(
    *(*SETUP, "threads", *TIMED, *PRECISE, "condition", *CUT, "composer", *READING),
    precision={"default": COMPARED_PRECISION},
)

OF_EACH = {
    "metavar": "NAME.KEY=VALUE",
    "help": "Setting of one of the backends ('dlbricks list plugins' lists them).",
}
