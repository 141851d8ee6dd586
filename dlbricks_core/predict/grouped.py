"""Covariances of layers' errors: within groups of layers, and through a few errors that all share.

Layers of different classes have nothing in common but what all layers share. So a covariance takes
little more memory and time than the largest class needs, whatever the number of models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, Indices

_JITTER = 1e-9
"""Variance added so that a covariance matrix stays positive definite despite rounding."""


@dataclass(frozen=True, eq=False)
class Group:
    """Layers that have errors in common.

    Attributes:
        layers: Positions of the layers.
        covariance: Covariance of their errors, without what layers of all groups share.
    """

    layers: Indices
    covariance: FloatArray

    @cached_property
    def factor(self) -> FloatArray:
        """Cholesky factor of the covariance."""
        return np.asarray(
            scipy.linalg.cholesky(self.covariance + _JITTER * np.eye(len(self.layers)), lower=True)
        )


@dataclass(frozen=True, eq=False)
class Grouped:
    """Covariance of layers' errors.

    Attributes:
        groups: Groups of layers; each layer is in one.
        shared: How each layer is moved by each of the errors that layers of all groups share, which
            are independent and have variance 1: shape (layers, errors).
    """

    groups: tuple[Group, ...]
    shared: FloatArray

    @classmethod
    def dense(cls, covariance: FloatArray) -> Self:
        """The covariance that a single matrix holds."""
        size = len(covariance)
        return cls((Group(np.arange(size), covariance),), np.zeros((size, 0)))

    def __len__(self) -> int:
        return len(self.shared)

    @property
    def matrix(self) -> FloatArray:
        """The covariance between all layers: shape (layers, layers)."""
        found = self.shared @ self.shared.T
        for group in self.groups:
            found[np.ix_(group.layers, group.layers)] += group.covariance
        return np.asarray(found)

    @property
    def variances(self) -> FloatArray:
        """Variance of each layer's error: shape (layers,)."""
        found = (self.shared**2).sum(axis=1)
        for group in self.groups:
            found[group.layers] += np.diag(group.covariance)
        return np.asarray(found)

    def of(self, layers: Indices) -> Self:
        """The covariance between some of the layers."""
        groups = []
        place = np.full(len(self), -1, dtype=np.intp)
        place[layers] = np.arange(len(layers))
        for group in self.groups:
            (kept,) = np.nonzero(place[group.layers] >= 0)
            if len(kept) == len(group.layers):
                groups.append(Group(place[group.layers], group.covariance))
            elif len(kept):
                part = group.covariance[np.ix_(kept, kept)]
                groups.append(Group(place[group.layers[kept]], part))
        return type(self)(tuple(groups), self.shared[layers])

    def times(self, weights: FloatArray) -> FloatArray:
        """The covariance times weights of the layers: shape (layers,) or (layers, columns)."""
        found = self.shared @ (self.shared.T @ weights)
        for group in self.groups:
            found[group.layers] += group.covariance @ weights[group.layers]
        return np.asarray(found)

    def to_layers(self, weights: scipy.sparse.csr_array) -> FloatArray:
        """Covariance of weighted sums with the layers: shape (sums, layers)."""
        found = (weights @ self.shared) @ self.shared.T
        columns = scipy.sparse.csc_array(weights)
        for group in self.groups:
            part = scipy.sparse.csr_array(columns[:, group.layers])
            rows = np.flatnonzero(np.diff(part.indptr))
            if len(rows):
                found[np.ix_(rows, group.layers)] += part[rows] @ group.covariance
        return np.asarray(found)

    def between(self, weights: scipy.sparse.csr_array) -> FloatArray:
        """Covariance between weighted sums: shape (sums, sums)."""
        moved = weights @ self.shared
        found = moved @ moved.T
        columns = scipy.sparse.csc_array(weights)
        for group in self.groups:
            part = scipy.sparse.csr_array(columns[:, group.layers])
            rows = np.flatnonzero(np.diff(part.indptr))
            part = part[rows]
            found[np.ix_(rows, rows)] += part @ (part @ group.covariance).T
        return np.asarray(found)

    def solved(self, rows: FloatArray) -> FloatArray:
        """Rows times the inverse of the covariance: shape (rows, layers)."""
        inverse = self._solved_apart(rows)
        if not self.shared.shape[1]:
            return inverse
        through = self._solved_apart(self.shared.T)
        inner = np.eye(len(through)) + through @ self.shared
        return np.asarray(inverse - inverse @ self.shared @ np.linalg.solve(inner, through))

    def _solved_apart(self, rows: FloatArray) -> FloatArray:
        found = np.zeros(rows.shape)
        for group in self.groups:
            part = rows[:, group.layers].T
            found[:, group.layers] = scipy.linalg.cho_solve((group.factor, True), part).T
        return found

    def moved(self, normal: FloatArray) -> FloatArray:
        """Errors of the layers from independent ones of variance 1: shape (draws, layers).

        Args:
            normal: Independent errors: shape (draws, :attr:`sources`).
        """
        size = len(self)
        found = normal[:, size:] @ self.shared.T
        for group in self.groups:
            found[:, group.layers] += normal[:, group.layers] @ group.factor.T
        return np.asarray(found)

    def traced(self, rows: FloatArray) -> FloatArray:
        """Reverses :meth:`moved` for covariances: rows times the factor of the covariance.

        Args:
            rows: Weights of the layers: shape (rows, layers).

        Returns:
            Array of shape (rows, :attr:`sources`).
        """
        found = np.empty((len(rows), self.sources))
        found[:, len(self) :] = rows @ self.shared
        for group in self.groups:
            found[:, group.layers] = rows[:, group.layers] @ group.factor
        return found

    @property
    def sources(self) -> int:
        """Number of independent errors that those of the layers are made of."""
        return len(self) + self.shared.shape[1]


def weighted(parts: Sequence[tuple[float, Grouped]]) -> Grouped:
    """Sum of covariances with the same groups, each with a factor."""
    (share, first), *others = parts
    sums = [share * group.covariance for group in first.groups]
    columns = [math.sqrt(share) * first.shared]
    for share, each in others:
        for total, group in zip(sums, each.groups, strict=True):
            total += share * group.covariance
        columns.append(math.sqrt(share) * each.shared)
    groups = [Group(group.layers, total) for group, total in zip(first.groups, sums, strict=True)]
    return Grouped(tuple(groups), np.concatenate(columns, axis=1))


def padded(parts: Sequence[Indices], spreads: Sequence[Grouped]) -> Grouped:
    """Covariance of layers in several parts whose errors have nothing in common.

    Args:
        parts: Positions of the layers of each part.
        spreads: Covariance of each part.
    """
    size = sum(map(len, parts))
    groups, columns = [], [np.zeros((size, 0))]
    for layers, each in zip(parts, spreads, strict=True):
        groups += [Group(layers[group.layers], group.covariance) for group in each.groups]
        columns.append(np.zeros((size, each.shared.shape[1])))
        columns[-1][layers] = each.shared
    return Grouped(tuple(groups), np.concatenate(columns, axis=1))


def inverse_of(factor: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix from its Cholesky factor."""
    lower, failed = scipy.linalg.lapack.dpotri(factor, lower=1)
    assert not failed, failed
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
