"""Plugins that are broken in every way, as distributions that are really installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

from dlbricks_core.plugins import discover, registry

pytestmark = pytest.mark.process

PREAMBLE = """
from dlbricks_core.backends import Backend
from dlbricks_core.importers import Importer, ModelCollection
"""

BACKEND = """
class Good(Backend):
    name = "NAME"
    distribution = "numpy"
    def version(self): return "7.7"
    def timer(self, settings): raise NotImplementedError
    def check(self, model): return {}
"""

GROUPS = {"backend": "dlbricks.backends", "importer": "dlbricks.importers",
          "models": "dlbricks.models"}  # fmt: skip


#: What commands that look at all plugins import, whatever these tests install.
IMPORTED = (
    "dlbricks_accuracy.report",
    "dlbricks_core.commands.list.actions",
    "dlbricks_core.commands.options.shared",
    "dlbricks_core.estimation.results",
    "dlbricks_core.importers.models",
    "dlbricks_core.commands.estimate.terminal",
    # Sorts all configurations by their numbers of parameters.
    "dlbricks_decoders.collection:_published",
    "dlbricks_explain.command",
    "dlbricks_fleet.command",
    "dlbricks_graph.command",
    "dlbricks_pages.command",
    "dlbricks_private.command",
    "dlbricks_serving.commands.advise",
    "dlbricks_study.command",
    "dlbricks_survey.command",
    "scipy.linalg",
)


class Site:
    """A folder of distributions that a new process has on its path."""

    def __init__(self, folder: Path, path: str, nurseries) -> None:
        self.folder, self.path, self.nurseries = folder, path, nurseries
        folder.mkdir()

    def install(self, name, source, target="Good", kind="backend", dist=None):
        module = f"{(dist or name).replace('-', '_')}_module"
        (self.folder / f"{module}.py").write_text(PREAMBLE + dedent(source).replace("NAME", name))
        info = self.folder / f"{(dist or 'dlbricks-' + name).replace('-', '_')}-1.2.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {dist or 'dlbricks-' + name}\nVersion: 1.2\n"
        )
        (info / "entry_points.txt").write_text(f"[{GROUPS[kind]}]\n{name} = {module}:{target}\n")
        return info

    def run(self, *arguments, status=0):
        variables = {**os.environ, "PYTHONPATH": self.path, "COLUMNS": "200",
                     "XDG_CACHE_HOME": str(self.folder.parent / "cache")}  # fmt: skip
        begun = self.nurseries.command(arguments, variables, self.folder.parent, IMPORTED)
        out, err = begun.communicate(timeout=180)
        assert begun.returncode == status, out + err
        return subprocess.CompletedProcess(arguments, status, out, err)

    def plugins(self):
        found = json.loads(self.run("list", "plugins", "--json", "-").stdout)["plugins"]
        return {(p["kind"], p["name"]): p for p in found}

    def backend(self, name):
        """The plugin; asserts that its neighbours are as they should be."""
        found = self.plugins()
        assert found["importer", "onnx"]["status"] == "ok"
        assert found["backend", "sound"]["status"] == "ok"
        assert found["backend", "sound"]["framework"] == "numpy 7.7"
        return found["backend", name]


@pytest.fixture
def site(tmp_path, path_with, nurseries):
    site = Site(tmp_path / "site", path_with(tmp_path / "site"), nurseries)
    site.install("sound", BACKEND)
    return site


def test_a_sound_plugin_is_listed_with_its_features(site):
    source = BACKEND.replace(
        'distribution = "numpy"',
        'distribution = "numpy"\n    default_models = ("onnx:light_vgg19",)\n'
        '    options = {"mode": BackendOption("a", ("a", "b"), "How.")}',
    )
    site.install("rich", "from dlbricks_core.backends import BackendOption\n" + source)
    plugin = site.backend("rich")
    assert plugin["distribution"] == "dlbricks-rich"
    assert plugin["version"] == "1.2"
    assert plugin["options"] == {"mode": {"default": "a", "choices": ["a", "b"], "help": "How."}}
    assert plugin["capabilities"] == {"default_models": ["onnx:light_vgg19"]}
    shown = site.run("list", "plugins").stdout
    assert "--backend-option mode=a|b (default a): How." in shown
    assert "default models onnx:light_vgg19" in shown
    assert "suffixes .onnx, .pb" in shown


def test_what_plugins_print_is_not_in_the_output(site):
    printing = BACKEND.replace('return "7.7"', "print('at a call'); return '7.7'")
    compiled = "import ctypes, os\nos.write(1, b'unbuffered')\nctypes.CDLL(None).puts(b'kept by C')"
    site.install("loud", f"print('at import')\n{compiled}\n{printing}")
    assert site.backend("loud")["status"] == "ok"  # the output is JSON
    told = site.run("list", "plugins", "--json", "-").stderr
    assert "at import" in told
    assert "at a call" in told
    assert "unbuffered" in told
    assert "kept by C" in told


def test_a_class_that_raises_when_it_is_looked_at_does_not_affect_the_others(site):
    source = """
    class Shy(type(Backend)):
        def __getattribute__(self, name):
            if name == "name":
                raise RuntimeError("go away")
            return super().__getattribute__(name)
    """
    site.install("shy", dedent(source) + BACKEND.replace("(Backend)", "(Backend, metaclass=Shy)"))
    assert site.backend("shy")["problem"] == "RuntimeError: go away"


#: Source of a plugin that cannot be used, what is said of it, and the cure.
BROKEN = [
    ("import nosuchframework", "ModuleNotFoundError: No module named 'nosuchframework'",
     "pip install dlbricks-NAME"),
    ("from MODULE import gone", "ImportError: cannot import name 'gone'",
     "Install dlbricks-NAME again"),
    ("pass", "AttributeError: module 'MODULE' has no attribute 'Good'",
     "Install dlbricks-NAME again"),
    ("raise OSError('libfoo.so: cannot open\\nshared object file')",
     "OSError: libfoo.so: cannot open shared object file",
     "Install dlbricks-NAME again"),
    ("raise RuntimeError('wrong CPU')", "RuntimeError: wrong CPU", "Report this"),
    ("assert False, 'no'", "AssertionError: no", "Report this"),
    ("raise SystemExit(3)", "SystemExit: 3", "Report this"),
    ("raise GeneratorExit", "GeneratorExit: no message", "Report this"),
    ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd", "Report this"),
    ("def broken(:", "SyntaxError", "Report this"),
    ("class Good: name = 'NAME'", "is not a subclass of dlbricks_core.backends.base.Backend",
     "Report this"),
    ("Good = 3", "is not a subclass", "Report this"),
    ("class Good(Backend): name = 'NAME'", "does not define check, timer, version",
     "Report this"),
    (BACKEND.replace("NAME", "other"), "calls itself 'other', and its entry point 'NAME'",
     "Report this"),
    (BACKEND.replace('return "7.7"', 'raise SystemExit("bye")'), "SystemExit: bye",
     "Report this"),
    (BACKEND.replace('return "7.7"', "import nosuchframework"), "ModuleNotFoundError",
     "pip install dlbricks-NAME"),
    (BACKEND + "    options = 5", "AttributeError", "Report this"),
    (BACKEND + "    def __init__(self, size): pass", "TypeError", "Report this"),
    ("from dlbricks_core.errors import PluginError\n"
     + BACKEND.replace('return "7.7"', 'raise PluginError("no numpy", hint="pip install it")'),
     "no numpy", "pip install it"),
]  # fmt: skip


def named(text, number):
    """A text of the table above for the plugin of that number."""
    name = f"bad{number}"
    return text.replace("MODULE", f"dlbricks_{name}_module").replace("NAME", name)


@pytest.fixture(scope="module")
def wards(tmp_path_factory, path_with, nurseries):
    """All of them installed beside a sound one, and what is listed."""
    folder = tmp_path_factory.mktemp("broken") / "site"
    site = Site(folder, path_with(folder), nurseries)
    site.install("sound", BACKEND)
    for number, (source, _, _) in enumerate(BROKEN):
        site.install(f"bad{number}", named(source, number), dist=f"dlbricks-bad{number}")
    return site, site.plugins()


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_a_broken_plugin_is_listed_with_reason_and_cure(wards, number):
    plugin = wards[1]["backend", f"bad{number}"]
    _, problem, cure = BROKEN[number]
    assert plugin["status"] == "broken"
    assert named(problem, number) in plugin["problem"]
    assert "\n" not in plugin["problem"]
    assert named(cure, number) in plugin["cure"]
    assert plugin["distribution"] in plugin["cure"] or plugin["cure"] == "pip install it"


def test_broken_plugins_do_not_change_the_others(wards):
    found = wards[1]
    broken = {name for (_, name), p in found.items() if p["status"] == "broken"}
    # Plugins of DLBricks may lack their frameworks here.
    lacking = {n for n in broken if "is not installed" in found["backend", n]["problem"]}
    assert broken - (lacking & {"llamacpp"}) == {f"bad{number}" for number in range(len(BROKEN))}
    assert found["backend", "sound"]["framework"] == "numpy 7.7"
    assert found["importer", "onnx"]["status"] == "ok"


@pytest.mark.parametrize("number", [0, -5, -4, -3, -2, -1])
def test_a_broken_plugin_that_is_asked_for_is_an_error_for_users(wards, number):
    number %= len(BROKEN)
    refused = wards[0].run("--backend", f"bad{number}", "onnx:light_squeezenet", status=2)
    assert "Traceback" not in refused.stderr
    assert named(BROKEN[number][1], number) in refused.stderr
    assert named(BROKEN[number][2], number) in refused.stderr


def test_an_interrupt_by_the_user_is_not_a_fault_of_the_plugin(site):
    site.install("bad", "raise KeyboardInterrupt")
    assert "Interrupted" in site.run("list", "plugins", status=130).stderr


def test_two_owners_of_a_name_are_both_named_and_neither_is_used(site):
    site.install("twin", BACKEND, dist="dlbricks-one")
    site.install("twin", BACKEND, dist="dlbricks-two")
    site.backend("twin")
    found = json.loads(site.run("list", "plugins", "--json", "-").stdout)["plugins"]
    twins = [p for p in found if p["name"] == "twin"]
    assert [p["distribution"] for p in twins] == ["dlbricks-one", "dlbricks-two"]
    for plugin in twins:
        assert plugin["status"] == "broken"
        assert "dlbricks-one" in plugin["problem"]
        assert "dlbricks-two" in plugin["problem"]
        assert "pip uninstall" in plugin["cure"]
    refused = site.run("--backend", "twin", "onnx:light_squeezenet", status=2)
    assert "claimed by" in refused.stderr


def test_two_owners_of_the_same_class_clash_too(site):
    for dist in ("dlbricks-one", "dlbricks-two"):
        info = site.install("twin", BACKEND, dist=dist)
        (info / "entry_points.txt").write_text(
            "[dlbricks.backends]\ntwin = dlbricks_one_module:Good"
        )
    assert "claimed by" in site.backend("twin")["problem"]


IMPORTER = """
class Good(Importer):
    name = "NAME"
    suffixes = (".aaa",)
    def load(self, path, options=None): raise NotImplementedError
