"""Help texts of all commands show few options."""

import re
from collections.abc import Iterator

import click
import pytest

from dlbricks_core.commands.command import Command
from dlbricks_core.commands.options.actions import MAX_SHOWN, Concise
from dlbricks_core.plugins import discover


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command, or those of a group, with the words that users type."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        yield from commands(f"{name} {each}", command.get_command(context, each))


ALL = dict(
    found
    for plugin in discover("command", Command)
    for found in commands(plugin.name.replace(".", " "), plugin.loaded().load())
)


@pytest.mark.parametrize("name", ALL)
def test_help_shows_few_options_and_all_on_request(name):
    command = ALL[name]
    shown = click.Context(command, info_name=name).get_help().partition("\nOptions:\n")[2]
    options = re.findall(r"^  (-.*)$", shown, re.MULTILINE)
    assert 0 < len(options) <= MAX_SHOWN, "more names belong into _RAREST_FIRST"
    options_of = [each for each in command.params if isinstance(each, click.Option)]
    every = {each.name for each in options_of if not each.hidden}
    assert len(options) == len(every) + 1 or "--help-all" in shown
    required = [each for each in options_of if each.required]
    assert all(each.opts[0] in shown for each in required), "a required option is left out"


@pytest.mark.parametrize("name", ALL)
def test_every_command_shows_all_options_on_request(name):
    command = ALL[name]
    if not isinstance(command, Concise):
        pytest.skip("a command of another kind")
    with pytest.raises(click.exceptions.Exit) as ended:
        command.make_context(name, ["--help-all"])
    assert ended.value.exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("show layers", "import a model. [default: 600]"),
     ("suite time", "to load a network, and to run it once. [default: 120]"),
     ("compare outputs", "import a model, and to load a network or to run it once.")],
)  # fmt: skip
def test_a_time_limit_is_on_what_the_command_does(name, said):
    (option,) = (each for each in ALL[name].params if each.name == "timeout_s")
    _, words = option.get_help_record(click.Context(ALL[name]))
    assert said in " ".join(words.split())
