"""Processes that begin as copies of one that has imported what all of them import.

A worker imports numpy, onnx and a framework for 0.3 to 2 seconds. A nursery does that once for each
environment, and each worker is a fork of it, with the variables, the limits and the descriptors
that it would have had.

Tests of starting itself have the fixture ``from_nothing``.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

#: What most workers import, besides their service.
COMMON = (
    "numpy",
    "onnx",
    "dlbricks_core.bricks.brickset",
    "dlbricks_core.figures.statistics",
    "dlbricks_core.ir.onnx_writer",
    "dlbricks_core.ir.own_weights",
    "dlbricks_core.machine.system",
    "dlbricks_core.values.materialize",
)

#: What a worker with such a variable imports, too. ONNX Runtime begins a thread as it is imported,
#: and a fork of it would wait for that thread at its end: only what its plugin imports is here.
IMPORTED_WITH = {
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": ("dlbricks_pytorch.timer", "dlbricks_pytorch.check"),
    "MXNET_ENGINE_TYPE": (
        "dlbricks_mxnet.timer",
        "dlbricks_mxnet.check",
        "dlbricks_mxnet.profile",
        "dlbricks_mxnet.rewrite",
    ),
    "DLBRICKS_ONNXRUNTIME_WORKER": (
        "networkx",
        "dlbricks_core.backends.layer",
        "dlbricks_core.operators.table",
        "dlbricks_contrib.operators",
        "dlbricks_contrib.rows",
        "dlbricks_core.passes.schemas",
    ),
}

#: Beginnings of variables that nothing reads while it is imported, and those of tests themselves.
READ_LATER = ("COLUMNS", "DLBRICKS_BUSY", "HOME", "PYTEST_", "PYTHONPATH", "TMPDIR", "XDG_")

#: Nurseries that stay, at most, unless more of them have processes that run.
MOST = 12

#: Bytes of a call and of its answer, at most.
LARGEST = 1 << 17

LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

FAULTS = signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT

EXECUTABLE, PATH = sys.executable, os.environ.get("PYTHONPATH", "")


class Born(subprocess.Popen):
    """A process of a nursery, which sees how it ends, as ``subprocess`` shows its own processes."""

    def __init__(self, nursery, pid, args, stdin=None, stdout=None, stderr=None):
        self._nursery, self._descriptor = nursery, os.pidfd_open(pid)
        self.pid, self.args, self.returncode = pid, args, None
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.text_mode, self._input = stdout is not None, None
        self._child_created, self._waitpid_lock = True, Lock()
        self._sigint_wait_secs, self._communication_started = 0.25, False

    def _internal_poll(self, **_):
        with self._waitpid_lock:
            if self.returncode is None:
                self.returncode = self._nursery.status(self.pid)
                if self.returncode is not None:
                    os.close(self._descriptor)
        return self.returncode

    def _wait(self, timeout):
        if self._internal_poll() is None:
            ending = select.poll()
            ending.register(self._descriptor, select.POLLIN)
            ending.poll(None if timeout is None else 1000 * timeout)
            if self._internal_poll() is None:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


class Nursery:
    """A process that forks processes of one environment.

    Attributes:
        running: Numbers of its processes that nobody has seen end.
    """

    def __init__(self, variables, modules):
        self.running, self._lent = set(), Lock()
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), *modules],
                env=variables, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip

    def worker(self, arguments, variables, passed):
        """Starts a worker; see ``dlbricks_core.worker.process``."""
        theirs, stdin = os.pipe()
        words = [*map(str, arguments)]
        pid = self._begun("worker", words[2:], variables, Path.cwd(), [theirs, *passed])
        return Born(self, pid, words, os.fdopen(stdin, "wb", buffering=0))

    def command(self, words, variables, folder):
        """Starts a command line."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        (out, out_of), (err, err_of) = os.pipe(), os.pipe()
        pid = self._begun("command", words, variables, folder, [nothing, out_of, err_of])
        return Born(self, pid, words, stdout=os.fdopen(out), stderr=os.fdopen(err))

    def _begun(self, kind, words, variables, folder, descriptors):
        sys.audit("subprocess.Popen", sys.executable, words, folder, variables)
        limits = {number: resource.getrlimit(number) for number in LIMITS}
        call = kind, words, variables, str(folder), limits, os.sched_getaffinity(0)
        pid = self._asked(call, descriptors)
        self.running.add(pid)
        for each in descriptors if kind == "command" else descriptors[:1]:
            os.close(each)
        return pid

    def status(self, pid):
        """Exit status of a process, below 0 for a signal; ``None`` while it runs."""
        found = self._asked(pid)
        if found is not None:
            self.running.discard(pid)
        return found

    def _asked(self, call, descriptors=()):
        with self._lent:
            socket.send_fds(self._end, [pickle.dumps(call)], descriptors)
            return pickle.loads(self._end.recv(LARGEST))

    def end(self):
        self._end.close()
        self._process.wait()


