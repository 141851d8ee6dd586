"""The program ``dlbricks``: finds and runs commands, and words their errors."""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem, shell_complete

from dlbricks_core.commands import Command
from dlbricks_core.commands.options.actions import (
    completed_options,
    installed_command,
    listed_purpose,
    refuse_missing,
)
from dlbricks_core.commands.options.spelling import FLAGS, option_of
from dlbricks_core.commands.own import OWN
from dlbricks_core.commands.signals import Interrupted, interruptible
from dlbricks_core.errors import DLBricksError
from dlbricks_core.limits import OWN_TIME
from dlbricks_core.plugins import blamed, discover, names
from dlbricks_core.sanitize import sanitized, shortened, shortened_words, without_secrets
from dlbricks_core.version import __version__
from dlbricks_core.wording import arguments_spelled
from dlbricks_core.worker.memory import OwnTimeError, lacks_memory, limited, own_memory_hint

#: New words for the names that commands had before; they are understood for one release.
RENAMED = {
    "run": ("estimate", "--measure"),
    "evaluate": ("check",),
    "explain": ("check", "layers"),
    "trace": ("check", "trace"),
    "verify": ("compare", "outputs"),
    "inspect": ("show",),
    "analyze": ("show", "repeats"),
    "graph": ("show", "graph"),
    "generate": ("suite", "write"),
    "bench": ("suite", "time"),
    "doctor": ("machine",),
    "calibrate": ("machine", "calibrate"),
    "systems": ("machine",),
    "survey": ("machine", "survey"),
    "store": ("results",),
    "spec": ("results", "record"),
    "rerun": ("results", "repeat"),
    "atlas": ("results", "pages"),
    "models": ("list",),
    "plugins": ("list", "plugins"),
}


_STDIN, _STDOUT, _STDERR = 0, 1, 2
#: Modes for reopening closed streams, so that no other file gets their numbers. Writing to standard
#: output still fails, as it should; invisible errors are dropped.
_MODES = {_STDIN: os.O_RDONLY, _STDOUT: os.O_RDONLY, _STDERR: os.O_WRONLY}


class Stream:
    """A stream that keeps its first failure and ignores later writes.

    Attributes:
        failure: Reason why the stream could not be written; ``None`` if it could.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str | bytes) -> int:
        """Writes a text, or bytes, unless writing has failed before."""
        if self.failure is None:
            try:
                if isinstance(text, str):
                    self._stream.write(text)
                else:
                    self._stream.buffer.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    @property
    def buffer(self) -> Stream:
        """Stream for bytes: this stream as well, so that a failure is kept."""
        return self

    def flush(self) -> None:
        """Flushes the stream, unless writing has failed before."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = error
        # The content of the buffer must go somewhere when the interpreter ends.
        with suppress(OSError), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[Stream]:
    """Replaces standard output and error by safe streams, and yields that of standard output."""
    for number, mode in _MODES.items():
        _open(number, mode)
    before = sys.stdout, sys.stderr
    with _apart(_prepared(sys.stdout, _STDOUT)) as own:
        stdout = Stream(own)
        stderr = Stream(_prepared(sys.stderr, _STDERR))
        sys.stdout, sys.stderr = stdout, stderr
        try:
            yield stdout
        finally:
            stdout.flush()
            stderr.flush()
            sys.stdout, sys.stderr = before


@contextmanager
def _apart(stream: TextIO) -> Iterator[TextIO]:
    """Standard output under a descriptor of its own; descriptor 1 is standard error meanwhile.

    Compiled code of a plugin writes to descriptor 1, which would damage JSON and tables.
    """
    try:
        is_standard = stream.fileno() == _STDOUT
    except (OSError, ValueError):  # a program that calls this one reads what is printed
        is_standard = False
    if not is_standard:
        yield stream
        return
    stream.flush()
    buffering = 1 if stream.isatty() else -1  # in lines, or in blocks
    own = os.fdopen(os.dup(_STDOUT), "w", buffering, stream.encoding, "backslashreplace")
    os.dup2(_STDERR, _STDOUT)
    try:
        yield own
    finally:
        ctypes.CDLL(None).fflush(None)  # what compiled code has printed, and C keeps
        os.dup2(own.fileno(), _STDOUT)
        own.close()


