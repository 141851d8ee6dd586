"""Which networks run in the next round."""

import numpy as np

from dlbricks_core.facts import LATENCY, Measurement, Observation, Question, Setup, Subject
from dlbricks_core.figures.precision import FEWEST, MOST, PrecisionTarget
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.schedule import FEWEST_LONG, FixedRuns, UntilPrecise, long_enough


def key(name, kind="brick"):
    return Question(
        Subject(name, kind), LATENCY, Setup("b", "1", "{}", 1, "interleaved", "0.1.0"), "here"
    )


A, B, WHOLE = key("a"), key("b"), key("m", "model")
SUM, ONE = PrecisionTarget("m", {A: 2, B: 1}), PrecisionTarget("m end to end", {WHOLE: 1})


def sample(ms, number, *warnings):
    return Observation("s", number, (max(float(ms), 0.0),), overhead=0.01, flags=warnings)


class Machine:
    """Runs the networks that are due, with given noise."""

    def __init__(self, schedule, **relative):
        self.schedule = schedule
        self.relative = relative
        self.random = np.random.default_rng(5)
        self.rounds = []

    def run(self, *keys, late_from=None):
        while due := self.schedule.due(keys, late=len(self.rounds) == late_from):
            self.rounds.append(due)
            for each in due:
                scatter = self.random.normal(0, self.relative.get(each.subject.signature, 0.0))
                self.schedule.take(each, sample(10 * (1 + scatter), len(self.rounds)))
            if len(self.rounds) > 3 * MOST:
                raise AssertionError("no end")

    def count(self, each):
        return sum(each in due for due in self.rounds)


def test_fixed_runs_are_run_as_often_as_asked():
    machine = Machine(FixedRuns({A: 3, B: 1, WHOLE: 0}))
    machine.run(A, B, WHOLE)
    assert [len(due) for due in machine.rounds] == [2, 1, 1]


def test_few_runs_are_spread_over_the_rounds_of_many():
    long = [key(f"long{number}") for number in range(12)]
    machine = Machine(FixedRuns(dict.fromkeys([A, *long], 20), enough_s=0.025))  # runs of 10 ms
    schedule = machine.schedule
    for number in range(20):
        due = schedule.due([A, *long])
        machine.rounds.append(due)
        for each in due:
            schedule.take(each, sample(0.1 if each is A else 10, number))
    assert schedule.due([A, *long]) == set()
    assert machine.rounds[0] == {A, *long}
    assert machine.count(A) == 20
    for each in long:
        first, second, third = (n for n, due in enumerate(machine.rounds) if each in due)
        assert (first, 0 < second <= 7, 7 <= third < 20) == (0, True, True)
    assert max(map(len, machine.rounds[1:])) <= 4


def test_networks_that_remain_wait_for_no_empty_round():
    machine = Machine(FixedRuns({A: 2, B: 20}))
    assert machine.schedule.due([A]) == {A}
    machine.schedule.take(A, sample(10, 0))
    assert machine.schedule.due([A]) == {A}


def test_runs_lie_between_the_fewest_on_a_quiet_machine_and_the_most():
    machine = Machine(UntilPrecise([[SUM, ONE]], 0.01))
    machine.run(A, B, WHOLE)
    assert machine.rounds == [{A, B, WHOLE}] * FEWEST
    hopeless = Machine(UntilPrecise([[SUM]], 0.01), a=0.9, b=0.9)
    hopeless.run(A, B)
    assert hopeless.count(A) == hopeless.count(B) == MOST
    ((demand, half),) = hopeless.schedule.shortfalls()
    assert demand is SUM
    assert half > 0.01


def test_runs_follow_noise_and_multiplicity():
    machine = Machine(UntilPrecise([[PrecisionTarget("m", {A: 8, B: 1})]], 0.01), a=0.05, b=0.05)
    machine.run(A, B)
    assert machine.count(A) > 3 * machine.count(B) > FEWEST
    assert machine.schedule.shortfalls() == []


def test_a_model_and_its_bricks_run_in_the_same_rounds():
    by_model = Machine(UntilPrecise([[SUM, ONE]], 0.01), m=0.05)
    by_model.run(A, B, WHOLE)
    assert by_model.rounds[20:] == [{A, B, WHOLE}] * (by_model.count(WHOLE) - 20)
    by_brick = Machine(UntilPrecise([[SUM, ONE]], 0.01), a=0.1)
    by_brick.run(A, B, WHOLE)
    assert by_brick.count(WHOLE) == by_brick.count(A) > by_brick.count(B)


def test_precise_models_are_not_run_on_with_others():
    other = PrecisionTarget("n end to end", {key("n", "model"): 1})
    machine = Machine(UntilPrecise([[SUM, ONE], [other]], 0.01), n=0.05)
    machine.run(A, B, WHOLE, key("n", "model"))
    assert machine.count(WHOLE) == FEWEST
    assert machine.count(key("n", "model")) > 2 * FEWEST


def test_a_brick_of_two_models_gets_the_larger_number_of_runs():
    large = PrecisionTarget("large", {A: 1, B: 50})
    alone = Machine(UntilPrecise([[large]], 0.01), a=0.1)
    alone.run(A, B)
    both = Machine(UntilPrecise([[large], [PrecisionTarget("small", {A: 1})]], 0.01), a=0.1)
    both.run(A, B)
    assert both.count(A) > 2 * alone.count(A)


