"""Commands in processes that are forked from a warm one, within 2 GB and 60 s.

A new interpreter that imports a framework would take seconds for each input, and a fork tens of
milliseconds: it copies the page tables of all that is loaded, and ends with all of it again.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import FileIO, StringIO
from pathlib import Path

import fuzz_programs
from fuzzing.drawn import SECONDS, TIMED_OUT, Files, Input, Outcome, Reader

from dlbricks_core.cli.main import cli
from dlbricks_core.machine.load import LoadSampler
from dlbricks_core.worker import child, memory, process
from dlbricks_core.worker.memory import as_given

BYTES = 2 << 30
_POLL_S = 0.002
_ENDING_S = 1.0
"""Seconds within which a process ends that has closed its pipe."""

_STATUS = struct.Struct("i")
_LET_THROUGH = 99
"""Status of a command whose exception :func:`~dlbricks_core.cli.main.main` let through."""

_PLACE = tempfile.gettempdir()
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPROF)


def warm(reader: Reader) -> None:
    """Loads the modules of a reader's commands into this process, and forks workers from it."""
    for name in reader.warm:
        importlib.import_module(name)
    if reader.entry is Reader.entry:
        for command in reader.commands:
            context = cli.make_context("dlbricks", ["--help"], resilient_parsing=True)
            cli.get_command(context, command.split()[0])
    process._start = _forked
    LoadSampler._used = lambda self: None  # the machine may be busy
    memory.available = cache(memory.available)  # files of control groups take a tenth of the time
    memory.available()
    if reader.bases and reader.rehearsed:
        _rehearse(reader)
    gc.collect()
    gc.freeze()


def _rehearse(reader: Reader) -> None:
    """Runs each command once in this process: modules that it imports late are loaded then."""
    models = importlib.import_module("dlbricks_core.importers.models")
    importing, here = models.import_worker, Path.cwd()
    if reader.imports:
        models.import_worker = _InProcess
    for command in reader.commands:
        with _folder() as name:
            _lay_out(reader, Path(name), Input(0, () if reader.sound else (1, 2, 3), 0))
            _settle(Path(name))
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
                reader.entry(command.split())
            os.chdir(here)
    models.import_worker = importing
    os.environ["TMPDIR"] = tempfile.tempdir = _PLACE


def _settle(folder: Path) -> None:
    """Lets the folder be the one of all that a command reads and writes."""
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["HOME"] = os.environ["XDG_DATA_HOME"] = os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = str(folder)


def _lay_out(reader: Reader, folder: Path, drawn: Input) -> Files:
    """Writes the mutated files to a folder."""
    files = drawn.files(reader)
    if reader.name == "pt2":
        fuzz_programs.archive(folder / "net.pt2", files)
    else:
        write(folder, files)
    return files


def run(reader: Reader, drawn: Input) -> tuple[Outcome, Files]:
    """Outcome of the command on the files in a process of its own, and the files."""
    with _folder() as name:
        files = _lay_out(reader, Path(name), drawn)
        return outcome(reader, reader.commands[drawn.command], Path(name)), files


def outcome(reader: Reader, command: str, folder: Path) -> Outcome:
    """Outcome of a command in a folder."""
    return _outcomes(reader, [(command, folder)])[0]


def run_together(reader: Reader, inputs: Sequence[Input]) -> list[Outcome]:
    """Outcomes of inputs that processes take one after the other.

    An input that ends its process is the last one of it, and another process takes the others.
    An outcome that is wrong may be the doing of the inputs before it: :func:`run` tells.
    """
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(_folder())) for _ in inputs]
        for folder, each in zip(folders, inputs, strict=True):
            _lay_out(reader, folder, each)
        commands = [reader.commands[each.command] for each in inputs]
        return _outcomes(reader, list(zip(commands, folders, strict=True)))


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dlbricks-fuzz-", dir=_PLACE)


def _outcomes(reader: Reader, given: Sequence[tuple[str, Path]]) -> list[Outcome]:
    """Outcome of each command in its folder."""
    found: list[Outcome] = []
    while left := given[len(found) :]:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _become(reader, left, writing)
        os.close(writing)
        begin = time.monotonic()
        with os.fdopen(reading, "rb", 0) as line:
            for _, folder in left:
                if (status := _status(line)) is None:
                    break
                end = time.monotonic()
                found.append(Outcome(status, _said(folder), end - begin))
                begin = end
        status = _ended(pid)
        _load(_modules(left[-1][1]))
        if len(found) < len(given):
            folder = given[len(found)][1]
            found.append(Outcome(status, _said(folder), time.monotonic() - begin))
    return found


