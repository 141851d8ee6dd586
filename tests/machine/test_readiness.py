import subprocess
import sys
import time

import pytest
from dlbricks_machine import readiness
from dlbricks_machine.readiness import check_readiness

from dlbricks_core.machine.load import LoadSampler, MachineLoad

CPUS = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
QUIET = {"seconds": 1.0, "cpus": 4, "others": 0.1, "steal": 0.0, "throttled": 0.0}

#: Starts a process that makes a file once it has used a CPU for as long as the second argument
#: says, and goes on until that file is gone.
ORPHAN = """
import subprocess, sys
busy = "import pathlib, sys, time\\nused = pathlib.Path(sys.argv[1])\\n"
busy += "while time.process_time() < float(sys.argv[2]): pass\\n"
busy += "used.touch()\\nwhile used.exists() and time.process_time() < 30: pass"
subprocess.Popen([sys.executable, "-c", busy, *sys.argv[1:]])
"""


def checks(files, *cpus):
    machine = files.machine(*(cpus or (0, 1, 2, 3)))
    return {found.name: found for found in (check(machine) for check in readiness.CHECKS)}


def test_a_fresh_server_gets_advice(server):
    found = checks(server)
    warned = {name for name, check in found.items() if check.status == "warn"}
    assert warned == {"frequency governor", "turbo", "hyper-threading", "temperature", "clock"}
    assert "powersave" in found["frequency governor"].finding
    assert "cpupower" in found["frequency governor"].advice
    assert found["turbo"].advice == f"echo 1 | sudo tee /{CPUS}/intel_pstate/no_turbo"
    assert "smt/control" in found["hyper-threading"].advice
    assert "3 times" in found["temperature"].finding
    assert found["clock"].advice.startswith("echo tsc | sudo tee")
    assert found["cores"].finding.startswith("2 of 2 cores usable (4 of 4 CPUs)")


def test_a_prepared_server_is_ready(server):
    server.each_cpu("cpufreq/scaling_governor", *["performance"] * 4)
    server.each_cpu("thermal_throttle/core_throttle_count", *"0000")
    server.write(f"{CPUS}/intel_pstate/no_turbo", "1").write(f"{CPUS}/smt/active", "0")
    server.write(CLOCK, "tsc")
    assert {(check.status, check.advice) for check in checks(server).values()} == {("ok", "")}


def test_a_machine_that_tells_nothing_is_unknown_not_ready(bare):
    found = checks(bare, 0, 1)
    unknown = {name for name, check in found.items() if check.status == "unknown"}
    assert unknown == {
        "frequency governor",
        "turbo",
        "hyper-threading",
        "caches",
        "memory",
        "swap",
        "temperature",
        "clock",
    }
    assert not any(check.status == "warn" for check in found.values())


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        ([0.8] * 20, "ok", "in 0 of 20 checks"),
        ([0.8] * 19 + [2.0], "ok", "in 1 of 20 checks"),
        (
            [0.8] * 9 + [2.0] * 11,
            "warn",
            "in 11 of 20 checks: a CPU reads a value that the other wrote in 2.0",
        ),
        ([OSError(1, "Operation not permitted")], "unknown", "Operation not permitted"),
    ],
)
def test_virtual_cpus_that_are_apart_are_seen(server, monkeypatch, found, status, words):
    looks = iter(found)

    def look(*_):
        each = next(looks)
        if isinstance(each, OSError):
            raise each
        return each

    monkeypatch.setattr("dlbricks_core.machine.cores.distance", look)
    monkeypatch.setattr(readiness, "LOOK_EACH_S", 0)
    distance = checks(server.virtual(), 0, 1)["distance"]
    assert distance.status == status
    assert words in distance.finding
    assert bool(distance.advice) == (status == "warn")


def test_the_distance_is_unknown_if_the_caches_are(bare):
    bare.write("proc/cpuinfo", "flags\t\t: fpu")
    found = checks(bare.virtual(), 0, 1)
    assert found["caches"].status == found["distance"].status == "unknown"
    assert "caches" in found["distance"].finding


def test_sizes_of_caches_are_reported(server):
    assert checks(server)["caches"].finding == "1 MiB of its own for each core, the largest 25 MiB"


@pytest.mark.parametrize(
    ("path", "text", "status", "command"),
    [
        (f"{CPUS}/cpufreq/boost", "1", "warn", f"echo 0 | sudo tee /{CPUS}/cpufreq/boost"),
        (f"{CPUS}/cpufreq/boost", "0", "ok", ""),
        (
            f"{CPUS}/cpu0/cpufreq/boost",
            "1",
            "warn",
            f"echo 0 | sudo tee /{CPUS}/cpu*/cpufreq/boost",
        ),
        (f"{CPUS}/cpu0/cpufreq/boost", "0", "ok", ""),
        (f"{CPUS}/intel_pstate/no_turbo", "1", "ok", ""),
    ],
)
def test_turbo_is_recognized_with_every_driver(bare, path, text, status, command):
    turbo = checks(bare.write(path, text), 0)["turbo"]
    assert turbo.status == status
    assert turbo.advice.startswith(command)
    assert bool(turbo.advice) == bool(command)


