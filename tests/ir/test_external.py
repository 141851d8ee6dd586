"""External data: what lies in the model's own folder is read, and nothing else."""

import os
import socket

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize

DATA = np.array([2, 4, 4])


def tensor(name="shape", dims=(3,), kind=TensorProto.INT64, **entries):
    proto = TensorProto(name=name, data_type=kind, dims=dims)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


def model(*weights, nodes=None):
    nodes = nodes or [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "model"
    (made / "inside").mkdir(parents=True)
    for path in (made / "data.bin", made / "inside" / "data.bin", tmp_path / "data.bin"):
        path.write_bytes(DATA.tobytes())
    return made


@pytest.fixture
def load(folder):
    def run(proto):
        path = folder / "net.onnx"
        path.write_bytes(proto.SerializeToString())
        return normalize(OnnxImporter().load(path))

    return run


@pytest.mark.parametrize("location", ["data.bin", "./data.bin", "inside/data.bin",
                                      "inside/../data.bin"])  # fmt: skip
def test_files_of_the_models_folder_are_read(load, location):
    assert load(model(tensor(location=location))).tensors["y"].sizes == (2, 4, 4)


def test_links_to_the_model_itself_are_followed(load, folder, tmp_path):
    load(model(tensor(location="data.bin")))
    (tmp_path / "there").symlink_to(folder)
    read = OnnxImporter().load(tmp_path / "there" / "net.onnx")
    assert read.constants["shape"].tolist() == [2, 4, 4]


def _absolute(folder):
    return str(folder / "data.bin")


def _above(folder):
    return "../data.bin"


def _above_and_back(folder):
    return "../model/data.bin"


def _link(folder):
    (folder / "link").symlink_to(folder / "data.bin")
    return "link"


def _linked_folder(folder):
    (folder / "elsewhere").symlink_to(folder.parent)
    return "elsewhere/data.bin"


def _hard_link(folder):
    os.link(folder.parent / "data.bin", folder / "hard")
    return "hard"


def _pipe(folder):
    os.mkfifo(folder / "pipe")
    return "pipe"


def _socket(folder):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "socket"))
    return "socket"


def _device(folder):
    (folder / "zero").symlink_to("/dev/zero")
    return "zero"


def _folder(folder):
    return "inside"


def _nothing(folder):
    return ""


def _nul(folder):
    return "data.bin\0"


HOSTILE = [_absolute, _above, _above_and_back, _link, _linked_folder, _hard_link, _pipe, _socket,
           _device, _folder, _nothing, _nul]  # fmt: skip


@pytest.mark.parametrize("dims", [(3,), (9000,)], ids=["small", "large"])
@pytest.mark.parametrize("place", HOSTILE)
def test_any_other_location_is_refused_with_the_name_of_the_tensor(load, folder, place, dims):
    with pytest.raises(ModelError, match="'shape'") as caught:
        load(model(tensor(dims=dims, location=place(folder))))
    assert "net.onnx" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def inside_a_branch(part):
    value = helper.make_node("Constant", [], ["s"], value=part)
    use = helper.make_node("Reshape", ["x", "s"], ["r"])
    branch = helper.make_graph([value, use], "b", [], [helper.make_empty_tensor_value_info("r")])
    node = helper.make_node("If", ["open"], ["y"], then_branch=branch, else_branch=branch)
    proto = model(nodes=[node])
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "open"))
    return proto


def inside_a_function(part):
    proto = model(nodes=[helper.make_node("F", ["x"], ["y"], domain="local")])
    body = [helper.make_node("Constant", [], ["s"], value=part),
            helper.make_node("Reshape", ["a", "s"], ["b"])]  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    proto.functions.append(helper.make_function("local", "F", ["a"], ["b"], body, imports))
    proto.opset_import.append(helper.make_opsetid("local", 1))
    return proto


def inside_a_constant(part):
    return model(nodes=[helper.make_node("Constant", [], ["shape"], value=part),
                        helper.make_node("Reshape", ["x", "shape"], ["y"])])  # fmt: skip


def inside_an_attribute(part):
    part.dims[:] = [1]
    return model(
        numpy_helper.from_array(np.array([2, 4, 4]), "sizes"),
        nodes=[helper.make_node("ConstantOfShape", ["sizes"], ["y"], value=part)],
    )


def inside_a_sparse_tensor(part):
    proto = model(numpy_helper.from_array(DATA, "shape"))
    sparse = proto.graph.sparse_initializer.add(dims=[9])
    sparse.values.CopyFrom(part)
    sparse.indices.CopyFrom(part)
    return proto


PLACES = [inside_a_branch, inside_a_function, inside_a_constant, inside_an_attribute]


@pytest.mark.parametrize("place", [*PLACES, inside_a_sparse_tensor])
def test_external_data_is_checked_wherever_a_model_holds_tensors(load, place):
    with pytest.raises(ModelError, match=r"'part'.*outside of the model's folder"):
        load(place(tensor("part", location="/etc/hostname")))


@pytest.mark.parametrize("place", PLACES)
def test_external_data_is_found_beside_the_model(load, place, tmp_path, monkeypatch):
    (tmp_path / "data.bin").write_bytes(np.array([4, 4, 2]).tobytes())
    monkeypatch.chdir(tmp_path)  # a file of the same name, with other numbers
    assert load(place(tensor("part", location="data.bin"))).tensors["y"].sizes == (2, 4, 4)


def test_a_model_in_memory_reads_no_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    raw = read_model(model(tensor(location="data.bin")), name="m")
    assert "shape" not in raw.constants
    with pytest.raises(ModelError, match=r"'part'.*not there"):
        read_model(inside_an_attribute(tensor("part", location="data.bin")), name="m")


def test_a_length_that_is_left_out_follows_from_the_shape(load, folder):
    (folder / "data.bin").write_bytes(bytes(8) + DATA.tobytes() + bytes(99))
    normal = load(model(tensor(location="data.bin", offset=8)))
    assert normal.tensors["y"].sizes == (2, 4, 4)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"offset": -1}, "offset '-1'"),
        ({"offset": 2**64}, "offset '18446744073709551616'"),
        ({"offset": "many"}, "offset 'many'"),
        ({"length": -8}, "length '-8'"),
        ({"length": 8}, "have 8 bytes"),
        ({"offset": 8}, "holds 16 of 24 bytes"),
        ({"offset": 10**15}, "holds 0 of 24 bytes"),
    ],
)
def test_offsets_and_lengths_that_do_not_fit_are_refused(load, entries, words):
    with pytest.raises(ModelError, match=f"'shape': .*{words}"):
        load(model(tensor(location="data.bin", **entries)))


def test_a_pointer_file_in_place_of_the_data_is_named(load, folder):
    (folder / "data.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelError, match="Git LFS pointer"):
        load(model(tensor(location="data.bin", offset=40)))


def test_weights_may_be_missing(load):
    weight = tensor("w", (16, 9000), TensorProto.FLOAT, location="absent.bin", offset=8)
    normal = load(model(weight, nodes=[helper.make_node("MatMul", ["x", "w"], ["y"])]))
    assert normal.tensors["y"].sizes == (2, 9000)
    assert not normal.constants


def test_the_same_files_are_read_as_by_onnx(load, folder):
    proto = model(numpy_helper.from_array(DATA, "shape"))
    path = folder / "other.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="o.bin", size_threshold=0)
    assert normalize(OnnxImporter().load(path)).tensors["y"].sizes == (2, 4, 4)
