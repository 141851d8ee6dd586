"""Hosts of a network on one machine, each with an address and processes of its own.

A host is a set of Linux namespaces: network, processes, mounts and name. The network is one more,
with a bridge that all hosts are connected to. Nothing is given a name outside of them, so that
networks of several test processes never meet. A namespace lasts as long as the process that it
began with. That process reads from a pipe of the tests, and ends when the pipe is closed: with the
tests, even if those are killed. The kernel then ends all other processes of the host and removes
its network.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_ENTERED = ("--net", "--pid", "--mount", "--uts")

_BOOT = """
set -e
hostname "$1"
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/lock /run/cgroup
chmod 1777 /run/lock
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
echo "$2" > /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
ip link set lo up
echo ready
cat > /run/off
"""
"""What a host does when it starts. Its lock files, shared memory, network interfaces and boot id
are its own: other programs take it for a machine by itself."""


def refused():
    """Why this process may not make hosts; empty if it may."""
    asked = subprocess.run(["unshare", *_ENTERED, "--fork", "--mount-proc", "sh", "-c", _BOOT,
                            "sh", "probe", "probe"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)  # fmt: skip
    return asked.stderr.strip() if asked.returncode else ""


class Network:
    """A switch with a cable to each host; the hosts' addresses are 10.77.0.1 and so on.

    Args:
        folder: Folder in which each host has one of its own.
    """

    MASK = "10.77.0.0/24"

    def __init__(self, folder):
        self.folder = Path(folder)
        self.hosts = []
        self.switch = _Namespaces("switch")
        self.switch.ip("link", "add", "bridge", "type", "bridge")
        self.switch.ip("link", "set", "bridge", "up")

    def host(self, name, cpus=None):
        """A new host that is switched on.

        Args:
            name: Name of the host.
            cpus: CPUs that the host has; those of this process by default. A host with fewer
                CPUs is another system than its neighbours.
        """
        number = len(self.hosts) + 1
        host = Host(name, f"10.77.0.{number}", f"port{number}", self, cpus)
        self.hosts.append(host)
        host.power_on()
        return host

    def close(self):
        """Removes all hosts and the network."""
        for host in self.hosts:
            host.power_off()
        self.switch.end()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


@dataclass(eq=False)
class Host:
    """A host of a network.

    Attributes:
        name: Name that the host's processes see.
        address: IPv4 address.
        port: Name of the switch's port to this host.
        network: Network that the host is connected to.
        cpus: CPUs that the host's processes may use; ``None`` for all.
        commands: Commands that were started since the host was last switched on.
    """

    name: str
    address: str
    port: str
    network: Network
    cpus: set | None = None
    commands: list = field(default_factory=list)
    _spaces: "_Namespaces | None" = None

    @property
    def folder(self):
        """Folder of the host's files; they outlast that it is switched off."""
        return self.network.folder / self.name

    def power_on(self):
        """Starts the host; it has the address and the files that it had."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._spaces = spaces = _Namespaces(self.name, self.cpus)
        switch = self.network.switch
        _checked("ip", "link", "add", "eth0", "netns", str(spaces.pid), "type", "veth",
                 "peer", "name", self.port, "netns", str(switch.pid))  # fmt: skip
        switch.ip("link", "set", self.port, "master", "bridge", "up")
        spaces.ip("address", "add", f"{self.address}/24", "dev", "eth0")
        spaces.ip("link", "set", "eth0", "up")

    def power_off(self):
        """Ends all processes at once. Nobody says goodbye: packets to them are not answered."""
        if self._spaces is None:
            return
        # The cable is pulled and put away: a process that ends has no time to say goodbye.
        self.network.switch.ip("link", "delete", self.port)
        self._spaces.end()
        self._spaces = None
        for command in self.commands:
            command.process.wait()
        self.commands.clear()

    def unplug(self):
        """Pulls the network cable: neither FIN nor RST reaches anyone."""
        self.network.switch.ip("link", "set", self.port, "down")

    def plug(self):
        """Connects the network cable again."""
        self.network.switch.ip("link", "set", self.port, "up")

    def freeze(self):
        """Stops all processes as a host that hangs: its kernel still answers the network."""
        while running := [each for each in self.processes() if each.status() not in _STOPPED]:
            for each in running:
                each.send_signal(signal.SIGSTOP)

    def thaw(self):
        """Lets stopped processes go on."""
        for each in self.processes():
            each.send_signal(signal.SIGCONT)
        for command in self.commands:
            # Who entered the namespaces stops with the process that it waits for.
            command.process.send_signal(signal.SIGCONT)

    def processes(self):
        """Processes of the host, without those that hold it."""
        return [] if self._spaces is None else self._spaces.processes()

    def entered(self, *options):
        """Words before a command that make it one of this host's."""
        return self._spaces.entered(*options)

    def start(self, *words, **variables):
        """Starts a command that has this host's home folder.

        Args:
            words: Program and arguments.
            variables: Environment variables besides those of this process.
        """
        return self._started(words, {**os.environ, **self._places(), **variables})

    def python(self, *words, **variables):
        """Starts Python with some arguments; see :meth:`start`."""
        return self.start(sys.executable, *words, **variables)

    def answering(self, program, *words):
        """Starts a Python program that answers each line of its input with a line of JSON.

        Args:
            program: The program.
            words: Its arguments.

        Returns:
            A function that asks with a line, and returns the answer.
        """
        process = subprocess.Popen(
            [*self.entered(), sys.executable, "-c", program, *words], cwd=self.folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **self._places()},
        )  # fmt: skip

        def ask(line):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return ask

    def _started(self, words, environment):
        folder = self.folder
        stem = folder / f"command{len(list(folder.glob('command*.out')))}"
        out, errors = stem.with_suffix(".out"), stem.with_suffix(".err")
        with out.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen([*self.entered(), *map(str, words)], cwd=folder, text=True,
                                       stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                       env=environment)  # fmt: skip
        self.commands.append(Command(process, out, errors))
        return self.commands[-1]

    def _places(self):
        places = {"HOME": self.folder, "TMPDIR": self.folder / "tmp"}
        for kind in ("cache", "config", "data", "state"):
            places[f"XDG_{kind.upper()}_HOME"] = self.folder / kind
        for place in places.values():
            place.mkdir(parents=True, exist_ok=True)
        return {name: str(place) for name, place in places.items()} | {"XDG_RUNTIME_DIR": "/run"}


