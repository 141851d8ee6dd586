"""Entry point of the command ``dlbricks``."""

from __future__ import annotations

import atexit
import gc
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli.signals import Interrupted, interruptible
from dlbricks_core.cli.spelling import FLAGS, option_of
from dlbricks_core.cli.streams import standard_streams
from dlbricks_core.commands import Command
from dlbricks_core.commands.own import ORDER
from dlbricks_core.errors import DLBricksError
from dlbricks_core.harmless import harmless, without_secrets
from dlbricks_core.plugins import blamed, discover, find, names, use
from dlbricks_core.version import __version__
from dlbricks_core.wording import arguments_spelled
from dlbricks_core.worker.memory import lacks_memory, memory_hint

#: Environment variables during the import of a command that predicts. Predictions use many small
#: matrices, for which the threads of numpy's BLAS wait longer than they compute: tens of times as
#: long where other programs use the cores. Workers do not inherit these variables.
_WHILE_IMPORTED = {"OPENBLAS_NUM_THREADS": "1"}

EXIT_USAGE = 2
#: As the system's sysexits.h and shells number them.
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141


# The interpreter looks for garbage as it ends, which takes a quarter of a short command's time.
atexit.register(gc.freeze)


class _Commands(click.Group):
    """All commands that are installed. A command line that names none of them means ``run``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(names("command"), key=_place)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in names("command"):
            return None
        plugin = find("command", cmd_name, Command)
        found: Command = use(plugin, plugin.loaded)
        with _variables(_WHILE_IMPORTED if found.predicts else {}), _no_collections():
            command = use(plugin, found.load)
            if found.predicts:  # scipy has a BLAS of its own, which it loads late
                importlib.import_module("scipy.linalg")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = sorted(discover("command", Command), key=lambda each: _place(each.name))
        rows = [
            (each.name, f"Broken: {each.problem}" if each.problem else each.loaded.purpose)
            for each in every
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = [*takewhile(FLAGS.__contains__, args)]
        known = names("command")
        if len(flags) < len(args) and args[len(flags)] in known:
            args = [args[len(flags)], *flags, *args[len(flags) + 1 :]]
        if args and args[0] not in {*known, "--help", "-h", "--version"}:
            if args[0].isalpha() and not Path(args[0]).exists():
                raise click.UsageError(f"{args[0]!r} is neither a command nor a model.", ctx)
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _place(name: str) -> tuple[int, str]:
    """Place of a command in the help text: those of other distributions follow, by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="'dlbricks COMMAND --help' tells more. Exit status: 0 all done; 2 wrong usage, "
    "unreadable input or unwritable output; 3 finished, but something failed (named in the "
    "report); 70 a defect of DLBricks; 130 interrupted; 141 nobody reads the output.",
)
@click.version_option(__version__, prog_name="dlbricks")
def cli() -> None:
    """Estimate how fast deep-learning models run on a CPU from a few short layer sequences.

    \b
    dlbricks --backend mxnet                   a set of well-known networks
    dlbricks --backend mxnet a.onnx b.onnx     your own models
    dlbricks inspect onnx:resnet50             what a model consists of

    A MODEL is a file that an importer reads or COLLECTION:NAME; COLLECTION: alone means
    all of it ('dlbricks models' lists them).
    """  # noqa: D301 - click reads the backspace


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    arguments = sys.argv[1:] if argv is None else argv
    with standard_streams() as output, warnings.catch_warnings():
        warnings.showwarning = _say_warning
        logging.lastResort = _LibraryLog(logging.ERROR)
        status = _run(arguments)
        output.flush()
        if output.failure is not None:
            status = _unwritten(output.failure)
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    """Runs the command line and returns its exit status. It prints errors and raises none."""
    # Once the command line is parsed, its option -v decides this, wherever it stands.
    told: dict[str, Any] = {"verbose": not {"-v", "--verbose"}.isdisjoint(arguments)}
    context: click.Context | None = None
    try:
        with (
            interruptible(),
            _logging(told),
            arguments_spelled(option_of),
            cli.make_context("dlbricks", list(arguments), obj=told) as context,
        ):
            status: Any = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        _say(f"Interrupted. {_kept(told, context)}".rstrip())
        return error.status if isinstance(error, Interrupted) else EXIT_INTERRUPTED
    except click.ClickException as error:
        _say_usage(error)
        return error.exit_code
    except DLBricksError as error:
        if told["verbose"]:
            _say_traceback(error)
        _say_error(error.message, error.hint)
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the border: nobody else can tell it
        if told["verbose"]:
            _say_traceback(error)
        if lacks_memory(error):
            _say_error("this process ran out of memory", memory_hint())
            return EXIT_USAGE
        if told_of := blamed(error):
            _say_error(told_of.message, told_of.hint)
            return EXIT_USAGE
        what = f"unexpected {type(error).__name__}: {error}".rstrip(": ")
        _say_error(what, _report(told["verbose"]))
        return EXIT_DEFECT
    return status if isinstance(status, int) else 0


def _kept(told: Mapping[str, Any], context: click.Context | None) -> str:
    """A sentence on the results that an interrupted command has kept."""
    name = context.invoked_subcommand if context is not None else None
    if name and find("command", name, Command).loaded.resumes:
        return "What was measured is in the store; run it again to go on."
    return str(told.get("kept", ""))


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables that the user has not set, for as long as the context lasts."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collects no garbage for as long as the context lasts: imports make much, and leave little.

    Nor is it looked for later in what they leave, which stays until the end.
    """
    before, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        if before:
            gc.enable()


class _LibraryLog(logging.Handler):
    """Prints errors that libraries log, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"{record.levelname.capitalize()}: {record.getMessage()}")


class _OwnLog(logging.Handler):
    """Prints log records of DLBricks, if the user asked for them.

    They are tracebacks of failures that do not end a run.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        if self._told["verbose"]:
            for line in record.getMessage().splitlines():
                _say(line)


@contextmanager
def _logging(told: Mapping[str, Any]) -> Iterator[None]:
    """Lets DLBricks log to standard error.

    Args:
        told: Whether the user asked for the log, checked for each line.
    """
    logger, handler = logging.getLogger("dlbricks_core"), _OwnLog(told)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def _unwritten(failure: OSError) -> int:
    """Prints that standard output could not be written, and returns the exit status."""
    if isinstance(failure, BrokenPipeError):  # the reader of the pipe has seen enough
        return EXIT_PIPE
    _say_error(
        f"standard output cannot be written: {failure.strerror}", "Redirect it to another file."
    )
    return EXIT_USAGE


def _report(verbose: bool) -> str:
    more = "the lines above" if verbose else "what -v adds"
    return f"This is a defect of DLBricks {__version__}: report it with the command and {more}."


def _say_usage(error: click.ClickException) -> None:
    context = getattr(error, "ctx", None)
    if context is not None:
        for line in context.get_usage().splitlines():
            _say(line)
        _say(f"Try '{context.command_path} -h' for help.")
        _say("")
    _say_error(error.format_message())


def _say_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    _say(f"Warning: {message}")


def _say_traceback(error: Exception) -> None:
    for line in "".join(traceback.format_exception(error)).splitlines():
        _say(line)


def _say_error(message: str, hint: str = "") -> None:
    _say(f"Error: {message}")
    if hint:
        _say(f"Hint: {hint}")


def _say(text: str) -> None:
    sys.stderr.write(f"{harmless(without_secrets(text))}\n")