def _status(line: FileIO) -> int | None:
    """Next exit status that a process tells; ``None`` once it has ended, or takes too long."""
    ready, _, _ = select.select([line], [], [], SECONDS)
    told = line.read(_STATUS.size) if ready else b""
    return _STATUS.unpack(told)[0] if told else None


def _said(folder: Path) -> str:
    """The text that the command in a folder printed."""
    place = _output(folder)
    text = place.read_text(errors="replace")
    place.unlink()
    return text


def _output(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.out")


def write(folder: Path, files: Files) -> None:
    """Writes files by their relative names."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _become(reader: Reader, given: Sequence[tuple[str, Path]], line: int) -> None:
    """Runs commands, each in its folder, and tells their statuses, until one ends this process."""
    os.setsid()
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
    if reader.imports:
        models = importlib.import_module("dlbricks_core.importers.models")
        models.import_worker = _InProcess
    known = set(sys.modules)
    for command, folder in given:
        _print_to(_output(folder))
        _settle(folder)
        if reader.imports:
            _limit(resource.RLIMIT_AS, 0)
        else:
            _limit(resource.RLIMIT_DATA, 5)
        os.write(line, _STATUS.pack(_entered(reader, command.split())))
    _modules(given[-1][1]).write_text("\n".join(sys.modules.keys() - known))
    os._exit(0)


def _modules(folder: Path) -> Path:
    """File with the names of the modules that a process has imported, by its last folder."""
    return folder.with_name(f"{folder.name}.modules")


def _load(names: Path) -> None:
    """Imports what a process has imported, so that the next ones begin with it."""
    if names.exists():
        for each in names.read_text().splitlines():
            with suppress(ImportError):  # some modules exist only while another one is imported
                importlib.import_module(each)
        names.unlink()


def _print_to(place: Path) -> None:
    output = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)


def _entered(reader: Reader, arguments: list[str]) -> int:
    """Exit status of a command in this process."""
    status = _LET_THROUGH
    try:
        reader.entry(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - what main lets through is a finding
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _limit(number: int, field: int) -> None:
    """Limits this process to 2 GB more than it has: modules, and what earlier inputs have left."""
    pages = int(Path("/proc/self/statm").read_text().split()[field])
    limit = BYTES + pages * resource.getpagesize()
    memory._given.clear()  # of the process that forks, as are those at its start
    resource.setrlimit(number, (limit, resource.getrlimit(number)[1]))
    memory._soft_limits_at_start.cache_clear()


def _ended(pid: int) -> int:
    """Status of a process that has ended, or else ran out of time: it is ended with its children.

    Returns:
        The number of the signal that ended it, negative; its exit status; or :data:`TIMED_OUT`.
    """
    done, status = os.waitpid(pid, os.WNOHANG)
    deadline = time.monotonic() + _ENDING_S
    while not done and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        done, status = os.waitpid(pid, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
        return TIMED_OUT
    return os.waitstatus_to_exitcode(status)


class _InProcess:
    """Imports in the process of the command, so that a crash is seen, and none is started."""

    def __init__(self) -> None:
        from dlbricks_core.importers.host import ImportHost

        self._host = ImportHost()

    def call(self, method: str, *arguments: object, timeout: float | None = None) -> object:
        """Result of a method of the host."""
        return getattr(self._host, method)(*arguments)

    def close(self) -> None:
        """Ends nothing."""

    kill = close


class _Forked:
    """A worker's process that was forked from the command's; a part of ``subprocess.Popen``."""

    def __init__(self, pid: int, stdin: int) -> None:
        self.pid, self.stdin = pid, os.fdopen(stdin, "wb", 0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = SECONDS) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(_POLL_S)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _forked(
    arguments: Sequence[object], variables: Mapping[str, str], passed: Sequence[int]
) -> _Forked:
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with as_given():
        pid = os.fork()
    if pid:
        os.close(reading)
        return _Forked(pid, writing)
    try:
        _serve(arguments, variables, passed, reading)
    except BaseException:  # noqa: BLE001 - the log of the worker gets it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _serve(
    arguments: Sequence[object], variables: Mapping[str, str], passed: Sequence[int], stdin: int
) -> None:
    """The worker, with what a new interpreter would have: a session, and no other descriptors."""
    os.setsid()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(stdin, 0)
    for number in (1, 2):
        os.dup2(passed[1], number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    kept = {0, 1, 2, *passed}
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if number not in kept:
            with suppress(OSError):
                os.close(number)
    os.environ.update(variables)
    tempfile.tempdir = None
    sys.argv = ["child", *map(str, arguments)]
    child.main()
