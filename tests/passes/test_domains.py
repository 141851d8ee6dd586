"""Operators that distributions add: what is said where none is installed, or one is broken."""

from __future__ import annotations

import onnx
import pytest
from dlbricks_testing.cases import build
from dlbricks_testing.operators import DEFINED

from dlbricks_core.errors import ModelError, PluginError
from dlbricks_core.ir import read_model
from dlbricks_core.operators import domains, table
from dlbricks_core.operators.domains import as_run_by
from dlbricks_core.passes import normalize, schemas
from dlbricks_core.passes.convert import convert
from dlbricks_core.passes.forms import form
from dlbricks_core.plugins import Plugin

TEXT = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
g (float[2, 4] x) => (float[2, 4] y) { z = com.microsoft.Gelu(x)  y = Relu(z) }"""


@pytest.fixture
def plugins(monkeypatch):
    """Replaces the distributions that add operators, for a test."""
    cached = (domains.operator_domains, domains.added_operators, schemas.definition,
              schemas.domains, schemas.optional_outputs, table.added_rows)  # fmt: skip

    def forget():
        for each in cached:
            each.cache_clear()
        form.form_of.cache_clear()

    def there(*found):
        monkeypatch.setattr(domains, "discover", lambda kind, base: list(found))
        forget()

    yield there
    monkeypatch.undo()
    forget()


def gelu():
    return normalize(read_model(onnx.parser.parse_model(TEXT), name="net"))


def test_an_operator_of_a_missing_distribution_is_opaque_and_says_what_brings_it(plugins):
    assert not gelu().layers[0].opaque
    plugins()
    layer = gelu().layers[0]
    assert layer.opaque == (
        "unknown operator com.microsoft.Gelu; it comes with dlbricks-contrib, "
        "which is not installed"
    )


def test_a_conversion_of_a_missing_distribution_says_what_brings_it(plugins):
    model = gelu()
    plugins()
    with pytest.raises(ModelError, match="int8 comes with dlbricks-contrib") as caught:
        convert(model, "int8")
    assert "-e plugins/contrib" in caught.value.hint


def test_broken_operators_are_an_error_with_their_name(plugins):
    plugins(Plugin("operators", "odd", "odd:Odd", "odd-ops", "1", problem="no luck", cure="Do it."))
    with pytest.raises(PluginError, match="operators of odd: no luck"):
        gelu()


def test_a_backend_runs_the_definition_of_an_operator_that_it_lacks():
    model = build(DEFINED["Gelu"]).model
    assert as_run_by(None, model) is model
    assert as_run_by(frozenset({"com.microsoft"}), model) is model
    assert all(not layer.domain for layer in as_run_by(frozenset(), model).layers)
