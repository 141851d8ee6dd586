from __future__ import annotations

import sys

import onnx
import pytest
from dlbricks_pages.html import plots

from dlbricks_core.importers.base import LoadOptions
from dlbricks_core.importers.cache import FileState, ImportCache
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter


@pytest.fixture(scope="module", autouse=True)
def wide_plots():
    """Draws plots of pages for wide screens alone; tests of pages look at both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "_CANVASES", plots._CANVASES[:1])
        yield


def remember_import(path):
    """Puts a model in the cache of imported models, as a command would that reads it."""
    options, cache = LoadOptions(), ImportCache()
    key = cache.key("dlbricks_core.importers.onnx:OnnxImporter", path, options)
    found = canonical(OnnxImporter().load(path), options, str(path))
    cache.put(key, [FileState.of(path)], found)


@pytest.fixture(scope="session")
def shared(chain, tmp_path_factory):
    """Saves a chain model for all tests and gives its path.

    It is in the cache of imported models already: commands need no process to read it, unless
    they read it with options.
    """
    folder = tmp_path_factory.mktemp("shared")

    def save_model(name, *operators, **more):
        told = "-".join([*operators, *(f"{key}{value}" for key, value in sorted(more.items()))])
        path = folder / told / f"{name}.onnx"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            onnx.save(chain(*operators, name=name, **more), path)
            remember_import(path)
        return path

    return save_model


#: Three convolutions, each with its ReLU, that hand on large maps: three segments.
CONVOLUTIONS = """<ir_version: 8, opset_import: ["" : 17]>
convolutions (float[1,16,160,160] x) => (float[1,32,1,1] y)
<float[16,16,3,3] w0 = {W}, float[16,16,3,3] w1 = {W}, float[16,16,3,3] w2 = {W}> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0)
    b = Relu(a)
    c = Conv <pads = [1, 1, 1, 1]> (b, w1)
    d = Relu(c)
    e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
    f = Conv <pads = [1, 1, 1, 1]> (e, w2)
    g = Relu(f)
    h = Concat <axis = 1> (e, g)
    i = Softmax <axis = 1> (h)
    y = GlobalAveragePool(i)
}"""


@pytest.fixture(scope="session")
def convolutions(tmp_path_factory):
    """A network of convolutions, which ONNX Runtime fuses with the ReLU that follows."""
    path = tmp_path_factory.mktemp("convolutions") / "convolutions.onnx"
    weights = ", ".join(["0.01"] * (16 * 16 * 9))
    onnx.save(onnx.parser.parse_model(CONVOLUTIONS.replace("{W}", f"{{{weights}}}")), path)
    remember_import(path)
    return path


@pytest.fixture
def known(read):
    """Models or bricks of a result, but for where their figures come from, since samples are
    measured once and stored from then on, and for the memory that happens to be free.
    """

    def results(path, kind):
        found = read(path)[kind]
        assert all("origin" in each for each in found)
        return [{k: v for k, v in each.items() if k not in ("origin", "memory")} for each in found]

    return results


@pytest.fixture
def install(distribution, tmp_path_factory, monkeypatch):
    """Installs a distribution of one module for a test; workers find it as well."""
    modules = []

    def installed(module, source, points):
        distribution.install(monkeypatch, tmp_path_factory.mktemp("site"), module, source, points)
        modules.append(module)

    yield installed
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture(scope="session")
def twin_site(distribution, tmp_path_factory):
    """Folder with a second backend. All tests share it: Python reads all distributions anew for
    each other folder, which takes as long as a short command.
    """
    site = tmp_path_factory.mktemp("twin")
    with pytest.MonkeyPatch.context() as patch:
        distribution.install_twin(patch, site)
    return site


@pytest.fixture
def twin(distribution, twin_site, monkeypatch):
    """A second backend that starts quickly: ONNX Runtime under the name twin."""
    distribution.use(monkeypatch, twin_site)
    yield
    sys.modules.pop("twin_backend", None)
