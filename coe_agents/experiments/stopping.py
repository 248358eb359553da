"""Owns the comparison of stopping rules: never, always, by a threshold on CoE, and learned from trajectories.

Rules are replayed on trajectories in which every question had all rounds. A rule only chooses after which round to
stop, and what the agents say in a round does not depend on the rule, so this is what each would have done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coe_agents._plurals import quantity
from coe_agents.evaluation.calibration.learned import N_FOLDS, to_folds
from coe_agents.evaluation.calibration.stopping import learn_stopping
from coe_agents.evaluation.calibration.trajectories import SeenRound, Trajectories
from coe_agents.evaluation.metrics.bootstrap import Estimate, resamples, with_interval
from coe_agents.evaluation.metrics.tallies import BoolArray, FloatArray
from coe_agents.experiments.comparison import Comparison, Outcome, PolicyOutcomes, compare
from coe_agents.experiments.experiment import plain
from coe_agents.policy import STOPPING_FEATURES, StoppingRule
from coe_agents.policy.regime import REGIMES

LEARNED = "learned"
Stop = Callable[[str, Sequence[SeenRound]], int]
"""From a question's id and its rounds to the round after which it stops, from 0."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What another round did to some rounds.

    Attributes:
        of: Which rounds.
        n: How many of them; each but a question's last counts.
        before: The share with a right leading answer.
        after: That share after the next round.
        gain: The difference, with its 95 % interval; questions are resampled.
        asked: In how many of them the learned rule asks for another round.
    """

    of: str
    n: int
    before: float
    after: float
    gain: Estimate
    asked: int


@dataclass(frozen=True, slots=True)
class StoppingComparison:
    """Stopping rules side by side.

    Attributes:
        rule: The learned one; where none was given, learned on all questions.
        comparison: The figures of each; the reference is the threshold on CoE.
        net: By name: the accuracy of the leading answer less the price of all further rounds, and its difference to the
            reference, paired.
        gains: What another round did, by what was known before it.
        is_held_out: Whether the learned rule is judged on questions on which it was not learned at all. If not, it is
            judged in five folds, each by a rule that was learned on the other four.
        n_left_out: Questions without a whole trajectory.
    """

    rule: StoppingRule
    comparison: Comparison
    net: Mapping[str, tuple[Estimate, Estimate]]
    gains: tuple[Gain, ...]
    is_held_out: bool
    n_left_out: int

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON has it; what is not known is null."""
        return {
            **self.comparison.to_json(),
            "price": self.rule.price,
            "is_held_out": self.is_held_out,
            "n_left_out": self.n_left_out,
            "net": {
                name: {"value": list(map(plain, own)), "difference": list(map(plain, difference))}
                for name, (own, difference) in self.net.items()
            },
            "gains": [asdict(each) | {"gain": list(map(plain, each.gain))} for each in self.gains],
        }

    def in_words(self) -> list[str]:
        """Returns a plain sentence for each rule, and one on what the rule was judged on."""
        reference = self.comparison.policies[0].name
        said = []
        for each in self.comparison.policies:
            accuracy, rounds, tokens = (each.figures[name][0] for name in ("accuracy_all", "rounds", "tokens"))
            sentence = f"{each.name}: right in {accuracy:.1%}, {rounds:.2f} rounds and {tokens:.0f} tokens a question."
            if each.name != reference:
                _, (value, low, high) = self.net[each.name]
                beyond = "beyond chance" if low > 0 or high < 0 else "within chance"
                sentence += (
                    f" Net of {self.rule.price:g} for each further round, it differs by {100 * value:+.1f} points "
                    f"[{100 * low:+.1f}, {100 * high:+.1f}] from {reference}, {beyond}."
                )
            said.append(sentence)
        how = (
            f"The learned rule was learned on {quantity(self.rule.n_questions, 'other question')}."
            if self.is_held_out
            else f"The learned rule is judged in {N_FOLDS} folds, each by a rule learned on the other questions."
        )
        left = (
            f" Left out, without all rounds or without a verdict: {quantity(self.n_left_out, 'question')}."
            if self.n_left_out
            else ""
        )
        return [*said, how + left]


