"""Programs of modules in training mode are refused by name."""

import pytest
import torch
from dlbricks_pytorch.importer import PytorchImporter, from_exported
from torch import nn
from torch.nn import functional

from dlbricks_core.errors import ModelError
from dlbricks_core.passes import normalize

IMAGE, SEQUENCE = torch.randn(2, 3, 8, 8), torch.randn(4, 2, 8)


class Attention(nn.Module):
    def forward(self, x):
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1 * self.training)


TRAINED = {
    "batch_norm": (nn.BatchNorm2d(3), IMAGE),
    "instance_norm": (nn.InstanceNorm2d(3, track_running_stats=True), IMAGE),
    "dropout": (nn.Dropout(0.5), IMAGE),
    "feature_dropout": (nn.Dropout2d(0.5), IMAGE),
    "alpha_dropout": (nn.AlphaDropout(0.5), IMAGE),
    "feature_alpha_dropout": (nn.FeatureAlphaDropout(0.5), IMAGE),
    "lstm": (nn.LSTM(8, 8, 2, dropout=0.5), SEQUENCE),
    "gru": (nn.GRU(8, 8, 2, dropout=0.5), SEQUENCE),
    "rrelu": (nn.RReLU(), IMAGE),
    "scaled_dot_product_attention": (Attention(), IMAGE),
}
"""Module and input by the operator that tells of training."""


def exported(module, example):
    return torch.export.export(module, (example,))


@pytest.mark.parametrize("operator", TRAINED)
def test_a_module_in_training_mode_is_refused_by_name(operator):
    module, example = TRAINED[operator]
    with pytest.raises(ModelError, match=rf"in training mode: 1 aten\.{operator}\b") as raised:
        from_exported(exported(module.train(), example))
    assert raised.value.hint.startswith("Call eval() on the module before torch.export.export")
    if operator != "rrelu":  # torch.onnx has no translation
        assert normalize(from_exported(exported(module.eval(), example))).outputs


def test_so_is_one_in_a_file_with_its_operators_decomposed(tmp_path):
    module = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5)).train()
    program = exported(module, IMAGE).run_decompositions()
    torch.export.save(program, tmp_path / "net.pt2")
    named = r"net\.pt2: .* 1 aten\._native_batch_norm_legit_functional and 1 aten\.native_dropout"
    with pytest.raises(ModelError, match=named):
        PytorchImporter().load(tmp_path / "net.pt2")


@pytest.mark.parametrize(
    ("module", "example"),
    [
        (nn.BatchNorm2d(3, track_running_stats=False), IMAGE),
        (nn.InstanceNorm2d(3), IMAGE),
        (nn.Dropout(0.0), IMAGE),
        (nn.GRU(8, 8, 1), SEQUENCE),
    ],
    ids=["own-statistics", "instances", "no-share", "one-layer"],
)
def test_what_computes_the_same_in_training_is_read(module, example):
    assert normalize(from_exported(exported(module.train(), example))).outputs
