"""Owns the experiment `contamination`: semantic entropy by what the model knows, the paper's first limitation."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from coe_agents.clustering import normalize_answer
from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.experiment import Experiment, Row
from coe_agents.experiments.groups import judge_group
from coe_agents.uncertainty import entropy

Beliefs = Callable[[str, str], Mapping[str, float] | None]
"""From a question's id and an agent's name to its belief: probabilities of answers, nothing if it never saw the fact;
None where the belief is not known."""

_STATES = ("sure and right", "sure and wrong", "hesitates", "never saw it")
_COLUMNS = ("state", "units", "share of units", "mean SE", "share of SE", "entropy of belief", "accuracy", "ties")


def contamination(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup, beliefs: Beliefs
) -> Experiment:
    """Returns semantic entropy by what the model knows; a unit is one question asked of one model.

    The SE of a model that was taught two answers is aleatoric, as it should be. The SE of a model that never saw the
    fact results from not knowing, but U_A counts it as aleatoric, too.

    Raises:
        ValueError: No belief is known.
    """
    units: dict[str, list[tuple[float, float, float, bool]]] = {state: [] for state in _STATES}
    for agent in agents:
        group = judge_group(questions, [agent], setup)
        for each, right in zip(group.statistics, group.correct.tolist(), strict=True):
            belief = beliefs(each.question.id, agent)
            if belief is not None:
                believed = float(entropy(np.array(list(belief.values())))) if belief else float("nan")
                unit = (each.measurement.aleatoric, believed, right, each.is_tied)
                units[_state(belief, each.question.references)].append(unit)
    by_state = {state: np.array(found).T for state, found in units.items() if found}
    if not by_state:
        raise ValueError(
            '"beliefs" must hold what the agents believe about at least one question; got none. '
            "Only tinyworld's knowledge is known: pass its samples"
        )
    n_units = sum(map(len, units.values()))
    total = sum(float(entropies.sum()) for entropies, *_ in by_state.values())
    rows: tuple[Row, ...] = tuple(
        (
            state,
            entropies.size,
            entropies.size / n_units,
            float(entropies.mean()),
            float(entropies.sum()) / total if total else None,
            None if state == "never saw it" else float(believed.mean()),
            float(right.mean()),
            int(ties.sum()),
        )
        for state, (entropies, believed, right, ties) in by_state.items()
    )

    return Experiment(
        name="contamination",
        title="How much of semantic entropy is due to missing knowledge",
        columns=_COLUMNS,
        rows=rows,
        label="Limitations, the first",
        settings={"units": f"{n_units}: a question asked of one of {', '.join(agents)}"},
        notes=(
            "Only where the models' knowledge is known can this be measured. Entropies in nats.",
            "The entropy of a belief is what SE would be of a model that responds exactly as it was taught.",
        ),
    )


def _state(belief: Mapping[str, float], references: Sequence[str]) -> str:
    if len(belief) != 1:
        return "hesitates" if belief else "never saw it"
    (answer,) = belief
    accepted = {normalize_answer(reference) for reference in references}
    return "sure and right" if normalize_answer(answer) in accepted else "sure and wrong"
