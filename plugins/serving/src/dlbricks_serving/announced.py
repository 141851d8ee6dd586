"""Names and purposes of the commands, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class Serve(ActionCommand):
    """How many requests can it serve, with which instances?"""

    name = "serve"
    purpose = "Estimate throughput and tail latency of several instances."
    actions = (
        Action(
            "load",
            purpose,
            "dlbricks_serving.commands.serve",
            "dlbricks_serving.serving.report.data:ServeLoadData",
            predicts=True,
            resumes=True,
        ),
        Action(
            "compare",
            "Compare frameworks under a load.",
            "dlbricks_serving.commands.serve:compare_command",
            "dlbricks_serving.serving.report.data:ServeCompareData",
            resumes=True,
        ),
    )


class Advise(ActionCommand):
    """Which system and framework, at what cost?"""

    name = "advise"
    purpose = "Name the system and framework that is fastest or cheapest."
    actions = (
        Action(
            "places",
            purpose,
            "dlbricks_serving.commands.advise",
            "dlbricks_serving.advice.report.data:AdviseData",
            predicts=True,
        ),
    )
