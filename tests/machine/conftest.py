"""Machines made of files, in the form in which Linux writes them."""

import pytest

from dlbricks_core.machine.system import MachineState

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz
stepping\t: 4
flags\t\t: fpu sse2 sse4_2 fma f16c avx avx2 smep sme avx512f avx512vl

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: another
"""
MEMINFO = """MemTotal:       {total} kB
MemFree:          100000 kB
MemAvailable:   {available} kB
SwapTotal:      {swap} kB
SwapFree:       {swap_free} kB
HugePages_Total:       0
"""
CPUS = "sys/devices/system/cpu"


class Files:
    """Writes a tree of files under a folder, and presents it as a machine."""

    def __init__(self, root):
        self.root = root

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n")
        return self

    def memory(self, total=16 << 20, available=12 << 20, swap=0, swap_free=0):
        text = MEMINFO.format(total=total, available=available, swap=swap, swap_free=swap_free)
        return self.write("proc/meminfo", text)

    def topology(self, threads_of_cores):
        """Writes one core for each tuple of CPUs."""
        cpus = sorted(cpu for threads in threads_of_cores for cpu in threads)
        for threads in threads_of_cores:
            for cpu in threads:
                listed = ",".join(map(str, threads))
                self.write(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list", listed)
        return self.write(f"{CPUS}/online", ",".join(map(str, cpus)))

    def each_cpu(self, path, *texts):
        for cpu, text in enumerate(texts):
            self.write(f"{CPUS}/cpu{cpu}/{path}", text)
        return self

    def virtual(self):
        """Makes it a virtual machine."""
        text = (self.root / "proc/cpuinfo").read_text()
        return self.write("proc/cpuinfo", text.replace("fpu", "fpu hypervisor"))

    def machine(self, *cpus):
        return MachineState(self.root, frozenset(cpus or {0}))


@pytest.fixture
def bare(tmp_path):
    """A machine that says nothing about itself, like some containers."""
    return Files(tmp_path)


@pytest.fixture
def server(tmp_path):
    """Two cores of two threads each, as a fresh installation leaves them."""
    files = Files(tmp_path).memory().topology([(0, 2), (1, 3)])
    files.write("proc/cpuinfo", XEON)
    files.write("proc/self/cgroup", "0::/user.slice/session.scope")
    files.each_cpu("cpufreq/scaling_governor", *["powersave"] * 4)
    files.each_cpu("cpufreq/scaling_max_freq", *["3500000"] * 4)
    files.each_cpu("thermal_throttle/core_throttle_count", "0", "3", "0", "3")
    files.write(f"{CPUS}/intel_pstate/no_turbo", "0").write(f"{CPUS}/smt/active", "1")
    files.write("sys/devices/system/node/online", "0-1")
    files.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    for index, (level, kind, size, shared) in enumerate(
        [(1, "Data", "32K", "0,2"), (2, "Unified", "1024K", "0,2"), (3, "Unified", "25M", "0-3")]
    ):
        folder = f"{CPUS}/cpu0/cache/index{index}"
        files.write(f"{folder}/level", level).write(f"{folder}/type", kind)
        files.write(f"{folder}/size", size).write(f"{folder}/shared_cpu_list", shared)
    clock = "sys/devices/system/clocksource/clocksource0"
    files.write(f"{clock}/current_clocksource", "hpet")
    files.write(f"{clock}/available_clocksource", "tsc hpet acpi_pm")
    return files
