"""Instances that serve samples from a line, each a process on cores of its own."""

from __future__ import annotations

from time import perf_counter_ns

from dlbricks_serving.load.line import ServedSamples, ServiceLine, serve
from dlbricks_serving.pinned import PinnedHost, PinnedWorker


class ServingHost(PinnedHost):
    """Service inside a worker that also serves samples from a line."""

    def serve(self, key: str, line: ServiceLine) -> ServedSamples:
        """Serves samples of a line with a loaded network until the line ends.

        Args:
            key: Key of the network.
            line: The line.
        """
        timer, loaded = self.timer, self._loaded[key]
        run, synchronize = timer.run, timer.synchronize

        def infer() -> int:
            run(loaded)
            synchronize(loaded)
            return perf_counter_ns()

        return serve(line, infer, lambda: timer.release(loaded))


class ServingWorker(PinnedWorker):
    """A worker on CPUs of its own that serves samples while other workers do."""

    service = "dlbricks_serving.load.instance:ServingHost"

    def serve(self, key: str, line: ServiceLine, seconds: float) -> ServedSamples:
        """Serves samples with a loaded network, without waiting for other workers to rest.

        Args:
            key: Key of the network.
            line: The line.
            seconds: Seconds from now after which no further sample begins.
        """
        timeout = self._settings.timeout_s + seconds
        served: ServedSamples = self._answer(self.start(), "serve", key, line, timeout=timeout)
        return served

    def stop(self) -> None:
        """Ends the process at once. A thread that waits for it gets an error."""
        self._discard()