class Nurseries:
    """Starts workers from nurseries; stands where ``WorkerProcess`` starts a process.

    Attributes:
        from_nothing: Starts a worker as users' commands do.
    """

    def __init__(self, from_nothing):
        self.from_nothing, self._kept, self._lent = from_nothing, {}, Lock()

    def __call__(self, arguments, variables, passed):
        if sys.executable != EXECUTABLE:
            return self.from_nothing(arguments, variables, passed)
        from dlbricks_core.worker.memory import as_given

        named = (modules for name, modules in IMPORTED_WITH.items() if name in variables)
        modules = *COMMON, *itertools.chain.from_iterable(named)
        variables = {**os.environ, **variables}
        with self._lent, as_given():
            nursery = self._for(variables, modules)
            return nursery.worker(arguments, variables, passed)

    def command(self, words, variables, folder, modules):
        """Starts a command line in a folder, whose output is read as text.

        Args:
            words: Its arguments.
            variables: All its environment.
            folder: The folder.
            modules: What it may have imported before it begins, and ``module:function`` for what
                may have been called.
        """
        with self._lent:
            nursery = self._for(variables, ("dlbricks_core.cli", *modules))
            return nursery.command([*map(str, words)], variables, folder)

    def _for(self, variables, modules):
        read = {name: each for name, each in variables.items() if not name.startswith(READ_LATER)}
        key = frozenset(read.items()), modules
        nursery = self._kept.pop(key, None) or Nursery({**read, "PYTHONPATH": PATH}, modules)
        idle = (each for each, kept in self._kept.items() if not kept.running)
        if len(self._kept) >= MOST and (oldest := next(idle, None)):
            self._kept.pop(oldest).end()
        self._kept[key] = nursery  # behind all others
        return nursery

    def end(self):
        while self._kept:
            self._kept.popitem()[1].end()


def _serve(end):
    """Forks a process for each call; only the new ones return, with what they are to do."""
    while True:
        content, descriptors, *_ = socket.recv_fds(end, LARGEST, 3)
        if not content:
            os._exit(0)
        call = pickle.loads(content)
        if isinstance(call, int):
            pid, status = os.waitpid(call, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            kind, words, *_ = call
            if kind == "worker":
                for each in words[-2:]:  # its service, and how its messages spell arguments
                    _import(each.partition(":")[0])
            answer = os.fork()
            if answer == 0:
                end.close()
                return _become(*call, descriptors)
        for each in descriptors:
            os.close(each)
        end.send(pickle.dumps(answer))


def _import(module):
    """Imports a module for all processes to come, if it is one of the core."""
    if module.startswith("dlbricks_core."):
        importlib.import_module(module)
        gc.freeze()


def _become(kind, words, variables, folder, limits, processors, descriptors):
    """Makes this process what would have been started, and returns what it runs."""
    stdin, out, err = descriptors
    output = (out, err) if kind == "command" else (err, err)
    for target, source in enumerate((stdin, *output)):
        os.dup2(source, target)
    # The streams of before remember what kind of file they had.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    before = _folders(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    os.sched_setaffinity(0, processors)
    for number, limit in limits.items():
        resource.setrlimit(number, limit)
    with suppress(OSError):
        os.chdir(folder)
    sys.path = [*_folders(variables), *(each for each in sys.path if each not in before)]
    importlib.invalidate_caches()
    os.close(stdin)
    for fault in FAULTS:  # a framework that was imported may have its own end for them
        signal.signal(fault, signal.SIG_DFL)
    if kind == "worker":
        os.setsid()
        sys.argv[1:] = [str(out), str(err), *words]
        from dlbricks_core.worker.child import main
    else:
        os.close(out), os.close(err)
        sys.argv[1:] = words
        gc.enable()
        from dlbricks_core.cli import main
    return main


def _folders(variables):
    """Folders of modules that PYTHONPATH names."""
    named = variables.get("PYTHONPATH", "").split(os.pathsep)
    return [str(Path(each).absolute()) for each in named if each]


def main():
    """Imports what its processes import, and begins them."""
    gc.disable()
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    import dlbricks_core.worker.child  # noqa: F401 - imported for all

    for each in sys.argv[2:]:
        module, _, function = each.partition(":")
        with suppress(ImportError):  # it is not installed here, and a process will say so
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    gc.freeze()
    _serve(end)()


if __name__ == "__main__":
    main()
