"""Members on machines of their own: network namespaces with nothing but a cable between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack

import pytest
from dlbricks_fleet.certificates import make

BOSS, HOST = "10.231.57.1", "10.231.57.2"


def ip(*words):
    """Runs ``ip``; its error, empty if there is none."""
    if not shutil.which("ip"):
        return "there is no program ip"
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False).stderr


@pytest.fixture(scope="module")
def machines():
    """Names of two namespaces, of the scheduler and of a host."""
    names = [f"dlbricks{os.getpid()}{end}" for end in "ab"]
    with ExitStack() as stack:
        for name in names:
            if problem := ip("netns", "add", name):
                pytest.skip(f"network namespaces are not permitted: {problem.strip()}")
            stack.callback(ip, "netns", "delete", name)
        ends = [each[-15:] for each in names]
        said = ip("link", "add", ends[0], "netns", names[0], "type", "veth",
                  "peer", "name", ends[1], "netns", names[1])  # fmt: skip
        if said:
            pytest.skip(f"no cable between network namespaces: {said.strip()}")
        for name, end, address in zip(names, ends, (BOSS, HOST), strict=True):
            for words in (
                ("addr", "add", f"{address}/24", "dev", end),
                ("link", "set", end, "up"),
                ("link", "set", "lo", "up"),
            ):
                assert not ip("-n", name, *words)
        yield names


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Folders of certificates: those of the fleet, and those that it had before."""
    folder = tmp_path_factory.mktemp("keys")
    for fleet in ("now", "before"):
        make(folder / fleet, ["one"])
    return folder


@pytest.fixture(scope="module")
def scheduler(start, machines, keys):
    """Address of a scheduler on the first machine."""
    given = "--certificates", keys / "now" / "scheduler"
    process = start("scheduler", "--port", "0", *given, inside=machines[0])
    port = process.says("Scheduler at").split()[-1].rpartition(":")[2]
    return f"tls://{BOSS}:{port}"


def test_a_host_with_the_fleets_certificate_joins(start, machines, keys, scheduler):
    given = "--scheduler", scheduler, "--certificates", keys / "now" / "hosts" / "one"
    process = start("worker", *given, "--spool", "right", inside=machines[1])
    assert f" as tls://{HOST}:" in process.says("Joined")


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("before/hosts/one", "the other end has no certificate as the scheduler"),
        ("now/client", "certificate"),
        (None, "needs certificates"),
    ],
    ids=["made anew since", "of a client", "none"],
)
def test_any_other_host_stays_out(start, machines, keys, scheduler, folder, words):
    given = ("--certificates", keys / folder) if folder else ()
    process = start("worker", "--scheduler", scheduler, *given, inside=machines[1])
    status, _, said = process.done()
    assert status == 2
    assert words in said
    assert len(said.splitlines()) <= 4


def test_plain_text_reaches_no_scheduler_of_certificates(start, machines, scheduler):
    plain = scheduler.replace("tls", "tcp")
    process = start("worker", "--scheduler", plain, "--insecure", inside=machines[1])
    assert "Waiting" in process.says("closes it at once")
    assert process.end()[0] != 0
