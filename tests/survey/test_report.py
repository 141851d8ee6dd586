"""Reports of surveys."""

from dlbricks_survey.report import print_survey, survey_data
from dlbricks_survey.surveying import Survey

from dlbricks_core.facts import Failure
from dlbricks_core.report.tables import Console


def lacking(*operators):
    reasons = (f"MXNet: no counterpart of {each}" for each in operators)
    return Failure(", ".join(operators), "; ".join(reasons), "measure")


def test_each_reason_why_networks_are_left_out_is_printed_once(capsys, asked):
    rare = [lacking(f"Op{number}") for number in range(7)]
    survey = Survey(asked, 1.0, unsupported=[lacking("Det"), lacking("Mish", "Det"), *rare])
    print_survey(Console(width=80), survey)
    printed = capsys.readouterr().out.splitlines()
    begin = printed.index("Left out: 9 networks with operators that the backend lacks:")
    assert printed[begin + 1] == "  MXNet: no counterpart of Det (2)"
    assert printed[begin + 2] == "  MXNet: no counterpart of Mish (1)"
    assert printed[begin + 7] == "  and 3 more reasons, all of which the JSON names."
    assert len(survey_data(survey)["unsupported"]) == 9


def test_nothing_is_said_to_be_left_out_where_all_is_supported(capsys, asked):
    print_survey(Console(width=80), Survey(asked, 1.0))
    assert "Left out" not in capsys.readouterr().out
