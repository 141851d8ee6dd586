"""Queues: completion times of samples that wait in one line for several instances.

Samples are served in the order of their arrival. Each goes to the instance that is free first.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from dlbricks_core.figures.statistics import FloatArray


def poisson_arrivals(queries: int, rng: np.random.Generator) -> FloatArray:
    """Arrival times of a Poisson process of one query per second, in seconds: shape (queries,).

    Dividing them by a rate gives the arrival times of that rate. So runs at several rates differ in
    nothing else.
    """
    return np.cumsum(rng.exponential(size=queries))


def completions(arrivals: FloatArray, service: FloatArray, instances: int) -> FloatArray:
    """Completion time of each sample, where instances do not slow each other down.

    Source: the recursion of Kiefer and Wolfowitz for the workload of a G/G/n queue (Transactions
    of the American Mathematical Society 78, 1955).

    Args:
        arrivals: Ascending arrival times: shape (k,).
        service: Service time of each sample, in the same unit: shape (k,).
        instances: Number of instances.

    Returns:
        Array of shape (k,).
    """
    if instances == 1:  # each completion, without the work so far, is the greatest until then
        work = np.cumsum(service)
        begun: FloatArray = np.maximum.accumulate(arrivals - (work - service))
        return work + begun
    free = [-math.inf] * instances
    done = []
    # Searches for a rate come here a million times a second: no call that can be spared.
    for arrival, needed in zip(arrivals.tolist(), service.tolist(), strict=True):
        first = free[0]
        end = (arrival if arrival > first else first) + needed
        heapq.heapreplace(free, end)
        done.append(end)
    return np.array(done, dtype=np.float64)


def contended_completions(arrivals: FloatArray, service: FloatArray) -> FloatArray:
    """Completion time of each sample, where service slows down with the number of busy instances.

    With k busy instances, a sample of service time s advances by 1/s of its work per unit of time.
    Its speed changes whenever an instance begins or completes a sample.

    Args:
        arrivals: Ascending arrival times: shape (k,).
        service: Service time of each sample if 1 to n instances were busy throughout, in the same
            unit: shape (n, k).

    Returns:
        Array of shape (k,).
    """
    instances = len(service)
    if instances == 1:
        return completions(arrivals, service[0], 1)
    times, needed = arrivals.tolist(), service.T.tolist()
    done = np.empty(len(times))
    left: dict[int, float] = {}  # remaining share of each sample in service
    now, waiting = 0.0, 0
    while left or waiting < len(times):
        busy = len(left)
        arrival = times[waiting] if waiting < len(times) and busy < instances else math.inf
        first, end = -1, math.inf
        for sample, share in left.items():
            at = now + share * needed[sample][busy - 1]
            if at < end:
                first, end = sample, at
        moment = arrival if arrival < end else end
        if moment > now:
            for sample in left:
                left[sample] -= (moment - now) / needed[sample][busy - 1]
        else:
            moment = now
        now = moment
        if end <= arrival:
            del left[first]
            done[first] = end
        else:
            left[waiting] = 1.0
            waiting += 1
    return done
