"""Commands in processes that are forked from a warm one, within 2 GB and 60 s.

A new interpreter that imports a framework would take seconds for each input.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import fuzz_programs
from fuzzing.drawn import SECONDS, TIMED_OUT, Files, Input, Outcome, Reader

from dlbricks_core.cli.main import cli
from dlbricks_core.machine.load import LoadSampler
from dlbricks_core.worker import child, memory, process
from dlbricks_core.worker.memory import as_given

BYTES = 2 << 30
_POLL_S = 0.002
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
        with tempfile.TemporaryDirectory(prefix="dlbricks-fuzz-", dir=_PLACE) as name:
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
    """Outcome of the command on the files, which are in a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="dlbricks-fuzz-", dir=_PLACE) as name:
        files = _lay_out(reader, Path(name), drawn)
        return outcome(reader, reader.commands[drawn.command], Path(name)), files


def outcome(reader: Reader, command: str, folder: Path) -> Outcome:
    """Outcome of a command in a folder."""
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(dir=_PLACE) as said:
        pid = os.fork()
        if not pid:
            _become(reader, command.split(), folder, said.fileno())
        status = _ended(pid)
        text = Path(said.name).read_text(errors="replace")
    return Outcome(status, text, time.monotonic() - begin)


def write(folder: Path, files: Files) -> None:
    """Writes files by their relative names."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _become(reader: Reader, arguments: Sequence[str], folder: Path, output: int) -> None:
    os.setsid()
    for number in (1, 2):
        os.dup2(output, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
    _settle(folder)
    if reader.imports:
        models = importlib.import_module("dlbricks_core.importers.models")
        models.import_worker = _InProcess
        _limit(resource.RLIMIT_AS, 0)
    else:
        _limit(resource.RLIMIT_DATA, 5)
    try:
        reader.entry(list(arguments))
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    except BaseException:  # noqa: BLE001 - what main lets through is a finding
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(99)


def _limit(number: int, field: int) -> None:
    """Limits a process to 2 GB beyond the modules that it was forked with."""
    pages = int(Path("/proc/self/statm").read_text().split()[field])
    limit = BYTES + pages * resource.getpagesize()
    memory._given.clear()  # of the process that forks, as are those at its start
    resource.setrlimit(number, (limit, limit))
    memory._soft_limits_at_start.cache_clear()


def _ended(pid: int) -> int:
    """Exit status of a process; all that it has started is ended with it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(_POLL_S)
    else:
        status = None
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
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