def test_a_mixture_of_governors_is_named(server):
    server.each_cpu("cpufreq/scaling_governor", "performance", "ondemand")
    assert "ondemand, performance, powersave" in checks(server)["frequency governor"].finding
    assert checks(server, 0)["frequency governor"].status == "ok"


def test_a_core_shared_with_others_is_named(server):
    cores = checks(server, 0, 1)["cores"]
    assert cores.status == "warn"
    assert "--cpu-list 0,1,2,3" in cores.advice
    assert checks(server, 0, 2)["cores"].status == "ok"


def test_limits_of_a_container_are_named(server):
    server.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000")
    server.write("sys/fs/cgroup/user.slice/cpu.stat", "throttled_usec 2500000")
    server.write("sys/fs/cgroup/user.slice/memory.max", str(2**30))
    server.write("sys/fs/cgroup/user.slice/memory.current", "0")
    found = checks(server)
    assert found["CPU quota"].status == found["memory"].status == "warn"
    assert found["CPU quota"].finding.startswith("1.5 CPUs")
    assert "2.5 s" in found["CPU quota"].finding
    assert found["memory"].finding == "1.0 GiB available, container limited to 1.0 GiB"


def test_little_memory_and_used_swap_are_named(server):
    server.memory(available=1 << 20, swap=8 << 20, swap_free=5 << 20)
    found = checks(server)
    assert found["memory"].status == found["swap"].status == "warn"
    assert "1.0 GiB" in found["memory"].finding
    assert "3.0 GiB" in found["swap"].finding
    server.memory(swap=8 << 20, swap_free=(8 << 20) - 1000)
    assert checks(server)["swap"].status == "ok"


def test_a_virtual_machine_hides_what_it_cannot_know(server):
    server.virtual().write(f"{CPUS}/smt/active", "0")
    server.write("sys/class/dmi/id/product_name", "c5.xlarge")
    found = checks(server, 0)
    assert "c5.xlarge" in found["virtualization"].finding
    assert found["hyper-threading"].status == found["virtualization"].status == "unknown"


@pytest.mark.parametrize(
    ("change", "name", "notes"),
    [
        ({}, None, []),
        ({"others": 0.41}, "load", [("others-used-cpus", {"used": 0.41, "cpus": 4})]),
        ({"steal": 0.08}, "steal", [("hypervisor-took-time", {"share": 0.02})]),
        ({"throttled": 0.5}, None, [("quota-stopped-container", {"seconds": 0.5})]),
    ],
)
def test_load_is_judged_alike_before_and_after_a_run(change, name, notes):
    load = MachineLoad(**{**QUIET, **change})
    warned = [
        c.name for c in (check(load) for check in readiness.LOAD_CHECKS) if c.status == "warn"
    ]
    assert warned == ([name] if name else [])
    assert [(each.code, each.values) for each in load.warnings] == notes


@pytest.mark.parametrize(
    ("change", "share"),
    [({}, 0.025), ({"others": 1.0, "steal": 1.0}, 0.5), ({"others": 4.1}, 1.0),
     ({"others": None}, None), ({"steal": None}, None)],
)  # fmt: skip
def test_the_share_of_others_follows_from_processor_times(change, share):
    assert MachineLoad(**{**QUIET, **change}).share == share


@pytest.mark.process
def test_processes_of_others_are_seen(tmp_path):
    used, least_s = tmp_path / "used", 0.5
    sampler, end = LoadSampler(), time.monotonic() + 60
    subprocess.run([sys.executable, "-c", ORPHAN, str(used), str(least_s)], check=True)
    while not used.exists() and time.monotonic() < end:  # others may need the CPUs, too
        time.sleep(0.02)
    load = sampler.load()
    used.unlink()
    assert load.seconds > least_s
    assert load.others * load.seconds > 0.9 * least_s


def test_without_proc_the_load_is_reported_as_unknown(monkeypatch):
    def absent(*arguments, **named):
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr("psutil.cpu_times", absent)
    load = LoadSampler().load()
    assert load.others is load.steal is None
    assert [each.code for each in load.warnings] == ["cpu-use-unknown"]
    assert {check(load).status for check in readiness.LOAD_CHECKS} == {"unknown"}


@pytest.mark.process
def test_own_processes_are_not_counted_as_others():
    busy = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    waiting = f"{busy}\nprint(flush=True)\ninput()"
    sampler = LoadSampler()
    # One has ended when the load is read, the other is still there.
    subprocess.run([sys.executable, "-c", busy], check=True)
    with subprocess.Popen(
        [sys.executable, "-c", waiting], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as alive:
        alive.stdout.readline()
        own = sampler._used().own - sampler._start.used.own
        alive.communicate(b"\n")
    assert 0.9 < own < 2.0


def test_this_machine_can_be_checked():
    found = check_readiness(window_s=0.05)
    names = [check.name for check in found]
    assert len(set(names)) == len(names) == len(readiness.CHECKS) + len(readiness.LOAD_CHECKS)
    assert all(check.finding and "\n" not in check.finding for check in found)
    assert all(check.advice for check in found if check.status == "warn")
