"""Readers, inputs that are drawn for them, and outcomes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dlbricks_core.cli.main import main

SECONDS = 60.0
"""Maximum seconds of a command."""

TRACE = "Traceback (most recent call last)"
TIMED_OUT = -1000
"""Status of a command that ran for more than :data:`SECONDS`."""

_SOUND = (0, 2, 3)
_DEFECT = "Report this to "
"""Begin of the hint after an error that a plugin's code raised and did not word."""

Files = Mapping[str, bytes]
Mutation = Callable[[Files, random.Random], Files]


@dataclass(frozen=True)
class Reader:
    """Files of one kind.

    Attributes:
        name: Name of the kind.
        bases: Sound ones to begin with, each as the contents of files by their names.
        mutation: One more mutation of some of the files.
        commands: Command lines that read them, in the folder that has them.
        shares: Share of the inputs that a command gets which takes long, where others get 1.
        entry: Runs a command line and exits.
        warm: Modules that the processes of the commands share, loaded once.
        imports: Whether models are imported in the process of the command, so that a crash is seen.
        most: Maximum mutations of an input.
        sound: Whether a command reads the files without a mutation.
        rehearsed: Whether a command can run in the process that forks the others.
        together: Number of inputs that one fork takes: more than one where a command leaves nothing
            behind in its process.
    """

    name: str
    bases: Sequence[Files]
    mutation: Mutation
    commands: Sequence[str]
    entry: Callable[[list[str]], None] = main
    warm: Sequence[str] = ()
    imports: bool = False
    most: int = 4
    sound: bool = True
    rehearsed: bool = True
    together: int = 100
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Input:
    """One drawn input.

    Attributes:
        base: Number of the files to begin with.
        steps: Seed of each mutation.
        command: Number of the command line.
    """

    base: int
    steps: tuple[int, ...]
    command: int

    def files(self, reader: Reader) -> Files:
        """The mutated files."""
        files = reader.bases[self.base]
        for step in self.steps:
            files = reader.mutation(files, random.Random(step))
        return files


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command.

    Attributes:
        status: Exit status; negative for the number of a signal, or when the time ran out.
        said: Text that it printed.
        seconds: Duration in seconds.
    """

    status: int
    said: str
    seconds: float = field(default=0.0, compare=False)

    @property
    def wrong(self) -> str:
        """Defect that it shows, by which findings are alike; empty if there is none."""
        # A library's log has its own words in front; a worker's output stays in its log.
        if self.status in _SOUND and TRACE not in self.said.splitlines():
            # A defect of a plugin ends a command with status 2, and these plugins are our own.
            lines = self.said.splitlines()
            found = [number for number, line in enumerate(lines) if _DEFECT in line]
            return f"status {self.status}: {lines[found[0] - 1]}"[:200] if found else ""
        if self.status == TIMED_OUT:
            return f"more than {SECONDS:g} s"
        errors = [line for line in self.said.splitlines() if "Error" in line]
        return f"status {self.status}: {errors[-1] if errors else ''}"[:200]


def draw(reader: Reader, rng: random.Random) -> Input:
    """Draws an input with one or more mutations."""
    number = rng.choice((1, 1, 2, 3, 4, *range(5, reader.most + 1)))
    steps = tuple(rng.randrange(2**32) for _ in range(number))
    shares = [reader.shares.get(each, 1.0) for each in reader.commands]
    (command,) = rng.choices(range(len(reader.commands)), shares)
    return Input(rng.randrange(len(reader.bases)), steps, command)
