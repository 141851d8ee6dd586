"""Reports of fleets."""

import pytest
from dlbricks_fleet.records import FleetResult
from dlbricks_fleet.report import print_fleet_run, run_data

from dlbricks_core.facts import Failure
from dlbricks_core.report.tables import Console

LACKS = "MXNet has no counterpart of the operator"
EARLIER = " (earlier; --retry-failed tries again)"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (f"Det: {LACKS}", f"Det: {LACKS}"),
        (f"Det: {LACKS}{EARLIER}", f"Det: {LACKS}{EARLIER}"),
        (f"Det: {LACKS}; Bernoulli: {LACKS}; Mish: {LACKS}", f"Det: {LACKS} and 2 more"),
        (f"Det: {LACKS}; Mish: {LACKS}{EARLIER}", f"Det: {LACKS} and 1 more{EARLIER}"),
    ],
)
def test_a_failed_brick_is_told_on_a_short_line(capsys, reason, told):
    failures = [Failure("Det …+5 (f330e8c6)", reason, "measure")]
    result = FleetResult("suite", "mxnet", "tcp://a:1", [], [], [], failures, 1.0)
    print_fleet_run(Console(width=500), result)
    assert f"Failed: Det …+5 (f330e8c6): {told}\n" in capsys.readouterr().out
    assert run_data(result)["failures"][0]["reason"] == reason