def test_after_the_budget_only_the_fewest_runs_are_taken():
    machine = Machine(UntilPrecise([[SUM, ONE]], 0.01), m=0.2)
    schedule = machine.schedule
    assert schedule.due([A, B], late=True) == {A, B}
    for number in range(FEWEST):
        for each in (A, B, WHOLE):
            schedule.take(each, sample(machine.random.normal(10, 2), number))
    assert schedule.due([A, B, WHOLE]) == {A, B, WHOLE}
    assert schedule.due([A, B, WHOLE], late=True) == set()


def test_disturbed_samples_do_not_make_a_sum_precise():
    schedule = UntilPrecise([[PrecisionTarget("m", {A: 1})]], 0.01)
    random = np.random.default_rng(5)
    quiet = total = 0
    while schedule.due([A]):
        total += 1
        if total % 4:
            schedule.take(A, sample(20 + random.random(), total, "a neighbour"))
        else:
            quiet += 1
            schedule.take(A, sample(10 * random.normal(1, 0.01), total))
    assert FEWEST <= quiet < total / 3
    assert schedule.shortfalls() == []


def test_disturbed_samples_are_never_enough_however_precise():
    schedule = UntilPrecise([[PrecisionTarget("m", {A: 1})]], 0.01)
    total = 0
    while schedule.due([A]):
        total += 1
        schedule.take(A, sample(10, total, *["a neighbour"] * (total <= 40)))
    assert total == 40 + FEWEST


def test_measuring_ends_on_a_machine_that_stays_disturbed():
    schedule = UntilPrecise([[PrecisionTarget("m", {A: 1})]], 0.01)
    total = 0
    while schedule.due([A]):
        total += 1
        schedule.take(A, sample(10, total, *["a neighbour"] * (total > 3)))
    assert total == MOST


def test_earlier_measurements_count():
    def stored(each, number, scatter):
        samples = 10 * np.random.default_rng(3).normal(1, scatter, number)
        taken = [Observation("s", i, (float(ms),), overhead=0.01) for i, ms in enumerate(samples)]
        return Measurement(each, observations=tuple(taken))

    def ledger(*measurements):
        return Ledger.of({each.question: each for each in measurements}, PROTOCOLS["interleaved"])

    known = [stored(A, FEWEST, 1e-4), stored(B, FEWEST - 1, 1e-4), stored(WHOLE, 10, 0.05)]
    assert UntilPrecise([[SUM, ONE]], 0.01, ledger(*known)).lacking([A, B, WHOLE]) == {B, WHOLE}
    assert UntilPrecise([[SUM]], 0.01, ledger(known[0])).lacking([A]) == set()


def test_a_failed_network_does_not_hold_up_the_others():
    machine = Machine(UntilPrecise([[SUM, ONE]], 0.01), a=0.05)
    machine.run(A)
    assert FEWEST < machine.count(A) < MOST


def test_slow_networks_have_enough_after_few_runs():
    machine = Machine(FixedRuns({A: 9, B: 2}, enough_s=0.025))  # runs of 10 ms
    machine.run(A, B)
    assert (machine.count(A), machine.count(B)) == (FEWEST_LONG, 2)
    assert not long_enough((1e6,) * (FEWEST_LONG - 1), 1.0)


def test_a_model_is_cheap_if_all_of_its_networks_cost_next_to_nothing():
    small, smaller = (
        PrecisionTarget("s", {key("s", "model"): 1}),
        PrecisionTarget("t", {key("t"): 9}),
    )
    schedule = UntilPrecise([[SUM, ONE], [small], [smaller]], 0.01)
    everything = {A, B, WHOLE, key("s", "model"), key("t")}
    costs = {A: 20, B: 20, WHOLE: 50, key("s", "model"): 3}
    for each, ms in costs.items():
        schedule.take(each, sample(ms, 0))
    assert schedule.cheap(everything) == set()  # the cost of one is unknown
    schedule.take(key("t"), sample(1, 0))
    assert schedule.cheap(everything) == {key("s", "model"), key("t")}
    schedule.take(key("s", "model"), sample(30, 1))
    assert schedule.cheap(everything) == {key("t")}
    assert schedule.cheap({A, B, WHOLE}) == set()
    assert FixedRuns({A: 3, B: 1}).cheap({A, B}) == set()


def test_after_the_budget_cheap_networks_run_along_with_others():
    small = key("s", "model")
    schedule = UntilPrecise([[SUM, ONE], [PrecisionTarget("s end to end", {small: 1})]], 0.01)
    everything = {A, B, WHOLE, small}
    random = np.random.default_rng(5)
    for number in range(FEWEST):
        schedule.take(small, sample(random.normal(1, 0.1), number))
    assert schedule.due(everything) == everything
    assert schedule.due(everything, late=True) == {A, B, WHOLE}  # their costs are unknown
    for each in (A, B, WHOLE):
        for number in range(FEWEST - 1):
            schedule.take(each, sample(20, number))
    assert schedule.due(everything, late=True) == everything
    for each in (A, B, WHOLE):
        schedule.take(each, sample(20, FEWEST))
    assert schedule.due(everything, late=True) == set()


def test_networks_that_run_more_often_are_checked_as_soon_as_they_have_enough():
    noisy = key("n", "model")
    schedule = UntilPrecise([[SUM, ONE], [PrecisionTarget("n end to end", {noisy: 1})]], 0.01)
    random = np.random.default_rng(5)
    for number in range(FEWEST):
        schedule.take(noisy, sample(random.normal(1, 0.1), number))
    schedule.take(A, sample(10, 0))
    assert noisy in schedule.due([A, B, WHOLE, noisy])
