"""The templates of plugins: installed into an environment of their own, listed, used, tested."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.backends import Backend, CpuTimer, Traits
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Parallel, Sequential
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import save_onnx, to_onnx
from dlbricks_core.testing import cases

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "examples" / "backend"
ESTIMATING = ROOT / "examples" / "predictor"
COMMAND = ROOT / "examples" / "command"
OPENVINO = ROOT / "examples" / "openvino"
GUIDE = ROOT / "docs" / "guide" / "backend.md"
ESTIMATING_GUIDE = GUIDE.with_name("estimating.md")
COMMAND_GUIDE = GUIDE.with_name("commands.md")
QUANTITY = GUIDE.with_name("quantity.md")


def call(*command: object, status: int = 0, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False,
        env={**clean, **environment}, cwd=environment.get("HOME"),
    )  # fmt: skip
    assert done.returncode == status, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def copied(source: Path, target: Path, *names: str) -> Path:
    """A copy to build from: a build leaves files beside its sources."""
    for name in names:
        if (source / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
            shutil.copytree(source / name, target / name, ignore=ignored)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / name)
    return target


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the core, both plugins and a guide's probe.

    One call installs them all: another one would look for all that they need once more.
    """
    folder = tmp_path_factory.mktemp("template")
    probe = folder / "probe"
    probe.mkdir()
    for language, name in (("toml", "pyproject.toml"), ("python", "first_run_probe.py")):
        (code,) = re.findall(rf"^```{language}\n(.*?)^```", QUANTITY.read_text(), re.DOTALL | re.M)
        (probe / name).write_text(code)
    core = copied(ROOT, folder / "core", "pyproject.toml", "README.md", "dlbricks_core")
    plugin = copied(TEMPLATE, folder / "plugin", "pyproject.toml", "src", "tests")
    estimating = copied(ESTIMATING, folder / "estimating", "pyproject.toml", "src")
    command = copied(COMMAND, folder / "command", "pyproject.toml", "src", "tests")
    # Installed from outside: the new environment needs no pip of its own, and no bytecode.
    call(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    programs = folder / "env" / "bin"
    call(
        sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q",
        "--no-compile", "-c", ROOT / "constraints.txt", core, plugin, estimating, command, probe,
        "pytest",
    )  # fmt: skip
    return programs


@pytest.fixture
def private(tmp_path: Path) -> dict[str, str]:
    """A home of its own: caches and results of this user stay out."""
    return {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}


@pytest.fixture(scope="module")
def listed(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ``dlbricks plugins`` lists in the new environment."""
    home = str(tmp_path_factory.mktemp("home"))
    told = call(environment / "dlbricks", "plugins", "--json", "-", HOME=home, XDG_CACHE_HOME=home)
    found: list[dict[str, Any]] = json.loads(told)["plugins"]
    return found


def test_the_template_is_listed(listed: list[dict[str, Any]]) -> None:
    backends = [p for p in listed if p["kind"] == "backend"]
    assert [(p["name"], p["distribution"], p["status"]) for p in backends] == [
        ("reference", "dlbricks-reference", "ok")
    ]
    assert backends[0]["framework"].startswith("onnx ")


def test_a_composer_and_a_predictor_of_another_distribution_are_listed(
    listed: list[dict[str, Any]],
) -> None:
    assert {
        (p["kind"], p["name"], p["status"])
        for p in listed
        if p["distribution"] == "dlbricks-example"
    } == {("composer", "elementwise", "ok"), ("predictor", "proportional", "ok")}


def test_the_template_can_be_used(environment: Path, private: dict[str, str]) -> None:
    report = Path(private["HOME"]) / "report.json"
    network = Path(private["HOME"]) / "block.onnx"
    given = cases.network("residual_block")
    save_onnx(to_onnx(given.model, given.weights), network)
    call(
        environment / "dlbricks", "--backend", "reference", network,
        "--runs", "1", "--end-to-end", "--json", report, **private,
    )  # fmt: skip
    found = json.loads(report.read_text())
    assert found["backend"]["name"] == "reference"
    (model,) = found["models"]
    assert not model["partial"]
    assert model["native_ms"] > 0
    assert model["estimate_ms"] > 0
    assert model["measured_ms"] > 0
    assert found["failures"] == []


def test_the_template_leaves_cold_tensors_cold() -> None:
    # The file alone: the template is not installed here.
    path = TEMPLATE / "src" / "dlbricks_reference" / "timer.py"
    spec = importlib.util.spec_from_file_location("template_timer", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    loaded = module.ReferenceTimer().load(cases.cold_cache())
    assert [array.shape for array in loaded.warmed] == [(1, 64)]


def test_the_template_passes_its_tests(environment: Path, private: dict[str, str]) -> None:
    tests = environment.parents[1] / "plugin" / "tests"
    shown = call(
        environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, **private
    )
    assert int(re.search(r"(\d+) passed", shown)[1]) > 140


def perceptron(path: Path, *layers: tuple[str, int]) -> Path:
    """Saves a network: for each layer a matrix product of that width, then that operator."""
    nodes, weights, width, before = [], [], 8, "x"
    for i, (operator, outputs) in enumerate(layers):
        weight = np.ones((width, outputs), np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [before, f"w{i}"], [f"p{i}"]))
        nodes.append(helper.make_node(operator, [f"p{i}"], [f"y{i}"]))
        width, before = outputs, f"y{i}"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size])
             for name, size in (("x", 8), (before, width))]  # fmt: skip
    graph = helper.make_graph(nodes, path.stem, infos[:1], infos[1:], weights)
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def test_a_composer_and_a_predictor_of_another_distribution_are_used(
    environment: Path, private: dict[str, str]
) -> None:
    """Each is one class in one file; nothing else knows about them."""
    home = Path(private["HOME"])

    def told(command: str, network: Path, *options: str, status: int = 0) -> dict[str, Any]:
        call(
            environment / "dlbricks", command, network, "--backend", "reference", "--runs", "2",
            *options, "--json", home / "told.json", status=status, **private,
        )  # fmt: skip
        found: dict[str, Any] = json.loads((home / "told.json").read_text())
        return found

    timed = told(
        "run", perceptron(home / "a.onnx", ("Relu", 16), ("Relu", 32)), "--composer", "elementwise"
    )
    assert (timed["totals"]["unique_bricks"], timed["totals"]["timed_bricks"]) == (4, 3)
    derived = [brick for brick in timed["bricks"] if brick["origin"] == "derived"]
    assert [brick["layers"] for brick in derived] == [["Relu"]]
    (model,) = timed["models"]
    assert not model["partial"]
    assert model["origin"].keys() == {"measured", "derived"}

    other = perceptron(home / "b.onnx", ("Relu", 16), ("Relu", 32), ("Tanh", 16))
    lacking = told("estimate", other, "--composer", "elementwise", "--predictor", "none", status=3)
    assert lacking["models"][0]["partial"]
    whole = told("estimate", other, "--composer", "elementwise", "--predictor", "proportional")
    (model,) = whole["models"]
    assert not model["partial"]
    assert sum(model["origin"].values()) == pytest.approx(1)
    assert model["origin"]["predicted"] > 0
    origins = {brick["origin"]: brick for brick in whole["bricks"]}
    assert origins.keys() == {"stored", "derived", "predicted"}
    low, high = origins["predicted"]["interval_ms"]
    assert low < origins["predicted"]["latency_ms"] < high
    assert whole["settings"]["predictor"] == "proportional"


@pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None,
    reason="OpenVINO is not installed, and nothing else needs it: pip install openvino",
)
def test_openvino_passes_its_tests(tmp_path: Path, private: dict[str, str]) -> None:
    plugin = copied(OPENVINO, tmp_path / "plugin", "pyproject.toml", "src", "tests")
    installed = tmp_path / "installed"
    call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", installed, plugin)
    shown = call(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", plugin / "tests",
        PYTHONPATH=os.pathsep.join((str(installed), str(ROOT))), **private,
    )  # fmt: skip
    assert int(re.search(r"(\d+) passed", shown)[1]) > 160


def blocks() -> list[tuple[str, str]]:
    """Code of the guide: the file that the line before it names, if any, and the code."""
    text = GUIDE.read_text()
    found = re.findall(
        r"^(?:`([\w./-]+)`)?[^\n]*:\n\n```\w+\n(.*?)```$", text, re.DOTALL | re.MULTILINE
    )
    assert len(found) == text.count("```") / 2, (
        "a block does not follow a line that ends in a colon"
    )
    return found


def test_the_guide_shows_the_files_as_they_are() -> None:
    shown = {name: "" for name, _ in blocks() if name}
    for name, block in blocks():
        if name:
            assert block in (TEMPLATE / name).read_text(), f"{name} lacks:\n{block}"
            shown[name] += block
    for name in ("pyproject.toml", "tests/test_conformance.py"):
        assert shown[name] == (TEMPLATE / name).read_text()
    for method in ("load", "load_native", "run", "warm_io", "release", "outputs"):
        assert f"def {method}(" in shown["src/dlbricks_reference/timer.py"]


def test_the_guides_other_code_runs() -> None:
    namespace: dict[str, Any] = {}
    for name, block in blocks():
        if not name and not block.lstrip().startswith("$"):
            exec(block, namespace)
    found = namespace["execute"](cases.network("shared_weights"))
    for name, value in cases.expected("shared_weights").items():
        assert not cases.difference(found[name], value, 1e-5)
    with pytest.raises(UnsupportedError, match="Conv"):
        namespace["execute"](cases.network("conv"))


@pytest.mark.parametrize(
    ("guide", "folder", "names"),
    [
        (ESTIMATING_GUIDE, ESTIMATING, ["dlbricks_example/composer.py",
                                        "dlbricks_example/predictor.py"]),
        (COMMAND_GUIDE, COMMAND, ["dlbricks_widest/announced.py", "dlbricks_widest/command.py"]),
    ],
)  # fmt: skip
def test_pages_show_the_files_as_they_are(guide: Path, folder: Path, names: list[str]) -> None:
    shown = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```$", guide.read_text(),
                       re.DOTALL | re.MULTILINE)  # fmt: skip
    assert [name for name, _ in shown] == ["pyproject.toml", *(f"src/{name}" for name in names)]
    for name, block in shown:
        assert block in (folder / name).read_text(), f"{name} lacks:\n{block}"


def test_a_command_of_another_distribution_is_like_those_of_dlbricks(
    environment: Path, listed: list[dict[str, Any]], private: dict[str, str]
) -> None:
    assert [
        (p["name"], p["distribution"], p["status"]) for p in listed if p["kind"] == "command"
    ] == [("widest", "dlbricks-widest", "ok")]
    assert "widest     Show the largest tensor" in call(environment / "dlbricks", "--help")
    shown = call(environment / "dlbricks", "widest", "onnx:light_squeezenet", **private)
    assert re.fullmatch(r"onnx:light_squeezenet: \S+, 3\.15 MB\n", shown)
    tests = environment.parents[1] / "command" / "tests"
    call(environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, **private)


def test_the_page_on_composers_overrides_a_total() -> None:
    (code,) = re.findall(r"^```python\n(from .*?)```$", ESTIMATING_GUIDE.read_text(),
                         re.DOTALL | re.MULTILINE)  # fmt: skip
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    cut = BrickSet.of([cases.network("residual_block").model]).models[0]
    costs = {signature: np.array([2.0, 3.0]) for signature in cut.counts}
    between, most, least = (
        composer.total(cut, costs)
        for composer in (namespace["Between"](), Sequential(), Parallel())
    )
    assert (least <= between).all()
    assert between == pytest.approx((most + least) / 2)


@pytest.mark.parametrize(("shown", "real"), [("AllOfBackend", Backend), ("AllOfTimer", CpuTimer)])
def test_the_guide_shows_every_optional_hook(shown: str, real: type) -> None:
    namespace: dict[str, Any] = {}
    for name, block in blocks():
        if not name:
            exec(block, namespace)
    hooks = {
        name: tuple(inspect.signature(value).parameters.values())
        for name, value in vars(real).items()
        if inspect.isfunction(value) and name not in real.__abstractmethods__
    }
    given = {
        name: tuple(inspect.signature(value).parameters.values())
        for name, value in vars(namespace[shown]).items()
        if inspect.isfunction(value)
    }
    ours = {"installed_version", "check_options", "__reduce__"}  # not for plugins to define
    assert set(given) == set(hooks) - ours
    for name, parameters in given.items():
        assert [(p.name, p.kind) for p in parameters] == [(p.name, p.kind) for p in hooks[name]]
    if real is Backend:
        assert namespace[shown].traits == Traits(), "the guide shows the defaults"
        code = next(block for name, block in blocks() if not name and "Traits(" in block)
        for trait in fields(Traits):
            assert f"{trait.name}=" in code


def test_a_probe_of_others_is_listed(listed: list[dict[str, Any]]) -> None:
    probes = {p["name"]: p for p in listed if p["kind"] == "probe"}
    assert probes.keys() == {"cold-start", "load-time", "peak-memory", "first-run"}
    assert probes["first-run"]["distribution"] == "first-run-probe"
    assert probes["first-run"]["status"] == "ok"


def test_a_probe_of_others_answers_from_measuring_to_json(
    environment: Path, private: dict[str, str]
) -> None:
    network, report = (Path(private["HOME"]) / name for name in ("block.onnx", "report.json"))
    given = cases.network("residual_block")
    save_onnx(to_onnx(given.model, given.weights), network)
    asked = "--backend", "reference", "--quantity", "first-run", "--runs", "2", "--json", report
    # Granularity 1 makes several bricks of the block.
    run = environment / "dlbricks", "run", network, "-G", "1", "--end-to-end"
    shown = call(*run, *asked, **private)
    assert "First run of block on reference" in shown
    (model,) = json.loads(report.read_text())["models"]
    assert model["quantity"] == {"name": "first-run", "unit": "ms"}
    assert model["bricks"] > 1
    assert model["estimate"] > 0
    assert model["measured"] > 0
    assert model["estimate_ms"] is model["measured_ms"] is None
    assert model["missing"] == []

    call(environment / "dlbricks", "estimate", network, "-G", "1", *asked, **private)
    (again,) = json.loads(report.read_text())["models"]
    assert (again["estimate"], again["measured"]) == (model["estimate"], model["measured"])