def compare_stopping(
    trajectories: Trajectories,
    *,
    max_coe: float,
    price: float = 0.01,
    rule: StoppingRule | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> StoppingComparison:
    """Replays four stopping rules on whole trajectories.

    "never" stops after the first round, "always" after the last one. The reference goes on while CoE exceeds `max_coe`
    or answers tie, as `ThresholdPolicy(max_coe, otherwise="another_round")` does. All answer, in the figures of
    coverage and risk, where CoE is at most `max_coe` after the round in which they stop.

    Args:
        trajectories: Of a run whose policy always went on.
        max_coe: In nats.
        price: Of the rule that is learned; with a `rule`, that of the rule counts.
        rule: Learned on other questions; None learns one here, and judges it in folds.
        n_resamples: Of the bootstrap behind every interval.
        seed: Of the bootstrap.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: As `learn_stopping`; or `rule` was learned with another divergence or other regimes.
    """
    rounds = trajectories.rounds
    if rule is None:
        learned, of_question = _in_folds(trajectories, price)
    else:
        own = (rule.divergence, rule.aleatoric_threshold, rule.epistemic_threshold)
        if own != (trajectories.divergence, *trajectories.thresholds):
            raise ValueError(
                f'"rule" must be learned with the divergence and the regimes of the trajectories; got {own}. '
                "Learn one from a run of the same configuration"
            )
        learned, of_question = rule, dict.fromkeys(rounds, rule)

    def by_threshold(_: str, seen: Sequence[SeenRound]) -> int:
        return _first(seen, lambda each: each.coe <= max_coe and not each.is_tied)

    reference = f"CoE > {max_coe:g}"
    stops: dict[str, Stop] = {
        reference: by_threshold,
        "never": lambda _, seen: 0,
        "always": lambda _, seen: len(seen) - 1,
        LEARNED: lambda key, seen: _first(seen, lambda each: not of_question[key].pays(each.features)),
    }
    places = {name: {key: stop(key, seen) for key, seen in rounds.items()} for name, stop in stops.items()}
    outcomes = [
        PolicyOutcomes(name, {key: _outcome(rounds[key][: place + 1], max_coe) for key, place in own.items()})
        for name, own in places.items()
    ]
    return StoppingComparison(
        learned,
        compare(outcomes, n_resamples=n_resamples, seed=seed),
        _net(rounds, places, learned.price, n_resamples=n_resamples, seed=seed),
        tuple(_gains(rounds, of_question, n_resamples=n_resamples, seed=seed)),
        rule is not None,
        trajectories.n_left_out,
    )


def _in_folds(trajectories: Trajectories, price: float) -> tuple[StoppingRule, dict[str, StoppingRule]]:
    """Returns the rule of all questions, and of each question a rule that was learned without it."""
    rounds = trajectories.rounds
    names = list(rounds)

    def learn(own: Sequence[str]) -> StoppingRule:
        return learn_stopping(
            [rounds[name] for name in own],
            price=price,
            divergence=trajectories.divergence,
            thresholds=trajectories.thresholds,
        )

    whole = learn(names)
    fold = to_folds(names, [1.0 - rounds[name][0].correct for name in names]).tolist()
    others = {
        number: learn([name for name, own in zip(names, fold, strict=True) if own != number]) for number in set(fold)
    }
    return whole, {name: others[own] for name, own in zip(names, fold, strict=True)}


def _first(seen: Sequence[SeenRound], stops: Callable[[SeenRound], bool]) -> int:
    """Returns the first round after which a rule stops; it has no choice after the last one."""
    return next((place for place, each in enumerate(seen[:-1]) if stops(each)), len(seen) - 1)


def _outcome(seen: Sequence[SeenRound], max_coe: float) -> Outcome:
    last = seen[-1]
    is_answered = last.coe <= max_coe and not last.is_tied and last.is_answer
    return Outcome(
        is_answered=is_answered,
        correct=last.correct if is_answered else None,
        leading_correct=last.correct,
        tokens=float(sum(each.tokens for each in seen)),
        n_requests=sum(each.n_requests for each in seen),
        seconds=None,
        n_rounds=len(seen),
        is_escalated=False,
        conformity=None,
        decided_by="group",
        cost=None,
    )


def _net(
    rounds: Mapping[str, Sequence[SeenRound]],
    places: Mapping[str, Mapping[str, int]],
    price: float,
    *,
    n_resamples: int,
    seed: int,
) -> dict[str, tuple[Estimate, Estimate]]:
    ids = sorted(rounds)
    values = np.array([[rounds[key][own[key]].correct - price * own[key] for key in ids] for own in places.values()])
    drawn = np.concatenate(
        [values @ block.T / len(ids) for block in resamples(len(ids), n_resamples=n_resamples, seed=seed)], axis=1
    )
    mean = values.mean(axis=1)
    return {
        name: (with_interval(mean[i], drawn[i]), with_interval(mean[i] - mean[0], drawn[i] - drawn[0]))
        for i, name in enumerate(places)
    }


def _gains(
    rounds: Mapping[str, Sequence[SeenRound]], rules: Mapping[str, StoppingRule], *, n_resamples: int, seed: int
) -> list[Gain]:
    """Returns what another round did to those that are alike."""
    ids = sorted(rounds)
    rows = [
        (place, seen, seen.correct, following.correct, rules[key].pays(seen.features))
        for place, key in enumerate(ids)
        for seen, following in zip(rounds[key][:-1], rounds[key][1:], strict=True)
    ]
    owners = np.array([place for place, *_ in rows])
    before, after, asked = (np.array([row[place] for row in rows], dtype=np.float64) for place in (2, 3, 4))
    blocks = [block.astype(float) for block in resamples(len(ids), n_resamples=n_resamples, seed=seed)]
    found = []
    for name, inside in _alike(np.array([seen.features for _, seen, *_ in rows])).items():
        if not inside.any():
            continue
        n = np.bincount(owners[inside], minlength=len(ids)).astype(float)
        change = np.bincount(owners[inside], (after - before)[inside], minlength=len(ids))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn: FloatArray = np.concatenate([(block @ change) / (block @ n) for block in blocks])
        found.append(
            Gain(
                name,
                int(inside.sum()),
                float(before[inside].mean()),
                float(after[inside].mean()),
                with_interval(float((after - before)[inside].mean()), drawn),
                int(asked[inside].sum()),
            )
        )
    return found


def _alike(features: FloatArray) -> dict[str, BoolArray]:
    """Returns which rounds are alike: by regime, by number, and by what the round before had done."""
    of = dict(zip(STOPPING_FEATURES, features.T, strict=True))
    regimes = {name: of[name] > 0 for name in REGIMES if name in of}
    later, fell = of["round"] > 0, of["fall"] > 1e-9
    return {
        "consensus": ~np.any(list(regimes.values()), axis=0),
        **regimes,
        **{f"after round {number + 1:g}": of["round"] == number for number in np.unique(of["round"])},
        "epistemic part fell": later & fell,
        "epistemic part did not fall": later & ~fell,
        "conformity above 0": of["conformity"] > 0,
        "conformity 0, or no debate": later & (of["conformity"] == 0),
    }
