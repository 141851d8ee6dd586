"""Names and purposes of the commands, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class RecordCommand(ActionCommand):
    """Records of commands, which say all that repeating them needs."""

    name = "results.record"
    purpose = "Write what a command did, to be repeated."
    actions = (
        Action(
            "record",
            purpose,
            "dlbricks_records.command:record_command",
            "dlbricks_records.json_records:ResultsRecordData",
        ),
    )


class RepeatCommand(ActionCommand):
    """Does a run give the same figures again?"""

    name = "results.repeat"
    purpose = "Repeat a record, and compare."
    actions = (
        Action(
            "repeat",
            purpose,
            "dlbricks_records.command:repeat_command",
            "dlbricks_records.repetition:ResultsRepeatData",
            predicts=True,
        ),
    )


class CompareCommand(ActionCommand):
    """Did models become slower?"""

    name = "results.compare"
    purpose = "Compare two results, with a status for CI."
    actions = (
        Action(
            "compare",
            purpose,
            "dlbricks_records.command:compare_command",
            "dlbricks_records.comparison:ResultsCompareData",
        ),
    )
