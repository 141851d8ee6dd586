"""What a suite says to the person who gets it."""

from __future__ import annotations

from dlbricks_core.suites.suite import Suite

README = "README.txt"

_TEXT = """\
This folder holds networks for DLBricks to time on your machine. {holds}
1. Install: pip install dlbricks dlbricks-onnxruntime (or -mxnet, or -pytorch).
2. Time:    dlbricks bench THIS_FOLDER --backend onnxruntime --results results.jsonl.zst
   Interrupt it as you like: the same command goes on where it ended.
3. Return results.jsonl.zst. It tells latencies, the processor and versions; no names or addresses.
"""

_STRUCTURES = "It tells how models are built, and none of their weights."
_BRICKS = "It tells parts of models, and none of their weights."


def readme(suite: Suite) -> str:
    """Text for the person who gets a suite."""
    return _TEXT.format(holds=_STRUCTURES if suite.models else _BRICKS)
