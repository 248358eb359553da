"""Owns `evaluate`: models are asked, and their responses scored."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coe_agents._removed import names_of_arguments, refuse_others
from coe_agents.checks import at_field, require
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import DatasetError
from coe_agents.evaluation.scoring.correctness import create_criterion
from coe_agents.experiments.asking import Models, Questions, config_of, is_configuration
from coe_agents.experiments.blocking import wait_for
from coe_agents.experiments.judging import JudgingArguments, check_proposer, check_resamples
from coe_agents.experiments.sampling import Sampling, prepare
from coe_agents.experiments.scoring import Evaluation, score
from coe_agents.measurement.weighting import Weighting
from coe_agents.presets import check_answers

if TYPE_CHECKING:
    from coe_agents.config.schema import Config


def evaluate(
    models: Models,
    questions: Questions,
    *,
    weighting: Weighting = "auto",
    resamples: int = 1000,
    proposer: str | None = None,
    **arguments: Any,
) -> Evaluation:
    """Asks every agent every question, then scores the responses.

    Args:
        models: As of `sample`.
        questions: As of `sample`, with the references by which answers are judged.
        weighting: As of `score`.
        resamples: As of `score`.
        proposer: As of `score`.
        arguments: Further ones of `sample`, such as `n_samples`, `out`, `clusterer` and `correctness`.

    Raises:
        DatasetError: The questions cannot be read, or none of them has references. Nobody is asked then.
        ValueError: As of `sample` and `score`, before anybody is asked.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent(name, ["Paris", "Paris"]) for name in ("a", "b")]
        >>> asked = [{"question": "Capital of France?", "references": ["Paris"]}]
        >>> evaluate(agents, asked, progress=False, resamples=10).figures["accuracy"]
        1.0
    """
    known = [*names_of_arguments(evaluate), *names_of_arguments(prepare)]
    refuse_others("evaluate", arguments, known=known)
    # what only the score reads is checked before anybody is asked
    JudgingArguments(weighting=weighting)
    check_resamples(resamples)
    config = _check_model_of_criterion(models, arguments)
    sampling = prepare(models, questions, **arguments)
    check_can_be_scored(sampling)
    check_proposer(proposer, [agent.name for agent in sampling.group.participants])
    return score(
        wait_for(sampling),
        config=config,
        weighting=weighting,
        resamples=resamples,
        proposer=proposer,
        progress=arguments.get("progress", True),
    )


def check_can_be_scored(sampling: Sampling) -> None:
    """Raises a DatasetError where none of the questions could be scored."""
    for question in sampling.dataset.questions:
        if question.references or not question.answerable:
            return
    raise DatasetError(
        f"no question of {sampling.dataset.source} has references, so that nothing could be scored",
        hint='Give "references"; or sample alone, and label the responses',
    )


def _check_model_of_criterion(models: Models, arguments: Mapping[str, Any]) -> "Config | None":
    """Returns the configuration that has the judge; refuses a criterion that lacks its model."""
    correctness = arguments.get("correctness")
    config = config_of(models) if is_configuration(models) else None
    if correctness == "judge":
        must = '"correctness" of evaluate must be another than "judge" without a configuration that has [judge]'
        advice = "Pass its file as models; or call sample, and score with a criterion of your own"
        require(config is not None and config.judge is not None, must, correctness, advice)
        return config
    if correctness == "entailment" and not is_configuration(models):
        answers = arguments.get("answers")
        clusterer = arguments.get("clusterer")
        if answers is not None:
            check_answers(answers)
            clusterer = answers.clusterer
        if not isinstance(clusterer, str):
            try:
                create_criterion(correctness, clusterer or NormalizedMatch())
            except ValueError as error:
                raise at_field(error, "correctness") from None
    return None
