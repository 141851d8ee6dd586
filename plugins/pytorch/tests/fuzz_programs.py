"""Program files with damaged descriptions: ``python fuzz_programs.py --count 2000 --seed 1``."""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "tests" / "fuzz"))
from mutate_json import mutated, outcomes, report

TARGET = "dlbricks_pytorch.importer:PytorchImporter"
PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


def sample() -> dict[str, bytes]:
    """The entries of a program with dynamic sizes, a buffer, a constant and several results."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(8, 2)
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, image: torch.Tensor, pair: tuple[torch.Tensor, int]) -> object:
            x = torch.relu(self.norm(self.conv(image)))
            low, high = x.mean((2, 3)).chunk(2, 1)
            x = torch.cat([low, high, low, high], 1) * self.scale + torch.tensor([1.0])
            return self.fc(x), image.reshape(image.shape[0] * 3, -1) + pair[0]

    batch = {0: torch.export.Dim.DYNAMIC}
    inputs = (torch.randn(2, 3, 8, 8), (torch.ones(1), 3))
    program = torch.export.export(
        Net().eval(), inputs, dynamic_shapes={"image": batch, "pair": (None, None)}
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "net.pt2"
        torch.export.save(program, path)
        with zipfile.ZipFile(path) as archive:
            return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def archive(path: Path, entries: Mapping[str, bytes | str]) -> Path:
    """Writes an archive as torch lays it out."""
    with zipfile.ZipFile(path, "w") as target:
        for name, content in entries.items():
            target.writestr(f"net/{name}", content)
    return path


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """The outcomes of damaged programs and, for each fourth one, of damaged lists of weights."""
    entries = sample()
    at = PROGRAM

    def damaged(_: bytes, rng: random.Random) -> bytes:
        nonlocal at
        at = rng.choice((PROGRAM, PROGRAM, PROGRAM, WEIGHTS))
        return mutated(entries[at], rng)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pt2"

        def write(content: bytes) -> Path:
            return archive(path, {**entries, at: content})

        return outcomes(TARGET, b"", write, count, seed, mutate=damaged)


if __name__ == "__main__":
    report(run, 2000)
