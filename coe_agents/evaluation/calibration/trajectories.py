"""Owns the trajectories of a run: what was known after each round of its questions, and whether it was right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coe_agents.checks import is_number
from coe_agents.clustering import answer_kind
from coe_agents.errors import SamplesError
from coe_agents.evaluation.decisions import Decided, Run
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.policy import stopping_features
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.policy.regime import REGIMES
from coe_agents.rounds import conformity
from coe_agents.types import Regime, RoundData
from coe_agents.uncertainty import regime as regime_at


@dataclass(frozen=True, slots=True)
class SeenRound:
    """What is known after a round.

    Attributes:
        features: See `coe_agents.policy.stopping_features`.
        coe: Collaborative Entropy.
        is_tied: Whether several answers share the lead.
        is_answer: Whether what leads is an answer, and neither a refusal nor empty.
        correct: Whether the leading answer is right, in [0, 1].
        tokens: Of this round.
        n_requests: Of this round.
    """

    features: FloatArray
    coe: float
    is_tied: bool
    is_answer: bool
    correct: float
    tokens: int
    n_requests: int


@dataclass(frozen=True, slots=True)
class Trajectories:
    """The whole trajectories of a run, each of `n_rounds` rounds.

    Attributes:
        rounds: By the question's id.
        n_rounds: How many rounds each has.
        n_left_out: Questions that ended earlier, or of which some round has no verdict or no measurement.
        divergence: Of the measured CoE.
        thresholds: The boundaries of the regimes: aleatoric, epistemic.
    """

    rounds: Mapping[str, Sequence[SeenRound]]
    n_rounds: int
    n_left_out: int
    divergence: str
    thresholds: tuple[float, float]


def trajectories_of(run: Run) -> Trajectories:
    """Returns the trajectories of the questions that had as many rounds as any.

    A rule can only be judged on rounds that were asked whatever was measured before: under a policy that goes on until
    the last round. Of a chain only the first question counts, since the others depend on the answer before.

    Raises:
        SamplesError: If no question had two rounds, or the rounds cannot be read.
    """
    steps = {key: item.steps[0] for key, item in run.items.items()}
    n_rounds = max((len(step.verdicts) for step in steps.values()), default=0)
    if n_rounds < 2:
        raise SamplesError(
            f"{run.name} holds no question of two rounds",
            hint='Run a policy that always goes on: kind = "regime" with another_round for each regime',
        )
    found, divergences = dict[str, list[SeenRound]](), set[str]()
    regimes = list[tuple[float, float, str]]()
    for key, step in steps.items():
        try:
            seen = _read_rounds(step)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SamplesError(
                f"the rounds of {key[:50]!r} in {run.name} cannot be read: {type(error).__name__}: {error}",
                hint="Rerun coe-agents run in another folder",
            ) from error
        if seen is not None and len(seen) == n_rounds:
            found[key] = seen
            divergences.add(str(step.decision["divergence"]))
            regimes += [(data["aleatoric"], data["epistemic"], data["regime"]) for data in step.decision["trajectory"]]
    if not found:
        raise SamplesError(
            f"no question of {run.name} has {n_rounds} rounds with a verdict after each",
            hint="Run questions with references",
        )
    if len(divergences) > 1:
        raise SamplesError(f"{run.name} holds several divergences", hint="Rerun coe-agents run in another folder")
    divergence = divergences.pop()
    thresholds = _thresholds(run.settings)
    if divergence == "kl" and any(_regime(u_a, u_e, thresholds) != name for u_a, u_e, name in regimes):
        raise SamplesError(
            f"the regimes of {run.name} are not those at {thresholds[0]:g} and {thresholds[1]:g} nats",
            hint="Run a policy whose thresholds its configuration names, or one without",
        )
    return Trajectories(found, n_rounds, len(steps) - len(found), divergence, thresholds)


def _regime(aleatoric: float, epistemic: float, thresholds: tuple[float, float]) -> str:
    return regime_at(aleatoric, epistemic, aleatoric_threshold=thresholds[0], epistemic_threshold=thresholds[1])


def _thresholds(settings: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the boundaries of the regimes that the policy of a run had."""
    config = settings.get("config")
    policy = config.get("policy") if isinstance(config, dict) else None
    own = policy if isinstance(policy, dict) else {}
    aleatoric, epistemic = own.get("aleatoric_threshold"), own.get("epistemic_threshold")
    if is_number(aleatoric) and is_number(epistemic):
        return float(aleatoric), float(epistemic)
    return DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD


def _read_rounds(step: Decided) -> list[SeenRound] | None:
    """Returns the rounds of a question; None if one has no verdict or was not measured."""
    trajectory: Sequence[RoundData] = step.decision["trajectory"]
    if len(trajectory) != len(step.verdicts):
        raise ValueError("there is not one verdict for each round")
    found: list[SeenRound] = []
    for number, (data, correct) in enumerate(zip(trajectory, step.verdicts, strict=True)):
        coe, aleatoric, epistemic = _nats(data["coe"]), _nats(data["aleatoric"]), _nats(data["epistemic"])
        if correct is None or coe is None or aleatoric is None or epistemic is None:
            return None
        adopted = [change for former in trajectory[: number + 1] for change in former["adopted"].values()]
        if not all(isinstance(change, bool) for change in adopted):
            raise ValueError('"adopted" does not hold true or false')
        features = stopping_features(
            round=number,
            aleatoric=aleatoric,
            epistemic=epistemic,
            former_epistemic=trajectory[number - 1]["epistemic"] if number else None,
            conformity=conformity(trajectory[: number + 1]),
            regime=_to_regime(data["regime"]),
        )
        asked = [
            int(each["n_requests"])
            for agent in step.decision["agents"].values()
            for each in agent["sampling"]
            if each.get("round", 0) == number
        ]
        is_answer = answer_kind(str(data["answer"])) == "answer"
        tokens = _count(data["tokens"])
        found.append(SeenRound(features, coe, len(data["led"]) > 1, is_answer, correct, tokens, sum(asked)))
    return found


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**53:
        raise ValueError('"tokens" is not a count')
    return value


def _nats(value: object) -> float | None:
    if value is None:
        return None
    if not is_number(value) or not 0 <= value < 1e6:
        raise ValueError("a part of CoE is not a number of nats")
    return float(value)


def _to_regime(value: object) -> Regime:
    for name in REGIMES:
        if value == name:
            return name
    raise ValueError("there is no such regime")