"""


#: What each of these importers has instead of a part of a sound one.
FAILING = [
    ("suffixes = (", "def handles(self, spec): raise SystemExit(spec)\n    suffixes = ("),
    ('suffixes = (".aaa",)', "pass"),
    ('suffixes = (".aaa",)', "suffixes = 3"),
    ('suffixes = (".aaa",)', "def __init__(self): raise RuntimeError"),
    ('suffixes = (".aaa",)', "@property\n    def suffixes(self): raise OSError"),
]


def test_a_failing_importer_leaves_files_to_the_others(site):
    names = [f"aaa{number}" for number in range(len(FAILING))]  # they come before "onnx"
    for name, change in zip(names, FAILING, strict=True):
        site.install(name, IMPORTER.replace(*change), kind="importer")
    import onnx

    light = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    assert "squeezenet" in site.run("show", light).stdout
    found = site.plugins()
    assert {found["importer", name]["status"] for name in names} == {"broken"}
    assert "onnx:light_squeezenet" in site.run("list").stdout
    (site.folder / "some.zzz").touch()
    refused = site.run("show", site.folder / "some.zzz", status=2).stderr
    assert ".onnx" in refused
    for name in names:
        assert f"importer {name} is broken" in " ".join(refused.split())


def test_a_failing_collection_does_not_affect_the_others(site):
    source = """
    class Good(ModelCollection):
        name = "NAME"
        def names(self): raise SystemExit("none")
        def load(self, name, options=None): raise NotImplementedError
    """
    site.install("zoo", source, kind="models")
    assert site.plugins()["models", "zoo"]["problem"] == "SystemExit: none"
    listed = site.run("list")
    assert "onnx:light_squeezenet" in listed.stdout
    assert "SystemExit: none" in listed.stderr


def test_installed_and_removed_plugins_are_seen_at_once(site):
    assert ("backend", "late") not in site.plugins()
    info = site.install("late", BACKEND)
    assert site.plugins()["backend", "late"]["status"] == "ok"
    # The same file with other content and the old times: an upgrade within a clock tick.
    entry = info / "entry_points.txt"
    before = entry.stat()
    entry.write_text("[dlbricks.backends]\nlast = late_module:Good\n")
    os.utime(entry, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = site.plugins()
    assert ("backend", "late") not in found
    assert "calls itself 'late'" in found["backend", "last"]["problem"]
    shutil.rmtree(info)
    assert {name for kind, name in site.plugins()} & {"late", "last"} == set()


def test_changes_are_seen_within_one_process(site):
    script = """
