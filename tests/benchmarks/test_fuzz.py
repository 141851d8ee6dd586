"""The fuzzer: a sound file is no finding, a defect is one, and a finding is reduced."""

import random
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        patch.setattr(sys, "path", list(sys.path))
        import fuzz

        return fuzz


@pytest.fixture(scope="module")
def configurations(fuzz, tmp_path_factory):
    (reader,) = fuzz.readers(tmp_path_factory.mktemp("sound"), ["decoder"])
    return reader


def test_a_sound_file_is_read_and_a_damaged_one_refused(fuzz, configurations):
    outcome, _ = fuzz.run(configurations, fuzz.Input(0, (), 0))
    assert (outcome.status, outcome.wrong) == (0, "")
    outcome, files = fuzz.run(configurations, fuzz.Input(0, (1, 2, 3, 4, 5, 6), 0))
    assert files != configurations.bases[0]
    assert (outcome.status, outcome.wrong) == (2, "")


def test_what_a_plugin_raises_and_does_not_word_is_a_defect(fuzz):
    said = "Error: command 'private': OverflowError: too large\nHint: Report this to the authors."
    assert fuzz.Outcome(2, said).wrong == (
        "status 2: Error: command 'private': OverflowError: too large"
    )
    assert fuzz.Outcome(2, "Error: no key\nHint: Check the path.").wrong == ""


def test_the_same_seed_draws_the_same_files(fuzz, configurations):
    one, other = (fuzz.draw(configurations, random.Random(9)) for _ in range(2))
    assert one == other
    assert one.files(configurations) == other.files(configurations)


def test_a_defect_is_a_finding_and_is_reduced_to_what_it_needs(
    fuzz, configurations, monkeypatch, tmp_path
):
    """A reader that fails where one mutation of three was made."""
    from dlbricks_core.importers.host import ImportHost

    def mutation(files, rng):
        return {"config.json": files["config.json"] + b" " * rng.randrange(1, 4)}

    step = next(s for s in range(99) if random.Random(s).randrange(1, 4) == 2)
    others = [s for s in range(99) if random.Random(s).randrange(1, 4) != 2][:2]

    def fail(self, *arguments):
        if (Path("config.json").read_bytes().count(b" ") - spaces) % 2 == 0:
            raise ZeroDivisionError("by design")
        return original(self, *arguments)

    original = ImportHost.load
    monkeypatch.setattr(ImportHost, "load", fail)
    spaces = configurations.bases[0]["config.json"].count(b" ")
    reader = fuzz.replace(configurations, mutation=mutation)
    drawn = fuzz.Input(0, (others[0], step, others[1]), 0)
    outcome, _ = fuzz.run(reader, drawn)
    assert outcome.status == 70
    assert "ZeroDivisionError" in outcome.wrong
    least = fuzz.reduced(reader, drawn, outcome.wrong)
    assert len(least.steps) < 3
    kept = fuzz.keep(tmp_path, reader, least)
    assert "dlbricks show llm:config.json" in (kept / "finding.txt").read_text()
    assert (kept / "config.json").is_file()
