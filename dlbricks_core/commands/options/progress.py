"""Progress bar with the remaining time, which is silent without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.progress import Observer
from dlbricks_core.report.tables import styled
from dlbricks_core.sanitize import sanitized

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from dlbricks_core.report.tables import Console


class ProgressBar(Observer):
    """A progress bar for the stages of a workflow.

    Args:
        console: Where to print, usually standard error. If it is not a terminal, there is no bar.
        verbose: Whether to print each stage as a line, too.
    """

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self._progress = _bar(console) if console.is_terminal else None
        self._task: TaskID | None = None

    def stage(self, text: str, steps: int | None = None) -> None:
        """Begins a stage with a new bar."""
        if self._progress is not None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(sanitized(text), total=steps)
        if self._verbose:
            self._console.print(styled((text, "dim")))

    def advance(self, what: str = "") -> None:
        """Moves the bar by one step."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)
            (task,) = self._progress.tasks
            if task.total is not None and task.completed > task.total:
                # Samples scatter more than was planned for: how many follow is open.
                task.total = task.finished_time = None

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        self._console.print(text)

    def __enter__(self) -> ProgressBar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def _bar(console: Console) -> Progress:
    # Slow to import, and scripts have no terminal to show it on.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        # Averaged over a long time: samples come in bursts, and the remaining time should not
        # jump.
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        # A redraw takes processor time from the measurement.
        refresh_per_second=2,
        speed_estimate_period=120,
    )
