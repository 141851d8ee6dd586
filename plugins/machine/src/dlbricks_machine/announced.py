"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class MachineCommand(ActionCommand):
    """Is this machine ready to measure, and which machines are known?"""

    name = "machine"
    purpose = "Check, calibrate and survey this machine; list and name systems."
    actions = (
        Action(
            "check",
            "Check whether this machine is ready to measure.",
            "dlbricks_machine.command:check_command",
            "dlbricks_machine.report:MachineCheckData",
        ),
        Action(
            "list",
            "List the systems of a store.",
            "dlbricks_machine.command:list_command",
            "dlbricks_machine.report:MachineListData",
        ),
        Action(
            "show",
            "Show a system of a store.",
            "dlbricks_machine.command:show_command",
            "dlbricks_machine.report:MachineShowData",
        ),
        Action(
            "name",
            "Name a system of a store.",
            "dlbricks_machine.command:name_command",
            "dlbricks_machine.report:MachineNameData",
        ),
    )
