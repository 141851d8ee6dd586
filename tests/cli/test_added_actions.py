"""Actions that other distributions add to a command."""

import pytest

SOURCE = """
import click

from dlbricks_core.commands import Command


class Count(Command):
    name = "results.count"
    purpose = "Count stores."
    resumes = True

    def load(self):
        return click.Command("count", callback=lambda: 3)


class Quick(Count):
    name = "estimate.quick"


class Broken(Command):
    name = "results.broken"
"""

POINTS = """
[dlbricks.commands]
results.count = counting:Count
results.broken = counting:Broken
estimate.quick = counting:Quick
"""


@pytest.fixture(autouse=True)
def _installed(monkeypatch, tmp_path, distribution):
    distribution.install(monkeypatch, tmp_path, "counting", SOURCE, POINTS)


def test_an_action_of_another_distribution_runs(dlbricks):
    assert dlbricks("results", "count").status == 3


def test_common_flags_may_precede_its_name(dlbricks):
    done = dlbricks("results", "-q", "count")  # which has no such flag
    assert done.status == 2
    assert done.err.startswith("Usage: dlbricks results count")


def test_help_lists_it_after_ours_and_names_a_broken_one(dlbricks):
    text = " ".join(dlbricks("results", "-h").out.split())
    _, _, added = text.partition("and compare. ")
    broken = "broken Broken: counting:Broken does not define load"
    assert added.startswith(f"{broken} count Count stores. pages ")


def test_a_command_of_one_action_can_get_others(dlbricks):
    assert dlbricks("estimate", "quick").status == 3
    assert "--granularity" in dlbricks("estimate", "models", "--help-all").out


def test_the_list_of_commands_has_no_actions(dlbricks):
    assert "count" not in dlbricks("-h").out
    assert dlbricks("results.count").status == 2


def test_a_broken_one_is_named_when_it_is_used(dlbricks):
    done = dlbricks("results", "broken")
    assert done.status == 2
    assert "command 'results.broken': counting:Broken does not define load" in done.err
