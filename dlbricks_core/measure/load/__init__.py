"""Loads whole models as MLPerf's scenarios do, in real time, on instances with cores of their own.

Instances take samples from one line by themselves (:mod:`.line`), so that while they run nothing
else of DLBricks does.
"""

from dlbricks_core.measure.load.generator import LoadGenerator, LoadRun
from dlbricks_core.measure.load.instance import ServingWorker

__all__ = ["LoadGenerator", "LoadRun", "ServingWorker"]