@dataclass(eq=False)
class Command:
    """A command of a host.

    Attributes:
        process: Process that entered the host and waits for the command there.
        out: File with what the command wrote to standard output.
        errors: File with what it wrote to standard error.
    """

    process: subprocess.Popen
    out: Path
    errors: Path

    @property
    def inside(self):
        """The process in the host; ``None`` once it has ended."""
        return next(iter(psutil.Process(self.process.pid).children()), None)

    def jobs(self):
        """Processes that the command started, and those that they started."""
        inside = self.inside
        return [] if inside is None else inside.children(recursive=True)

    def kill(self, how=signal.SIGKILL):
        """Sends a signal to the process in the host, and to no other."""
        self.inside.send_signal(how)

    def go_on(self):
        """Lets the command go on that a signal has stopped, and with it the process that waits."""
        self.kill(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def wait(self, timeout_s=180):
        """Exit status of the command.

        Raises:
            AssertionError: If it still runs, with what it wrote.
        """
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.said()}") from None

    def wait_for(self, text, timeout_s=180):
        """Waits until the command has written a text."""
        wait_until(lambda: self.says(text) or self.process.poll() is not None, timeout_s)
        assert self.says(text), self.said()

    def says(self, text):
        """Whether the command has written a text, wherever its lines are broken."""
        return text in " ".join(self.said().split())

    def said(self):
        """What the command wrote to standard output and to standard error."""
        return self.out.read_text() + self.errors.read_text()


def wait_until(holds, timeout_s=180, interval_s=0.05):
    """Waits until a function returns what is true, and returns that.

    Raises:
        AssertionError: If it does not within a number of seconds.
    """
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(interval_s)
    raise AssertionError(f"waited {timeout_s} s in vain")


_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)


class _Namespaces:
    """Namespaces and the process that holds them.

    Args:
        name: Name of the host.
        cpus: CPUs that all processes in the namespaces may use; ``None`` for all.
    """

    def __init__(self, name, cpus=None):
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus or own)
        try:
            self._holder = subprocess.Popen(
                ["unshare", *_ENTERED, "--fork", "--kill-child", "--mount-proc",
                 "sh", "-c", _BOOT, "sh", name, str(uuid.uuid4())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        finally:
            os.sched_setaffinity(0, own)
        assert self._holder.stdout.readline() == "ready\n", self._holder.stderr.read()
        self._first = psutil.Process(self._holder.pid).children()[0]
        self.pid = self._first.pid
        self.cpus = cpus
        self._space = _process_space(self.pid)
        reader = wait_until(self._first.children)
        self._own = {self.pid, *(each.pid for each in reader)}

    def processes(self):
        """Processes in the namespaces, the holder left out."""
        within = (each for each in psutil.process_iter() if each.pid not in self._own)
        return [each for each in within if _process_space(each.pid) == self._space]

    def entered(self, *options):
        """Words before a command that make it run in the namespaces."""
        pinned = ["taskset", "--cpu-list", ",".join(map(str, self.cpus))] if self.cpus else []
        # A process that waits for a frozen one is stopped itself: it would outlast the tests.
        mortal = ["setpriv", "--pdeathsig", "KILL", "--"]
        return [*mortal, *pinned, "nsenter", "--target", str(self.pid), *_ENTERED, *options, "--"]

    def ip(self, *words):
        """Runs ``ip`` in the network namespace."""
        _checked("nsenter", "--target", str(self.pid), "--net", "--", "ip", *words)

    def end(self):
        """Ends all processes; the kernel removes the namespaces."""
        self._first.kill()
        self._holder.communicate()


def _checked(*words):
    subprocess.run(words, check=True)


def _process_space(pid):
    """Number of the namespace that a process is in; ``None`` once it has ended."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None
