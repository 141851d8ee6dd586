"""Load tests: whole models under the load of MLPerf's scenarios, in real time, on pinned instances.

Instances take samples from a shared line by themselves (:mod:`.line`), so no other process of
DLBricks runs meanwhile.
"""

from dlbricks_serving.load.generator import LoadGenerator, LoadRun
from dlbricks_serving.load.instance import ServingWorker

__all__ = ["LoadGenerator", "LoadRun", "ServingWorker"]
