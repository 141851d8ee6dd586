"""Contributions to the atlas: files that bring back what was written, or say what is wrong."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.atlas import (
    FOLDER,
    Contribution,
    LayerTable,
    Provenance,
    counts_matrix,
    shipped,
)
from dlbricks_prediction.baseline import expected_ms
from dlbricks_prediction.features import NAMES, Features, joined
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.from_contribution import processor_of
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import shares_of
from dlbricks_survey.packing import extended, write
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dlbricks_core.errors import DLBricksError

WHEN = Provenance("0.1.0", "2026-11-25T10:00:00+00:00", "2026-11-25T11:00:00+00:00", ("s1", "s2"),
                  "survey 0, and bricks of the collections")  # fmt: skip


@pytest.fixture
def contribution(system, setup, layers):
    return Contribution(
        system=system(),
        setup=setup(threads=2),
        provenance=WHEN,
        features=layers(4),
        counts=sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 1, 0, 0], [7, 0, 0, 1]])),
        log_ms=np.array([-1.5, 0.25, 3.0]),
        noise=np.array([1e-4, 2e-4, 0.5]),
        call_ms=np.array([0.01, 0.01, 0.02]),
        signatures=("a" * 24, "b" * 24, "0123456789abcdef01234567"),
        groups=("survey:convolution", "resnet,vgg", "survey:convolution"),
        pulls=np.array([0.5, -0.25, 0.0, 1.5]),
        sites=np.array([0.5, 0.25, 4.0, 1024.0]),
        common=0.25,
    )


@pytest.fixture
def file(contribution, tmp_path):
    path = tmp_path / "one.npz"
    write(contribution, path)
    return path


def refused(path, message):
    with pytest.raises(DLBricksError, match=message) as raised:
        Contribution.read(path)
    assert str(path) in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.hint


def rewritten(path, **changed):
    """The file with other arrays in place of some; ``None`` leaves one out."""
    with np.load(path) as arrays:
        found = {name: arrays[name] for name in arrays.files} | changed
    np.savez_compressed(path, **{n: a for n, a in found.items() if a is not None})
    return path


def told(path, **changed):
    """The file with other facts in place of some; ``None`` leaves one out."""
    with np.load(path) as arrays:
        facts = json.loads(arrays["about"].tobytes()) | changed
    text = json.dumps({n: v for n, v in facts.items() if v is not None})
    return rewritten(path, about=np.frombuffer(text.encode(), dtype=np.uint8))


def test_a_file_brings_everything_back(contribution, file):
    found = Contribution.read(file)
    assert (found.system, found.setup, found.provenance) == (
        contribution.system, contribution.setup, WHEN
    )  # fmt: skip
    assert found.system.fingerprint == contribution.system.fingerprint
    assert (found.signatures, found.groups) == (contribution.signatures, contribution.groups)
    assert found.features.kinds == contribution.features.kinds
    assert found.features.numbers == pytest.approx(contribution.features.numbers, rel=1e-6)
    assert (found.counts.toarray() == contribution.counts.toarray()).all()
    for name in ("log_ms", "noise", "call_ms", "pulls", "sites"):
        assert getattr(found, name) == pytest.approx(getattr(contribution, name), rel=1e-6)
        assert getattr(found, name).dtype == np.float64
    assert found.kernel == contribution.kernel


def test_what_was_read_can_be_written_and_is_the_same(file, tmp_path):
    again = tmp_path / "again.npz"
    write(Contribution.read(file), again)
    with np.load(file) as first, np.load(again) as second:
        assert first.files == second.files
        for name in first.files:
            assert (first[name] == second[name]).all(), name


def test_more_layers_than_two_bytes_can_number_can_be_kept(contribution, tmp_path):
    many = 70_000
    features = Features(("view",) * many, np.zeros((many, len(NAMES))))
    counts = sparse.csr_array(([1.0, 99_999.0], ([0, 1], [many - 1, 2])), shape=(3, many))
    more = replace(
        contribution, features=features, counts=counts, pulls=np.zeros(0), sites=np.zeros(0)
    )
    write(more, tmp_path / "many.npz")
    found = Contribution.read(tmp_path / "many.npz").counts
    assert (found[0, many - 1], found[1, 2]) == (1, 99_999)


def test_what_extends_a_contribution_is_a_session_of_its_own(contribution):
    mine = replace(contribution.only([1, 2]), sessions=np.array([0, 1]))
    found = extended(mine, contribution)
    assert found.signatures == (*mine.signatures, contribution.signatures[0])
    assert list(found.sessions) == [1, 2, 0]
    assert list(found.only([0, 2]).sessions) == [1, 0]
    assert list(extended(contribution.only([1, 2]), contribution).sessions) == [1, 1, 0]


def test_a_contribution_of_nothing_can_be_kept(contribution, tmp_path):
    write(contribution.only([]), tmp_path / "none.npz")
    found = Contribution.read(tmp_path / "none.npz")
    assert len(found) == 0
    assert found.features.numbers.shape == (0, len(NAMES))


def test_part_of_a_contribution_keeps_the_layers_that_it_needs(contribution):
    part = contribution.only([2, 1])
    assert part.signatures == (contribution.signatures[2], contribution.signatures[1])
    assert part.groups == ("survey:convolution", "resnet,vgg")
    assert part.counts.toarray().tolist() == [[7, 0, 1], [0, 1, 0]]
    assert part.features.kinds == tuple(contribution.features.kinds[i] for i in (0, 1, 3))
    assert part.log_ms.tolist() == [3.0, 0.25]
    assert not part.pulls.size  # they depend on all of the networks


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 1000, b"\x93NUMPY", b"PK\x03\x04" * 50])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    refused(path, "not a contribution")


def test_other_files_of_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "foreign.npz", weights=np.ones(3))
    refused(tmp_path / "foreign.npz", "not a contribution")
    np.save(tmp_path / "single.npy", np.ones(3))
    refused(tmp_path / "single.npy", "not a contribution")
    with zipfile.ZipFile(tmp_path / "archive.npz", "w") as archive:
        archive.writestr("about.npy", "not an array")
    refused(tmp_path / "archive.npz", "not a contribution")
    refused(tmp_path / "absent.npz", "not a contribution")
    refused(tmp_path, "not a contribution")


def test_a_file_that_was_cut_off_is_refused(file):
    whole = file.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.99):
        file.write_bytes(whole[: int(len(whole) * share)])
        refused(file, "not a contribution")


def test_bytes_that_were_changed_are_noticed(file, tmp_path):
    """The archive's checksums see to that; what they do not cover changes nothing."""
    whole, random = file.read_bytes(), np.random.default_rng(1)
    sound = Contribution.read(file)
    refusals = 0
    for place in random.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path = tmp_path / "damaged.npz"
        path.write_bytes(damaged)
        try:
            found = Contribution.read(path)
        except DLBricksError:
            refusals += 1
        else:
            assert found.signatures == sound.signatures
            assert (found.log_ms == sound.log_ms).all()
    assert refusals > 30


