"""Commands, which a distribution implements to add one to ``dlbricks``, and their actions."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dlbricks_core.commands.signals import starting
from dlbricks_core.plugins import names

if TYPE_CHECKING:
    import click


#: Distributions of DLBricks itself that commands come with, and actions of commands.
DISTRIBUTIONS: Mapping[str, str] = {
    "advise": "dlbricks-serving",
    "check": "dlbricks-accuracy",
    "check.layers": "dlbricks-explain",
    "check.trace": "dlbricks-explain",
    "compare": "dlbricks-compare",
    "fleet": "dlbricks-fleet",
    "machine": "dlbricks-machine",
    "machine.calibrate": "dlbricks-survey",
    "machine.survey": "dlbricks-survey",
    "private": "dlbricks-private",
    "results": "dlbricks-records",
    "results.pages": "dlbricks-pages",
    "serve": "dlbricks-serving",
    "show.graph": "dlbricks-graph",
    "show.repeats": "dlbricks-study",
    "study": "dlbricks-study",
    "suite": "dlbricks-suite",
}

#: Distributions of DLBricks itself that functions of the API come with, beside those of commands.
FUNCTIONS: Mapping[str, str] = {
    "AtSizes": "dlbricks-sizes",
    "answer": "dlbricks-sizes",
    "sweep": "dlbricks-sizes",
}

#: Distributions of DLBricks that these depend on, all by their folders.
NEEDED: Mapping[str, Sequence[str]] = {
    "compare": ("accuracy", "contrib", "pages"),
    "explain": ("accuracy", "pages"),
    "fleet": ("records", "suite"),
    "graph": ("pages",),
    "machine": ("prediction", "records"),
    "pages": ("prediction",),
    "private": ("prediction", "suite"),
    "quantities": ("prediction",),
    "records": ("accuracy",),
    "serving": ("pages", "prediction", "sizes"),
    "study": ("accuracy", "pages"),
    "suite": ("records",),
    "survey": ("accuracy", "machine", "prediction"),
}


def folders_to_install(folder: str) -> list[str]:
    """Folders of a distribution and of all that it needs, those before it."""
    needed = (each for direct in NEEDED.get(folder, ()) for each in folders_to_install(direct))
    return list(dict.fromkeys((*needed, folder)))


def added_actions(command: str) -> list[str]:
    """Names of the actions that installed distributions add to a command."""
    found = (each.partition(".") for each in names("command"))
    return sorted(action for name, _, action in found if name == command and action)


class Command(ABC):
    """A command of ``dlbricks``.

    The class is imported whenever the list of commands is shown, so its module imports little.
    """

    #: Name that users type, equal to the entry point's name. ``"results.pages"`` adds the action
    #: ``pages`` to the command ``results``.
    name: str
    #: Purpose in one line, for the list of commands.
    purpose: str
    #: Whether it predicts. Predictions use many small matrices, which are slower with the threads
    #: of numpy's BLAS.
    predicts: bool = False
    #: Whether the same command goes on after an interruption, because the store keeps measurements.
    resumes: bool = False

    #: Objects that it writes with ``--json``: ``module:name`` of a typed dictionary, or of a
    #: union of several, by the action's name; for a command without actions, by an empty name.
    objects: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def load(self) -> click.Command:
        """Imports the command. It returns its exit status, or ``None`` for 0."""


#: Environment variables during the import of a command. Predictions use many small matrices, for
#: which the threads of numpy's BLAS wait longer than they compute: tens of times as long where
#: other programs use the cores. Where memory is limited, starting them may never end. Workers do
#: not inherit these variables.
_WHILE_IMPORTED = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Action:
    """An action of a command, in a module of its own."""

    name: str  #: Name that users type after the command's.
    purpose: str  #: Purpose in one line.
    #: Module, with the name of the click command in it after a colon if that is not ``command``.
    module: str
    #: Object that it writes with ``--json``: ``module:name`` of a typed dictionary, or of a union
    #: of several.
    writes: str
    predicts: bool = False  #: Whether it predicts.
    #: Whether the same action goes on after an interruption, because the store keeps measurements.
    resumes: bool = False


def loaded(action: Action) -> click.Command:
    """The click command of an action."""
    module, _, name = action.module.partition(":")
    with imported(predicts=action.predicts):
        found = importlib.import_module(module)
    return cast("click.Command", getattr(found, name or "command"))


@contextmanager
def imported(*, predicts: bool) -> Iterator[None]:
    """Context of the import of a command."""
    with _variables(_WHILE_IMPORTED), _no_collections(), starting():
        yield
        if predicts:  # scipy has a BLAS of its own, which it loads late
            _begin(importlib.import_module("scipy.linalg.blas").dgemm)
            _begin(lambda _, a, b: a @ b)


def _begin(product: Callable[[float, Any, Any], object]) -> None:
    """Has a BLAS get its buffer, for which it would wait without end once memory is short.

    Args:
        product: Product of a number and two matrices by this BLAS.
    """
    matrix = importlib.import_module("numpy").ones((256, 256))
    product(1.0, matrix, matrix)


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


class ActionCommand(Command):
    """A command with one action, or with several actions, of which the first is the default."""

    #: The actions, each in a module that is imported when it is used.
    actions: tuple[Action, ...] = ()
    #: Whether further actions of it are in other distributions of DLBricks, installed or not.
    grows: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if not cls.actions:  # a base of further commands
            return
        first = cls.actions[0]
        cls.objects = {"": first.writes}
        if len(cls.actions) == 1 and not cls.grows:
            cls.predicts, cls.resumes = first.predicts, first.resumes
        else:
            cls.objects |= {each.name: each.writes for each in cls.actions}

    def load(self) -> click.Command:
        """The action, or a group of the actions."""
        if len(self.actions) == 1 and not self.grows and not added_actions(self.name):
            return loaded(self.actions[0])
        from dlbricks_core.commands.options.actions import Actions

        return Actions(self.name, self.purpose, self.actions)
