"""Transformers on few tokens, whose time goes into reading weights; not in the corpus.

Each function returns a module and example inputs, as ``torch:torch_reading_weights:NAME``
wants them.
"""

import torch
from torch_transformers import Bert, Gpt2, ViT


def vit192():
    return ViT(192, 12, 3), (torch.randn(1, 3, 64, 64),)


def bert256():
    return _bert(256, 4, 4)


def bert384():
    return _bert(384, 6, 6)


def bert768():
    return _bert(768, 12, 4)


def gpt256():
    return _gpt2_step(256, 4, 6)


def gpt512():
    return _gpt2_step(512, 8, 8)


def _bert(dim, heads, depth):
    mask = torch.ones(1, 16, dtype=torch.int64)
    mask[:, 12:] = 0
    return Bert(dim, heads, depth), (torch.randint(0, 500, (1, 16)), mask)


def _gpt2_step(dim, heads, depth):
    cache = tuple(torch.randn(1, heads, 11, dim // heads) for _ in range(2 * depth))
    return Gpt2(dim, heads, depth), (torch.randint(0, 500, (1, 1)), torch.tensor([[11]]), cache)
