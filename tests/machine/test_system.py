import dataclasses
import hashlib
import json
import os
import platform
import subprocess
import sys

import pytest
from dlbricks_prediction.atlas import shipped

from dlbricks_core.facts import System
from dlbricks_core.machine.speed import multiplying
from dlbricks_core.machine.system import (
    Cache,
    MachineState,
    current_host,
    current_system,
    largest_cache,
    near_caches,
    parse_cpus,
    physical_cores_available,
)

GIB = 2**30
BOOT = "proc/sys/kernel/random/boot_id"


def test_cpu_lists_are_read():
    assert parse_cpus("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}
    assert parse_cpus("") == frozenset()


def test_facts_of_a_server_are_read(server):
    found = current_system(server.machine(0, 1, 2, 3))
    assert found.cpu == "Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz"
    assert (found.family, found.model, found.stepping) == ("6", "85", "4")
    assert found.isa == ("avx", "avx2", "avx512f", "avx512vl", "f16c", "fma", "sse4_2")
    assert (found.physical_cores, found.logical_cpus) == (2, 4)
    assert (found.available_cpus, found.available_cores) == (4, 2)
    assert found.caches == (
        Cache(1, "data", 32 * 2**10, 2),
        Cache(2, "unified", 2**20, 2),
        Cache(3, "unified", 25 * 2**20, 4),
    )
    assert largest_cache(server.machine(0)) == 25 * 2**20
    assert near_caches(2, server.machine(0)) == 2 * 2**20
    assert found.numa_nodes == 2
    assert found.memory == 16 * GIB
    assert found.governors == ("powersave",)
    assert found.boost is True
    assert found.max_mhz == (3500,)
    assert found.huge_pages == "madvise"
    assert found.hypervisor is found.cpu_quota is found.memory_limit is None
    for text in ("Platinum 8124M", "2 cores (4 threads)", "16.0 GiB"):
        assert text in found.describe()


def test_two_machines_with_equal_facts_are_different_hosts(server):
    one, same, other = (
        current_host(server.write(BOOT, f"6e5c3d8f-{number}").machine(0)) for number in (1, 1, 2)
    )
    assert one == same != other
    assert "6e5c" not in one


def interface(files, name, address, device="devices/pci0/0000:00:05.0", assigned=0):
    """Writes a network interface; without a device it is one that software makes."""
    folder = f"sys/class/net/{name}"
    files.write(f"{folder}/address", address).write(f"{folder}/addr_assign_type", assigned)
    if device:
        (files.root / device).mkdir(parents=True, exist_ok=True)
        (files.root / folder / "device").symlink_to(files.root / device)
    return files


IDENTITY = "5f2a9c" + 26 * "7"
ADDRESS = "02:42:ac:11:00:02"


def test_a_machine_that_is_restarted_stays_the_same_host(server):
    interface(server.write("etc/machine-id", IDENTITY), "eth0", ADDRESS)
    before, after = (current_host(server.write(BOOT, f"boot-{n}").machine(0)) for n in (1, 2))
    assert before == after != ""


def test_a_host_tells_neither_its_identity_nor_its_address(server):
    found = current_host(
        interface(server.write("etc/machine-id", IDENTITY), "eth0", ADDRESS).machine(0)
    )
    assert len(found) == 16
    plain = {hashlib.sha256(text.encode()).hexdigest()[:16] for text in (IDENTITY, ADDRESS)}
    assert found not in plain
    assert not {found} & {IDENTITY[:16], ADDRESS.replace(":", "")}


def test_copies_of_a_virtual_machine_are_different_hosts(server):
    interface(server.write("etc/machine-id", IDENTITY), "eth0", ADDRESS)
    before = current_host(server.machine(0))
    server.write("sys/class/net/eth0/address", f"{ADDRESS[:-1]}3")
    assert current_host(server.machine(0)) != before


def test_what_is_plugged_in_or_made_by_software_changes_no_host(server):
    interface(server.write("etc/machine-id", IDENTITY), "eth0", ADDRESS)
    before = current_host(server.machine(0))
    interface(server, "usb0", "aa:bb:cc:00:00:01", "devices/pci0/usb1/1-2")
    interface(server, "docker0", "aa:bb:cc:00:00:02", device="")
    interface(server, "wlan0", "aa:bb:cc:00:00:03", "devices/pci0/0000:00:06.0", assigned=1)
    assert current_host(server.machine(0)) == before


@pytest.mark.parametrize("file", [".dockerenv", "run/.containerenv", "run/systemd/container"])
def test_in_a_container_the_identity_of_its_image_is_not_used(server, file):
    server.write(BOOT, "boot-1")
    before = current_host(server.machine(0))
    interface(server.write("etc/machine-id", IDENTITY), "eth0", ADDRESS).write(file, "")
    assert current_host(server.machine(0)) == before


def test_without_proc_the_host_is_unknown(bare):
    assert current_host(bare.machine()) == ""


@pytest.mark.process
def test_the_host_is_the_same_in_every_process():
    script = "from dlbricks_core.machine.system import current_host; print(current_host())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == current_host() != ""


def test_a_virtual_machine_that_hides_instruction_sets_keeps_its_generation(bare):
    """By the instruction sets that are left, archspec takes a Zen 3 for a Zen 2."""
    bare.write(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nflags\t\t: fpu avx2 fma\n",
    )
    assert current_system(bare.machine()).microarchitecture == "zen3"


def test_facts_of_an_arm_processor_are_read(bare):
    bare.write(
        "proc/cpuinfo",
        "processor\t: 0\nFeatures\t: fp asimd asimddp sve i8mm bf16 sm3\n"
        "CPU architecture: 8\nCPU part\t: 0xd40\nCPU revision\t: 1\n",
    )
    found = current_system(bare.machine())
    assert found.isa == ("asimd", "asimddp", "bf16", "i8mm", "sve")
    assert (found.family, found.model, found.stepping) == ("8", "0xd40", "1")


def test_a_machine_that_tells_nothing_is_still_described(bare):
    found = current_system(bare.machine(4, 5))
    assert (found.available_cpus, found.available_cores, found.logical_cpus) == (2, 2, 2)
    assert found.caches == found.governors == ()
    assert largest_cache(bare.machine(4)) is near_caches(3, bare.machine(4)) is None
    assert found.boost is found.huge_pages is found.hypervisor is None
    assert found.describe()
    assert len(found.fingerprint) == 16


def test_this_machine_is_described():
    found = current_system()
    assert found.available_cpus == len(os.sched_getaffinity(0))
    assert 1 <= found.available_cores <= found.available_cpus <= found.logical_cpus
    assert found.memory > 0
    assert current_system().fingerprint == found.fingerprint
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["fingerprint"] == found.fingerprint


def test_the_name_of_the_machine_is_not_among_the_facts(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "secret-name")
    monkeypatch.setenv("HOSTNAME", "secret-name")
    assert "secret-name" not in json.dumps(current_system().to_dict())


@pytest.mark.process
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
def test_the_affinity_of_the_process_limits_usable_cpus():
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from dlbricks_core.machine.system import current_system, physical_cores_available as p;"
        "print(p(), current_system().available_cpus, current_system().fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    cores, cpus, fingerprint = done.stdout.split()
    assert (cores, cpus) == ("1", "1")
    assert fingerprint != current_system().fingerprint


@pytest.mark.parametrize(
    ("cpus", "cores"),
    [((0, 1, 2, 3), 2), ((0, 2), 1), ((0, 1), 2), ((1, 2, 3), 2), ((3,), 1)],
)
def test_threads_of_one_core_count_once(server, cpus, cores):
    assert physical_cores_available(server.machine(*cpus)) == cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 2), ("400000 100000", 2), ("150000 100000", 1), ("20000 100000", 1)],
)
def test_quota_of_version_2_limits_the_cores(server, quota, cores):
    server.write("sys/fs/cgroup/user.slice/cpu.max", quota)
    server.write("sys/fs/cgroup/user.slice/session.scope/cpu.max", "max 100000")
    assert physical_cores_available(server.machine(0, 1, 2, 3)) == cores