def _open(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    else:
        # Writing waits for a full pipe, in every mode that its reader has set.
        with suppress(OSError):
            os.set_blocking(number, True)


def _prepared(stream: TextIO | None, number: int) -> TextIO:
    """The stream, prepared to write any text in its encoding."""
    if stream is None:
        return open(number, "w", errors="backslashreplace", closefd=False)
    with suppress(AttributeError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream


EXIT_USAGE = 2
#: As the system's sysexits.h and shells number them.
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141


# The interpreter looks for garbage as it ends, which takes a quarter of a short command's time.
atexit.register(gc.freeze)

_FEW_OBJECTS = 50_000
"""New objects after which garbage is looked for: the usual 700 take a seventh of a large import."""

gc.set_threshold(_FEW_OBJECTS)


#: Environment variable by which a shell requests its completion, as click's shells name it.
_COMPLETE = "_DLBRICKS_COMPLETE"

_UNNAMED = ("estimate", "--measure")  #: Words in front of a command line that names no command.

_ORDER = [each.name for each in OWN]


class _Commands(click.Group):
    """All commands that are installed.

    A command line that names none of them estimates models with as few runs as it takes.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_names(), key=_place)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return installed_command(ctx, cmd_name) if cmd_name in _names() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = sorted(discover("command", Command), key=lambda each: _place(each.name))
        rows = [(each.name, listed_purpose(each)) for each in every if "." not in each.name]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = [*takewhile(FLAGS.__contains__, args)]
        known = _names()
        if ctx.resilient_parsing:  # a shell completes what need not be right yet
            words = args[len(flags) :]
            is_named = not words or words[0] in known
            return super().parse_args(ctx, words if is_named else [*_UNNAMED, *words])
        if len(flags) < len(args) and args[len(flags)] in {*known, *RENAMED}:
            args = [args[len(flags)], *flags, *args[len(flags) + 1 :]]
        if args and args[0] not in {*known, "--help", "-h", "--version"}:
            refuse_missing(args[0])
            if args[0] in RENAMED and not Path(args[0]).exists():
                _say(f"Note: 'dlbricks {args[0]}' is 'dlbricks {' '.join(RENAMED[args[0]])}' now.")
                args = [*RENAMED[args[0]], *args[1:]]
            elif args[0].isalpha() and not Path(args[0]).exists():
                raise click.UsageError(f"{args[0]!r} is neither a command nor a model.", ctx)
            else:
                args = [*_UNNAMED, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        return [*found, *completed_options(self, ctx, _UNNAMED[0], incomplete)]


def _names() -> set[str]:
    """Names of the commands, without those of actions that distributions add to a command."""
    return {each for each in names("command") if "." not in each}


def _place(name: str) -> tuple[int, str]:
    """Place of a command in the help text: those of other distributions follow, by name."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="'dlbricks COMMAND --help' shows its options. Exit status: 0 all done; 1 an increase "
    "beyond the limit of 'results compare'; 2 wrong usage, "
    "unreadable input or unwritable output; 3 finished, but something failed (named in the "
    "report); 70 a defect of DLBricks; 130 interrupted; 141 the reader of the output has ended.",
)
@click.version_option(__version__, prog_name="dlbricks")
def cli() -> None:
    """Estimate how fast deep-learning models run on a CPU from a few short layer sequences.

    \b
    dlbricks --backend mxnet                   a set of well-known networks
    dlbricks --backend mxnet a.onnx b.onnx     your own models
    dlbricks show onnx:resnet50                what a model consists of

    A MODEL is a file that an importer reads or COLLECTION:NAME; COLLECTION: alone means
    all of it ('dlbricks list' shows them).
    """  # noqa: D301 - click reads the backspace


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    hide_secrets()
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
    try:
        if instruction := os.environ.get(_COMPLETE):
            return shell_complete(cli, {}, "dlbricks", _COMPLETE, instruction)
        with (
            interruptible(),
            _logging(told),
            arguments_spelled(option_of),
            limited(),
            cli.make_context("dlbricks", list(arguments), obj=told) as context,
        ):
            status: Any = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        _say(f"Interrupted. {told.get('kept', '')}".rstrip())
        return error.status if isinstance(error, Interrupted) else EXIT_INTERRUPTED
    except OwnTimeError as error:
        _say_error(str(error), OWN_TIME.hint)
        return EXIT_USAGE
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
            _say_error("this process ran out of memory", own_memory_hint())
            return EXIT_USAGE
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _say_error(f"{error.filename} is too long for the name of a file", "Check the path.")
            return EXIT_USAGE
        if told_of := blamed(error):
            _say_error(told_of.message, told_of.hint)
            return EXIT_USAGE
        what = f"unexpected {type(error).__name__}: {error}".rstrip(": ")
        _say_error(what, _report(told["verbose"]))
        return EXIT_DEFECT
    return status if isinstance(status, int) else 0


class _LibraryLog(logging.Handler):
    """Prints errors that libraries log, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"{record.levelname.capitalize()}: {record.getMessage()}")


class _OwnLog(logging.Handler):
    """Prints log records of DLBricks, if the user requested them.

    They are tracebacks of failures that do not end a run.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        if self._told["verbose"]:
            _say_lines(record.getMessage())


@contextmanager
def _logging(told: Mapping[str, Any]) -> Iterator[None]:
    """Lets DLBricks log to standard error.

    Args:
        told: Whether the user requested the log, checked for each line.
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
    if isinstance(error, NoArgsIsHelpError):  # its message is the whole help text
        for line in error.format_message().splitlines():
            _say(line)
        return
    context = getattr(error, "ctx", None)
    if context is not None:
        for line in context.get_usage().splitlines():
            _say(line)
        _say(f"Try '{context.command_path} -h' for help.")
        _say("")
    _say_error(
        " ".join(error.format_message().split())
    )  # click lists choices on lines of their own


def _say_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    _say(f"Warning: {message}")


def _say_traceback(error: Exception) -> None:
    _say_lines("".join(traceback.format_exception(error)))


def _say_lines(text: str) -> None:
    """Prints lines of a log. A name in them may hold a line that looks like an error: indented."""
    for line in text.splitlines():
        _say(f"  {line}")


def _say_error(message: str, hint: str = "") -> None:
    _say(f"Error: {message}")
    if hint:
        _say(f"Hint: {hint}")


_LONGEST_LINE = 2000
"""Maximum characters of a line: a file may have as many names as a hint would list."""


def _say(text: str) -> None:
    line = shortened(shortened_words(without_secrets(text)), _LONGEST_LINE)
    sys.stderr.write(f"{sanitized(line)}\n")


_BEGIN, _END = 45, 46
"""Places of the command line's first byte and end in ``/proc/self/stat``, after the name."""


def hide_secrets() -> None:
    """Overwrites passwords of database URLs in what ``ps`` shows of this process.

    Only Linux has this; elsewhere nothing changes.
    """
    if all(without_secrets(each) == each for each in sys.argv):
        return
    with suppress(OSError):
        numbers = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        begin, end = int(numbers[_BEGIN]), int(numbers[_END])
        with Path("/proc/self/mem").open("r+b", 0) as memory:
            memory.seek(begin)
            words = memory.read(end - begin).split(b"\0")
            memory.seek(begin)
            memory.write(b"\0".join(map(_hidden, words)))


def _hidden(word: bytes) -> bytes:
    """A word of a command line without its passwords, of the same length."""
    text = os.fsdecode(word)
    shown = without_secrets(text)
    return word if shown == text else os.fsencode(shown)[: len(word)].ljust(len(word))
