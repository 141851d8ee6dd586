"""An option without an effect is an error, not silence."""

import re

import click
import dlbricks_suite
import pytest
from dlbricks_accuracy.command import command as check
from dlbricks_compare import command as compare
from dlbricks_graph import command as graph
from dlbricks_private.command import command as private
from dlbricks_serving.commands import serve
from dlbricks_study.command import command as study
from dlbricks_suite import command as suite
from dlbricks_survey import calibration_command as machine
from dlbricks_survey.command import command as survey

from dlbricks_core.commands.estimate.actions import command as estimate
from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.errors import DLBricksError
from dlbricks_core.wording import arguments_spelled

ON = ("--backend", "onnxruntime")
BOTH = ("--backends", "onnxruntime,pytorch")
UNDER_LOAD = ("--scenario", "offline")

REFUSED = [
    (estimate, ("a", *ON, "--seed", "0"), "--seed needs --measure: nothing runs without it"),
    (estimate, ("a", *ON, "--budget", "9s"), "--budget needs --measure: nothing runs without it"),
    (estimate, ("a", *ON, "--measure", "--system", "b"), "--system is for estimates that run"),
    (check, ("a", *ON, "--budget", "9s"), "--budget is for bricks that are timed"),
    (compare.command, ("a", *BOTH, "--budget", "9s"), "--budget is for bricks that are"),
    (suite.write_command, ("a", "-o", "f", "--seed", "1"), "--seed is for bricks: structures of"),
    (machine.calibrate_command, ("--forget", *ON, "--runs", "3"), "fits nothing: leave out --runs"),
    (machine.calibrate_command, ("--probes", "1", *ON, "-G", "1"), "fits nothing: leave out -G"),
    (machine.calibrate_command, ("--probes", "1", *ON, "--batch", "2"), "effect without a MODEL"),
    (survey, ("--pack", "f", "--seed", "0"), "times nothing: leave out --seed"),
    (survey, ("--extend", *ON), "packed without --pack: leave out --extend"),
    (study, ("--from", "f", "--seed", "0"), "--from measures nothing: leave out --seed"),
    (study, ("a", *ON, "--quick", "--runs", "3"), "--quick and --runs contradict each other"),
    *(
        (graph.command, ("a", "-o", "f.svg", name, "1"), f"is named: leave out {name}")
        for name in ("--threads", "--runs", "--system", "--store")
    ),
    *(
        (command, ("a", *of, *UNDER_LOAD, *option), f"No such option '{option[0]}'")
        for command, of in [(serve.command, ON), (serve.compare_command, BOTH)]
        for option in [("--runs", "3"), ("--precision", "1%"), ("--budget", "9s"),
                       ("--retry-failed",)]
    ),
    (private, ("generate", "a", "-o", "f", "--decoys", "0", "--decoys-from", "b"), "is for decoys"),
    (serve.command, ("a", *ON, *UNDER_LOAD, "--force"), "--force needs --measure"),
    (graph.command, ("a", "-o", "f.svg", *ON, "--seed", "0"), "No such option '--seed'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    REFUSED,
    ids=[f"{command.name} {' '.join(words)}" for command, words, _ in REFUSED],
)
def test_an_option_without_an_effect_is_refused_by_name(command, arguments, message):
    refused = pytest.raises((DLBricksError, click.UsageError), match=re.escape(message))
    with arguments_spelled(option_of), refused:
        command.main(list(arguments), standalone_mode=False)


def test_bricks_of_a_suite_are_timed_in_the_cold(tmp_path):
    how = {"backend": "onnxruntime", "results": tmp_path / "r"}
    with pytest.raises(DLBricksError, match="bricks that are timed alone are not hot"):
        dlbricks_suite.bench(tmp_path, condition="hot", **how)
