"""Files of what a store knows."""

from dataclasses import replace

import pytest
from dlbricks_prediction import Contribution
from dlbricks_prediction.training_data import contributions, remember
from dlbricks_survey import surveying as packing
from dlbricks_survey.surveying import pack

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Observation
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def measured(asked, store, residual):
    bricks = BrickSet.of([residual()]).bricks

    def keep(**changes):
        setup = replace(asked.setup, **changes)
        store.remember_system(asked.system.fingerprint, asked.system.to_dict())
        remember(store, bricks, {signature: ["resnet"] for signature in bricks})
        for signature in bricks:
            key = replace(asked.key(signature, "brick"), setup=setup)
            store.add_samples(key, Observation("s", 0, (1.0, 2.0), overhead=0.5))

    return keep


def test_each_setup_has_a_file(tmp_path, store, measured, asked):
    measured()
    measured(threads=2)
    measured(version="0.9")
    measured(backend="other")
    packed = pack(store, tmp_path / "atlas", Observer())
    start = f"{asked.system.microarchitecture}-{asked.system.fingerprint[:8]}"
    names = {f"{start}-faulty-1", f"{start}-faulty-1-2", f"{start}-faulty-2", f"{start}-other-1"}
    assert {each.path.stem for each in packed} == names
    assert {path.stem for path in (tmp_path / "atlas").iterdir()} == names
    for each, original in zip(packed, contributions(store), strict=True):
        read = Contribution.read(each.path)
        assert (read.setup, read.signatures) == (original.setup, original.signatures)
        assert set(read.groups) == {"resnet"}
        assert len(read.pulls) == len(read.features.kinds)
        assert read.provenance.sessions == ("s",)
    assert [
        each.contribution.setup.backend for each in pack(store, tmp_path, Observer(), "other")
    ] == ["other"]


def test_differences_between_sessions_are_taken_off_all_but_whole_models(
    tmp_path, asked, store, measured, monkeypatch
):
    measured()
    signature = contributions(store)[0].signatures[0]
    whole = Observation("s", 0, (3.0,), overhead=0.5)
    store.add_samples(asked.key(signature, "model"), whole)
    seen = []

    def levelled(each, kernel, wholes):
        seen.append((list(each.sessions), wholes))
        return replace(each, noise=each.noise + 1)

    monkeypatch.setattr(packing, "session_corrected", levelled)
    (packed,) = pack(store, tmp_path, Observer())
    assert seen == [([0] * len(packed.contribution), {signature})]
    assert (packed.contribution.noise > 1).all()
    assert len(packed.contribution.pulls) == len(packed.contribution.features.kinds)


def test_what_the_atlas_holds_of_the_same_setup_is_added(tmp_path, store, measured, monkeypatch):
    measured()
    (everything,) = contributions(store)
    parts = range(0, len(everything), 2), range(1, len(everything), 2)
    mine, others = (everything.only(part) for part in parts)
    older = replace(
        everything.only(range(2, len(everything))),
        setup=replace(everything.setup, plugin="older"),
        log_ms=everything.log_ms[2:] + 1.0,
    )
    foreign = replace(others, setup=replace(others.setup, version="0.9"))
    monkeypatch.setattr(packing, "shipped", lambda backend: (foreign, older))
    monkeypatch.setattr(packing, "contributions", lambda *_: [mine])
    (packed,) = pack(store, tmp_path, Observer(), extend=True)
    found = Contribution.read(packed.path)
    assert found.setup == mine.setup
    assert set(found.signatures) == set(mine.signatures) | set(older.signatures)
    told = dict(zip(found.signatures, found.log_ms, strict=True))
    for signature, log_ms in zip(everything.signatures, everything.log_ms, strict=True):
        anew = signature in mine.signatures
        if anew or signature in older.signatures:
            assert told[signature] == pytest.approx(log_ms + (0.0 if anew else 1.0), abs=1e-6)
    assert layers_of(found).items() <= layers_of(everything).items()
    rows = {
        (k, tuple(n)) for k, n in zip(found.features.kinds, found.features.numbers, strict=True)
    }
    assert len(rows) == len(found.features.kinds)


def layers_of(contribution):
    """Kinds and numbers of each network's layers, by its signature."""
    rows = contribution.features.numbers.astype("float32").tolist()
    every = list(zip(contribution.features.kinds, map(tuple, rows), strict=True))
    counts = contribution.counts.toarray()
    return {
        signature: {every[i]: count for i, count in enumerate(row) if count}
        for signature, row in zip(contribution.signatures, counts, strict=True)
    }


def test_a_store_that_knows_nothing_is_refused(tmp_path, store, measured):
    with pytest.raises(DLBricksError, match="no measurement for predictions"):
        pack(store, tmp_path / "atlas", Observer())
    measured()
    with pytest.raises(DLBricksError, match="no measurement of other for"):
        pack(store, tmp_path / "atlas", Observer(), "other")
    assert not (tmp_path / "atlas").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, store, measured):
    measured()
    (tmp_path / "file").write_text("x")
    with pytest.raises(DLBricksError, match="file"):
        pack(store, tmp_path / "file", Observer())