def test_another_version_is_named(file):
    refused(told(file, format=99), "another version of DLBricks")


def test_features_of_another_version_are_named(file):
    refused(told(file, features=[*NAMES[:-1], "moons"]), "another version of DLBricks")


@pytest.mark.parametrize(
    "facts",
    [{"format": None}, {"features": None}, {"kinds": ["view"]}, {"kinds": 3}, {"setup": {}},
     {"setup": {"backend": "b"}}, {"system": 4}, {"system": {"caches": [1]}}, {"provenance": []},
     {"group_names": []}],
    ids=str,
)  # fmt: skip
def test_facts_that_are_damaged_are_refused(file, facts):
    refused(told(file, **facts), "not a contribution")


@pytest.mark.parametrize(
    "arrays",
    [{"about": np.zeros(3)}, {"log_ms": None}, {"log_ms": np.array([1.0, np.nan, 2.0])},
     {"log_ms": np.zeros(2)}, {"noise": np.array([0.1, -1.0, 0.1])}, {"layers": np.full(4, 9)},
     {"starts": np.array([0, 2, 3, 99])}, {"call_ms": np.array([0.0, -1.0, 0.0])},
     {"numbers": np.zeros((4, 3))}, {"numbers": np.full((4, len(NAMES)), np.inf)},
     {"kinds": np.array([0, 1, 99, 0])}, {"signatures": np.array([1, 2, 3])},
     {"pulls": np.ones(3)}, {"pulls": np.full(4, np.nan)}, {"sites": np.ones(3)},
     {"sites": np.full(4, np.nan)}],
    ids=lambda changed: str(*changed),
)  # fmt: skip
def test_arrays_that_do_not_belong_together_are_refused(file, arrays):
    refused(rewritten(file, **arrays), "not a contribution")