def test_the_tightest_quota_of_all_groups_counts(server):
    server.write("sys/fs/cgroup/user.slice/session.scope/cpu.max", "300000 100000")
    server.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000")
    assert server.machine().cpu_quota() == 1.5


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize("path", ["", "/docker/abc"])
def test_quota_of_version_1_is_found(bare, mount, path):
    bare.write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/")
    bare.write(f"sys/fs/cgroup/{mount}{path}/cpu.cfs_quota_us", "250000")
    bare.write(f"sys/fs/cgroup/{mount}{path}/cpu.cfs_period_us", "100000")
    machine = bare.machine(0, 1, 2, 3)
    assert machine.cpu_quota() == 2.5
    assert physical_cores_available(machine) == 2


def test_an_unlimited_quota_of_version_1_is_no_quota(bare):
    bare.write("proc/self/cgroup", "4:cpu:/\n3:memory:/")
    bare.memory()
    bare.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    bare.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    bare.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000")
    assert bare.machine().cpu_quota() is None
    assert bare.machine().memory_limit() is None
    assert bare.machine().memory_available() == 12 * GIB


def test_free_memory_of_a_container_is_its_limit_less_its_use(server):
    server.write("sys/fs/cgroup/user.slice/memory.max", str(4 * GIB))
    server.write("sys/fs/cgroup/user.slice/memory.current", str(GIB))
    server.write("sys/fs/cgroup/user.slice/session.scope/memory.max", "max")
    assert server.machine().memory_limit() == 4 * GIB
    assert server.machine().memory_available() == 3 * GIB
    server.write("sys/fs/cgroup/user.slice/memory.stat", f"anon 7\ninactive_file {GIB // 2}")
    assert server.machine().memory_available() == 3.5 * GIB


