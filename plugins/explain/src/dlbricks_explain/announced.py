"""Names and purposes of the commands, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class LayersCommand(ActionCommand):
    """Which layers make an estimate wrong?"""

    name = "check.layers"
    purpose = "Show errors by groups of layers."
    actions = (
        Action(
            "layers",
            purpose,
            "dlbricks_explain.command:layers_command",
            "dlbricks_explain.report:CheckLayersData",
            resumes=True,
        ),
    )


class TraceCommand(ActionCommand):
    """A trace of a model, from the whole to the framework's operators."""

    name = "check.trace"
    purpose = "Write a trace for viewers."
    actions = (
        Action(
            "trace",
            purpose,
            "dlbricks_explain.command:trace_command",
            "dlbricks_explain.tracing:CheckTraceData",
        ),
    )