import sys
from pathlib import Path
from dlbricks_core.plugins import discover
names = lambda: "sound" in {p.name for p in discover("backend")}
info, away = Path(sys.argv[1]), Path(sys.argv[1] + ".away")
seen = [names()]
info.rename(away)
seen.append(names())
away.rename(info)
seen.append(names())
sys.path.remove(str(info.parent))
seen.append(names())
print(seen)
"""
    info = site.folder / "dlbricks_sound-1.2.dist-info"
    done = subprocess.run(
        [sys.executable, "-c", script, str(info)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": site.path},
    )  # fmt: skip
    assert done.stdout.strip() == "[True, False, True, False]"


def test_distributions_are_read_once_while_none_comes_or_goes(site, monkeypatch):
    read = []
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a new folder beside the plugin counts
    monkeypatch.syspath_prepend(str(site.folder))
    monkeypatch.setattr(registry, "entry_points", lambda: read.append("all") or entry_points())
    first = discover("backend")
    assert discover("backend") == first
    discover("importer")
    assert read == ["all"]


def test_the_core_needs_no_pytest():
    script = """
import sys
sys.modules["pytest"] = None
import click
from dlbricks_core.cli.main import cli
top = click.Context(cli)
for name in cli.list_commands(top):
    command = cli.get_command(top, name)
    for action in command.list_commands(top) if isinstance(command, click.Group) else ():
        command.get_command(top, action)
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