@pytest.mark.long
@given(data=st.data())
def test_a_table_holds_each_layer_once(any_features, data):
    networks = [data.draw(any_features()) for _ in range(3)]
    table = LayerTable()
    counts = counts_matrix([table.add(each) for each in networks], len(table.kinds))
    counts = counts_matrix([table.add(each) for each in networks], len(table.kinds))
    rows = {(k, n.tobytes()) for k, n in zip(table.kinds, table.rows, strict=True)}
    assert len(rows) == len(table.kinds)
    assert counts.sum(axis=1).tolist() == [len(each.kinds) for each in networks]
    for row, each in zip(counts.toarray(), networks, strict=True):
        found = np.repeat(np.arange(len(table.kinds)), row.astype(int))
        assert sorted(table.kinds[i] for i in found) == sorted(each.kinds)
        assert table.features.numbers[found].sum() == pytest.approx(each.numbers.sum(), rel=1e-5)


def test_an_empty_table_has_features_of_no_layers():
    assert LayerTable().features.numbers.shape == (0, len(NAMES))
    assert counts_matrix([], 0).shape == (0, 0)
    assert joined([]).numbers.shape == (0, len(NAMES))


def test_features_are_joined_in_order(layers):
    one, other = layers(2), layers(3, seed=1)
    found = joined([one, other])
    assert isinstance(found, Features)
    assert found.kinds == one.kinds + other.kinds
    assert found.numbers[2:].tolist() == other.numbers.tolist()


def test_contributions_of_the_package_can_be_read():
    """Each is of another system or setup, and holds latencies of more than a few networks."""
    found = shipped()
    assert len({(c.system.fingerprint, c.setup) for c in found}) == len(found)
    for each in found:
        assert len(each) > 100
        assert np.isfinite(each.log_ms).all()
        assert len(set(each.signatures)) == len(each)
        assert each.provenance.sessions
        # Whoever fits kernels anew computes the pulls anew.
        assert each.kernel == kernel_of(each.setup.backend).identity


def begun(path):
    with np.load(path) as arrays:
        return Contribution.begun(path, json.loads(arrays["about"].tobytes()))


def test_arrays_of_the_package_are_read_when_they_are_needed(file, contribution, monkeypatch):
    opened, read = [], Contribution.read
    monkeypatch.setattr(Contribution, "read", lambda path: opened.append(path) or read(path))
    found = begun(file)
    facts = ("system", "setup", "provenance", "common", "kernel")
    assert [getattr(found, name) for name in facts] == [
        getattr(contribution, name) for name in facts
    ]
    assert found.kinds == contribution.kinds
    assert not opened
    assert found.log_ms == pytest.approx(contribution.log_ms)
    assert (len(found), found.signatures) == (len(contribution), contribution.signatures)
    assert replace(found, kernel="other").pulls == pytest.approx(contribution.pulls)
    assert opened == [file]


def test_a_file_of_the_package_that_is_damaged_is_named(file):
    found = begun(file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DLBricksError, match=file.name):
        _ = found.features
    with pytest.raises(AttributeError, match="other"):
        _ = found.other


def test_a_known_system_is_predicted_from_its_own_file(monkeypatch):
    opened, read = [], Contribution.read
    monkeypatch.setattr(Contribution, "read", lambda path: opened.append(path.name) or read(path))
    paths = sorted(FOLDER.glob("*-mxnet-*.npz"))
    atlas = [begun(path) for path in paths]
    own = atlas[0]
    asked = own.features.part([0, 1])
    opened.clear()
    believed(asked, own.setup, own.system, atlas)
    assert opened == []


@pytest.mark.long
@pytest.mark.parametrize("backend", ["mxnet", "onnxruntime", "pytorch"])
def test_pulls_of_the_package_belong_to_today_s_baseline(backend):
    """Whoever changes features, the baseline or what is published of processors packs anew."""
    kernel = kernel_of(backend)
    for each in shipped(backend):
        some = each.only(range(0, len(each), len(each) // 40))
        moved = kernel.covariance(some.features, each.features) @ each.pulls
        expected = np.log(expected_ms(some.features, processor_of(each)))
        _, totals = shares_of(some.counts, expected + moved, some.call_ms)
        apart = np.log(totals) - some.log_ms
        assert np.median(apart) == pytest.approx(0, abs=0.03)
        assert np.median(np.abs(apart)) < 0.08


def test_a_file_that_has_no_room_leaves_the_one_before(file, contribution, tmp_path, no_room):
    before = file.read_bytes()
    with no_room(), pytest.raises(OSError, match="large"):
        write(contribution.only([0]), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
