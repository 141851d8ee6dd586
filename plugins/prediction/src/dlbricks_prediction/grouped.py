"""Covariances of layers' errors: within groups of layers, and through a few errors that all share.

Layers of different classes share only the error that all layers share. A covariance therefore takes
little more memory and time than the largest class needs, for any number of models.
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
_JITTER_SINGLE = 1e-4
"""Variance added so that a covariance matrix stays positive definite despite rounding, in double
and in single precision.
"""

_BLOCK = 256
"""Number of weighted sums whose covariance with the others is formed at once. Their covariance with
the layers then stays near the processor.
"""


@dataclass(frozen=True, eq=False)
class ErrorGroup:
    """Layers that share errors.

    Attributes:
        layers: Positions of the layers.
        covariance: Covariance of their errors, without the errors that layers of all groups share.
    """

    layers: Indices
    covariance: FloatArray

    @cached_property
    def factor(self) -> FloatArray:
        """Cholesky factor of the covariance."""
        matrix = self.covariance.copy()
        single = matrix.dtype == np.float32
        matrix[np.diag_indices_from(matrix)] += _JITTER_SINGLE if single else _JITTER
        return np.asarray(scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True))


@dataclass(frozen=True, eq=False)
class Grouped:
    """Covariance of layers' errors.

    Attributes:
        groups: Groups of layers; each layer is in one.
        shared: How each layer is moved by each of the errors that layers of all groups share, which
            are independent and have variance 1: shape (layers, errors).
    """

    groups: tuple[ErrorGroup, ...]
    shared: FloatArray

    @classmethod
    def dense(cls, covariance: FloatArray) -> Self:
        """The covariance as a single matrix."""
        size = len(covariance)
        return cls((ErrorGroup(np.arange(size), covariance),), np.zeros((size, 0)))

    def __len__(self) -> int:
        return len(self.shared)

    @property
    def single(self) -> Self:
        """The covariance in single precision."""
        groups = (
            ErrorGroup(each.layers, each.covariance.astype(np.float32)) for each in self.groups
        )
        return type(self)(tuple(groups), self.shared.astype(np.float32))

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
                groups.append(ErrorGroup(place[group.layers], group.covariance))
            elif len(kept):
                part = group.covariance[np.ix_(kept, kept)]
                groups.append(ErrorGroup(place[group.layers[kept]], part))
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
        return mirrored(self.below(weights))

    def below(self, weights: scipy.sparse.csr_array) -> FloatArray:
        """Covariance between weighted sums. Some elements above the diagonal are 0."""
        size = weights.shape[0]
        found = np.zeros((size, size), dtype=self.shared.dtype)
        columns = scipy.sparse.csc_array(weights)
        parts = [scipy.sparse.csr_array(columns[:, group.layers]) for group in self.groups]
        # With the layers of a group side by side, no columns have to be gathered or scattered.
        order = np.concatenate([np.zeros(0, dtype=np.intp), *(g.layers for g in self.groups)])
        ordered, moved = scipy.sparse.csr_array(columns[:, order]), weights @ self.shared
        for begin in range(0, size, _BLOCK):
            some = slice(begin, begin + _BLOCK)
            to_layers = moved[some] @ self.shared[order].T
            end = 0
            for group, part in zip(self.groups, parts, strict=True):
                own = slice(end, end := end + len(group.layers))
                to_layers[:, own] += part[some] @ group.covariance
            found[begin:, some] = ordered[begin:] @ to_layers.T
        return found

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
        """Number of independent errors that make up the layers' errors."""
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
    groups = [
        ErrorGroup(group.layers, total) for group, total in zip(first.groups, sums, strict=True)
    ]
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
        groups += [ErrorGroup(layers[group.layers], group.covariance) for group in each.groups]
        columns.append(np.zeros((size, each.shared.shape[1])))
        columns[-1][layers] = each.shared
    return Grouped(tuple(groups), np.concatenate(columns, axis=1))


def mirrored(lower: FloatArray) -> FloatArray:
    """Symmetric matrix from its lower triangle, in place."""
    for begin in range(0, len(lower), _BLOCK):
        end = min(begin + _BLOCK, len(lower))
        block = np.tril(lower[begin:end, begin:end])
        lower[begin:end, begin:end] = block + np.tril(block, -1).T
        lower[begin:end, end:] = lower[end:, begin:end].T
    return lower


def inverse_of(factor: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix from its lower Cholesky factor."""
    (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (factor,))
    lower, failed = potri(factor, lower=1)
    assert not failed, failed
    return mirrored(lower)