def test_time_lost_to_the_quota_is_counted(bare, server):
    server.write(
        "sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000"
    )
    assert server.machine().throttled() == 2.5
    bare.write("proc/self/cgroup", "4:cpu:/")
    bare.write("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 1\nthrottled_time 1500000000")
    assert bare.machine().throttled() == 1.5


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2000000"),
        ("sys/devices/system/cpu/cpu0/cache/index2/size", "11M"),
        ("sys/devices/system/cpu/online", "0-1"),
        ("sys/fs/cgroup/user.slice/cpu.max", "100000 100000"),
        ("sys/hypervisor/type", "xen"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
        ("sys/devices/system/node/online", "0"),
    ],
)
def test_what_changes_latency_changes_the_fingerprint(server, path, text):
    before = current_system(server.machine(0, 1)).fingerprint
    server.write(path, text)
    assert current_system(server.machine(0, 1)).fingerprint != before


def test_extensions_and_usable_cpus_change_the_fingerprint(server):
    before = current_system(server.machine(0, 1)).fingerprint
    assert current_system(server.machine(0, 1, 2)).fingerprint != before
    text = (server.root / "proc/cpuinfo").read_text()
    server.write("proc/cpuinfo", text.replace("avx512vl", "avx512vl amx_tile"))
    assert current_system(server.machine(0, 1)).fingerprint != before


def test_what_does_not_change_latency_does_not_change_the_fingerprint(server):
    before = current_system(server.machine(0, 1))
    server.memory(total=15 << 20, available=1 << 20)
    text = (server.root / "proc/cpuinfo").read_text()
    server.write("proc/cpuinfo", text.replace("smep", "smep md_clear"))
    after = dataclasses.replace(
        current_system(server.machine(0, 1)),
        kernel="9.9",
        os="Other",
        microarchitecture="renamed",
        memory_limit=1,
        python=before.python + "9",
    )
    assert after.memory != before.memory
    assert after.fingerprint == before.fingerprint
    assert dataclasses.replace(after, python="3.99.1").fingerprint != before.fingerprint


def test_usable_cpus_are_those_of_the_process():
    assert MachineState().cpus == os.sched_getaffinity(0)


def test_instruction_sets_that_decide_in_short_types_are_facts(bare):
    deciding = ("amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512_fp16", "avx512_vnni",
                "avx_vnni", "f16c")  # fmt: skip
    flags = " ".join(("fpu", "sse4_2", *deciding, "rdpid"))
    bare.write("proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")
    assert set(deciding) < set(current_system(bare.machine()).isa)


@pytest.mark.parametrize(
    ("isa", "dtype", "expected"),
    [
        (("avx512_bf16", "avx512_vnni", "f16c"), "bfloat16", ("avx512_bf16",)),
        (("avx512_bf16", "avx512_vnni", "f16c"), "float16", ()),
        (("avx512_bf16", "avx_vnni"), "int8", ("avx_vnni",)),
        (("amx_bf16", "amx_tile", "avx512_bf16"), "bfloat16", ("amx_bf16", "avx512_bf16")),
        (("asimd", "asimdhp"), "float16", ("asimdhp",)),
        ((), "bfloat16", None),
    ],
)
def test_instruction_sets_tell_which_types_a_processor_multiplies(isa, dtype, expected):
    assert multiplying(System(isa=isa), dtype) == expected


@pytest.mark.parametrize(
    "told",
    sorted({each.system for each in shipped()}, key=lambda each: each.fingerprint),
    ids=lambda each: each.fingerprint,
)
def test_fingerprints_of_systems_that_were_measured_before_are_the_same(told):
    facts = {each.name: getattr(told, each.name) for each in dataclasses.fields(System)}
    assert System(**facts).fingerprint == told.fingerprint
