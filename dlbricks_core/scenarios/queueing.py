"""Queues: when a number of instances are done with samples that wait in one line.

Samples are served in the order in which they arrive, each by the instance that is free first.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from dlbricks_core.figures.statistics import FloatArray


def poisson_arrivals(queries: int, rng: np.random.Generator) -> FloatArray:
    """Arrival times of a Poisson process of one query per second, in seconds: shape (queries,).

    Divided by another rate they are those of that rate, so that runs at several rates differ in
    nothing else.
    """
    return np.cumsum(rng.exponential(size=queries))


def completions(arrivals: FloatArray, service: FloatArray, instances: int) -> FloatArray:
    """Time at which each sample is done, where no instance slows another down.

    Source: the recursion of Kiefer and Wolfowitz for the workload of a G/G/n queue (Transactions
    of the American Mathematical Society 78, 1955).

    Args:
        arrivals: Ascending times of arrival: shape (k,).
        service: Time that each sample takes, in the same unit: shape (k,).
        instances: Number of instances.

    Returns:
        Array of shape (k,).
    """
    free = [-math.inf] * instances
    done = np.empty(len(arrivals))
    for i, (arrival, needed) in enumerate(zip(arrivals.tolist(), service.tolist(), strict=True)):
        end = max(arrival, free[0]) + needed
        heapq.heapreplace(free, end)
        done[i] = end
    return done


def contended_completions(arrivals: FloatArray, service: FloatArray) -> FloatArray:
    """The same where a sample's speed depends on how many instances are busy at each moment.

    A sample that would take a time s while k instances are busy advances by 1/s of itself per unit
    of time, and changes its speed whenever an instance begins or ends.

    Args:
        arrivals: Ascending times of arrival: shape (k,).
        service: Time that each sample would take with 1 to n instances busy all along, in the same
            unit: shape (n, k).

    Returns:
        Array of shape (k,).
    """
    instances = len(service)
    times, needed = arrivals.tolist(), service.T.tolist()
    done = np.empty(len(times))
    left: dict[int, float] = {}  # share of each sample in service that is still to do
    now, waiting = 0.0, 0
    while left or waiting < len(times):
        busy = len(left)
        arrival = times[waiting] if waiting < len(times) and busy < instances else math.inf
        first, end = -1, math.inf
        for sample, share in left.items():
            at = now + share * needed[sample][busy - 1]
            if at < end:
                first, end = sample, at
        moment = max(now, min(arrival, end))
        for sample in left:
            left[sample] -= (moment - now) / needed[sample][busy - 1]
        now = moment
        if end <= arrival:
            del left[first]
            done[first] = end
        else:
            left[waiting] = 1.0
            waiting += 1
    return done
