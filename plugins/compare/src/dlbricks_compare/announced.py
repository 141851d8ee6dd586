"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class CompareCommand(ActionCommand):
    """Which framework, form or type is faster, and do they compute the same?"""

    name = "compare"
    purpose = "Compare frameworks: latencies of models and parts, and outputs."
    actions = (
        Action(
            "latencies",
            "Run models on several frameworks.",
            "dlbricks_compare.command",
            "dlbricks_compare.data:CompareLatenciesData",
            resumes=True,
        ),
        Action(
            "outputs",
            "Check that frameworks compute the same.",
            "dlbricks_compare.outputs_command",
            "dlbricks_compare.outputs_report:CompareOutputsData",
        ),
    )
