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
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dlbricks_testing import cases
from onnx import TensorProto, helper, numpy_helper
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dlbricks_core.backends import Backend, CpuTimer, Traits
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Parallel, Sequential
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import save_onnx, to_onnx

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TEMPLATES = ("backend", "column", "command", "composer", "metric", "predictor")
TEMPLATE = EXAMPLES / "backend"
GUIDE = ROOT / "docs" / "guide" / "backend.md"
ESTIMATING_GUIDE = GUIDE.with_name("estimating.md")


def call(*command: object, status: int = 0, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False,
        # Beside other tests, two threads may be too disturbed to measure anything.
        env={**clean, "DLBRICKS_THREADS": "1", **environment}, cwd=environment.get("HOME"),
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


def needed(*names: str) -> dict[str, Distribution]:
    """Installed distributions, and all that they need, by name."""
    found: dict[str, Distribution] = {}
    left = [*names]
    while left:
        if (name := canonicalize_name(left.pop())) not in found:
            found[name] = distribution(name)
            needs = map(Requirement, found[name].requires or ())
            left += [each.name for each in needs
                     if each.marker is None or each.marker.evaluate({"extra": ""})]  # fmt: skip
    return found


def link(given: Distribution, site: Path) -> None:
    """Links a distribution into another environment, compiled modules included."""
    for name in {file.parts[0] for file in given.files or ()} - {"..", "__pycache__"}:
        (site / name).symlink_to(given.locate_file(name))


@pytest.fixture(scope="module")
def environment(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the core and all templates.

    One call installs them all. What they need is linked, and so is what builds them.
    """
    folder = tmp_path_factory.mktemp("template")
    core = copied(
        ROOT, folder / "core", "pyproject.toml", "README.md", "dlbricks.py", "dlbricks_core"
    )
    plugins = [
        copied(EXAMPLES / name, folder / name, "pyproject.toml", "src", "tests")
        for name in TEMPLATES
    ]
    shown = ("pyproject.toml", "README.md", "LICENSE", "src")
    plugins += [copied(ROOT / "plugins" / name, folder / name, *shown)
                for name in ("pages", "prediction", "testing")]  # fmt: skip
    # Installed from outside: the new environment needs no pip of its own, and no bytecode.
    call(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    programs = folder / "env" / "bin"
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for name, given in needed("dlbricks", "dlbricks-pages", "pytest", "setuptools").items():
        if not name.startswith("dlbricks"):
            link(given, site)
    call(
        sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q",
        "--no-compile", "--no-build-isolation", "--no-index", core, *plugins,
    )  # fmt: skip
    return programs


@pytest.fixture
def private(tmp_path: Path) -> dict[str, str]:
    """A home of its own: caches and results of this user stay out."""
    return {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}


@pytest.fixture(scope="module")
def listed(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ``dlbricks list plugins`` lists in the new environment."""
    home = str(tmp_path_factory.mktemp("home"))
    told = call(
        environment / "dlbricks", "list", "plugins", "--json", "-", HOME=home, XDG_CACHE_HOME=home
    )
    found: list[dict[str, Any]] = json.loads(told)["plugins"]
    return found


@pytest.mark.process
def test_the_template_is_listed(listed: list[dict[str, Any]]) -> None:
    backends = [p for p in listed if p["kind"] == "backend"]
    assert [(p["name"], p["distribution"], p["status"]) for p in backends] == [
        ("reference", "dlbricks-reference", "ok")
    ]
    assert backends[0]["framework"].startswith("onnx ")


def test_every_template_is_listed(listed: list[dict[str, Any]]) -> None:
    kinds = ("column", "command", "composer", "metric", "predictor")
    installed = {"dlbricks", "dlbricks-pages", "dlbricks-prediction"}
    assert {
        (p["kind"], p["name"], p["distribution"], p["status"])
        for p in listed
        if p["kind"] in kinds
        and p["distribution"] not in ("dlbricks", "dlbricks-pages", "dlbricks-prediction")
    } == {
        ("column", "precision", "dlbricks-precision", "ok"),
        ("command", "widest", "dlbricks-widest", "ok"),
        ("composer", "elementwise", "dlbricks-elementwise", "ok"),
        ("metric", "first-run", "dlbricks-first-run", "ok"),
        ("predictor", "proportional", "dlbricks-proportional", "ok"),
    }


@pytest.mark.process
def test_the_template_can_be_used(environment: Path, private: dict[str, str]) -> None:
    report = Path(private["HOME"]) / "report.json"
    network = Path(private["HOME"]) / "block.onnx"
    given = cases.network("residual_block")
    save_onnx(to_onnx(given.model, given.weights), network)
    page = report.with_name("report.html")
    shown = call(
        environment / "dlbricks", "--backend", "reference", network,
        "--runs", "1", "--end-to-end", "--json", report, "--html", page, **private,
    )  # fmt: skip
    found = json.loads(report.read_text())
    assert found["backend"]["name"] == "reference"
    (model,) = found["models"]
    assert not model["partial"]
    assert model["native"] > 0
    assert model["estimate"] > 0
    assert model["measured"] > 0
    assert found["failures"] == []
    # The column of another distribution is in each report.
    assert model["columns"].keys() == {"precision"}
    assert re.search(r"Rests on *Precision", shown)
    assert '<th scope="col">Precision</th>' in page.read_text()


def test_the_template_leaves_cold_tensors_cold() -> None:
    # The file alone: the template is not installed here.
    path = TEMPLATE / "src" / "dlbricks_reference" / "timer.py"
    spec = importlib.util.spec_from_file_location("template_timer", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    loaded = module.ReferenceTimer().load(cases.cold_cache())
    assert [array.shape for array in loaded.warmed] == [(1, 64)]


@pytest.mark.process
def test_the_templates_pass_their_tests(environment: Path, private: dict[str, str]) -> None:
    folder = environment.parents[1]
    shown = call(
        environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "--import-mode", "importlib", *(folder / name / "tests" for name in TEMPLATES), **private,
    )  # fmt: skip
    assert int(re.search(r"(\d+) passed", shown)[1]) > 190


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


@pytest.mark.process
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
        "estimate",
        "--measure",
        perceptron(home / "a.onnx", ("Relu", 16), ("Relu", 32)),
        "--composer",
        "elementwise",
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
    low, high = origins["predicted"]["interval"]
    assert low < origins["predicted"]["value"] < high
    assert whole["settings"]["predictor"] == "proportional"


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
    ("guide", "folder", "files"),
    [
        ("columns", "column", ["src/dlbricks_precision/column.py"]),
        ("commands", "command", ["src/dlbricks_widest/announced.py",
                                 "src/dlbricks_widest/command.py"]),
        ("quantity", "metric", ["src/dlbricks_first_run/metric.py"]),
        ("estimating", "composer", ["src/dlbricks_elementwise/composer.py"]),
        ("estimating", "predictor", ["src/dlbricks_proportional/predictor.py"]),
    ],
)  # fmt: skip
def test_pages_show_the_files_as_they_are(guide: str, folder: str, files: list[str]) -> None:
    text = GUIDE.with_name(f"{guide}.md").read_text()
    shown = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```$", text, re.DOTALL | re.MULTILINE)
    # A page on several templates names each file with its template.
    own = [(name.removeprefix(f"{folder}/"), block) for name, block in shown
           if guide != "estimating" or name.startswith(f"{folder}/")]  # fmt: skip
    assert [name for name, _ in own] == ["pyproject.toml", *files, "tests/test_conformance.py"]
    for name, block in own:
        assert block in (EXAMPLES / folder / name).read_text(), f"{name} lacks:\n{block}"


@pytest.mark.process
def test_a_command_of_another_distribution_is_like_those_of_dlbricks(
    environment: Path, private: dict[str, str]
) -> None:
    assert re.search(r"widest +Show the largest tensor", call(environment / "dlbricks", "--help"))
    shown = call(environment / "dlbricks", "widest", "onnx:light_squeezenet", **private)
    assert re.search(r"light_squeezenet +\S+ +3\.15", shown)


def test_the_page_on_composers_overrides_a_total() -> None:
    shown = r"^```python\n(from dlbricks_core.compose import .*?)```$"
    (code,) = re.findall(shown, ESTIMATING_GUIDE.read_text(), re.DOTALL | re.MULTILINE)
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


@pytest.mark.process
def test_a_metric_of_others_answers_from_measuring_to_json(
    environment: Path, private: dict[str, str]
) -> None:
    network, report = (Path(private["HOME"]) / name for name in ("block.onnx", "report.json"))
    given = cases.network("residual_block")
    save_onnx(to_onnx(given.model, given.weights), network)
    asked = "--backend", "reference", "--quantity", "first-run", "--runs", "2", "--json", report
    # Granularity 1 makes several bricks of the block.
    run = environment / "dlbricks", "estimate", "--measure", network, "-G", "1", "--end-to-end"
    shown = call(*run, *asked, **private)
    assert "First run of block on reference" in shown
    (model,) = json.loads(report.read_text())["models"]
    assert model["quantity"] == {"name": "first-run", "unit": "ms"}
    assert model["bricks"] > 1
    assert model["estimate"] > 0
    assert model["measured"] > 0
    assert model["parallel_estimate"] is None
    assert model["missing"] == []

    call(environment / "dlbricks", "estimate", network, "-G", "1", *asked, **private)
    (again,) = json.loads(report.read_text())["models"]
    assert (again["estimate"], again["measured"]) == (model["estimate"], model["measured"])
