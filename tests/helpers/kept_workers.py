"""Processes that import and rewrite models, and that many commands of tests share."""

from __future__ import annotations

import os
from threading import Lock

from dlbricks_core.wording import spelling
from dlbricks_core.worker import WorkerProcess

IMPORTER = """
import os

from dlbricks_core.importers.host import ImportHost


class Importer(ImportHost):
    def ask(self, folder, method, arguments):
        os.chdir(folder)
        self._last = None  # its path may be relative to another folder
        return getattr(self, method)(*arguments)
"""

#: Importers that read files and import no modules of the user's.
READERS = {
    "dlbricks_core.importers.onnx:OnnxImporter",
    "dlbricks_core.importers.light:LightModels",
    "dlbricks_decoders.collection:LanguageModels",
}


class KeptImporter:
    """Imports in one process for all commands; stands where each command starts its own.

    Modules of the user's are imported once in a process, so other importers get their own. Calls
    from Python have another process than commands: messages spell arguments in another way.
    """

    def __init__(self, site):
        self._site, self._kept, self._own = site, {}, None
        self._lent = Lock()

    def call(self, method, *arguments, timeout=None):
        with self._lent:  # a command may import several models at the same time
            return self._call(method, *arguments, timeout=timeout)

    def _call(self, method, *arguments, timeout=None):
        if arguments[0] not in READERS:
            self._own = self._own or WorkerProcess("dlbricks_core.importers.host:ImportHost")
            return self._own.call(method, *arguments, timeout=timeout)
        spelled = spelling()
        if spelled not in self._kept:
            path = os.pathsep.join([str(self._site), os.environ.get("PYTHONPATH", "")])
            self._kept[spelled] = WorkerProcess("kept_importer:Importer", {"PYTHONPATH": path})
        asked = os.getcwd(), method, arguments  # noqa: PTH109 - Path.cwd() is the same
        return self._kept[spelled].call("ask", *asked, timeout=timeout)

    def close(self):
        if self._own is not None:
            self._own.close()
            self._own = None
        ended = [each for each, kept in self._kept.items() if kept._guard.poll() is not None]
        for each in ended:
            self._kept.pop(each).close()

    kill = close

    def end(self):
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()


class KeptRewriter:
    """Rewrites models in one process for all commands; timing gets processes of its own.

    A command may rewrite several models at the same time: while the process is lent, others get
    their own as well.
    """

    def __init__(self):
        self._asked, self._kept, self._lent = None, None, Lock()

    def __call__(self, service, environment=None, **limits):
        asked = service, dict(environment or {}), os.environ.get("PYTHONPATH"), spelling()
        if (
            not limits.get("resident")
            or self._asked not in (None, asked)
            or not self._lent.acquire(blocking=False)
        ):
            return WorkerProcess(service, environment, **limits)
        if self._kept is None or self._kept._guard.poll() is not None:
            self._asked, self._kept = asked, WorkerProcess(service, environment, **limits)
        return Borrowed(self._kept, self._lent)

    def end(self):
        if self._kept is not None:
            self._kept.close()


class Borrowed:
    """A process that goes on when who borrowed it has done with it."""

    def __init__(self, process, lent):
        self._process, self._lent = process, lent

    def __getattr__(self, name):
        return getattr(self._process, name)

    def kill(self):
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.release()

    close = kill
