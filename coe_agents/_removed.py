"""Owns what earlier versions had and this one refuses: names, arguments and fields, each with what replaces it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast, get_args

_Part = TypeVar("_Part", bound=Callable[..., Any])

_INTERVAL = (
    "No policy read it; compute it from the responses by coe_agents.uncertainty.coe_interval"
)
_SOLVER = "Pass a callable that takes and returns the distributions, or choose greedy or softmax"
_KL = "The divergence is KL; score has coe_js and others, coe_agents.uncertainty.collaborative_entropy takes divergence"
_COE = "Compare `coe`, in nats: it is always under KL"
_EPISTEMIC = "Compare `epistemic`, in nats: it is always under KL"
_FIRST_TOKEN = (
    "It read the first token alone, which is no reply. "
    'Use "sampled", or "exact" of a model with "choice_log_probabilities"'
)
_ASKS_PEOPLE = (
    "CoEMiddleware asks people itself, and blocks what nobody approved: "
    'CoEMiddleware(graph, tools=[...], on_uncertain="interrupt")'
)
_VOTE_SHARE = "vote_share ranks as well"
_FIXED_NUMBER = "Set `n_samples` of each agent: at equal risk a fixed number of 4 answers as much"
_ON_DECISION = "Pass it as on_decision"
_GRAPH_OPTIONS = (
    "weighting",
    "coordination",
    "canonicalize",
    "retries",
    "max_question_chars",
    "on_unavailable",
    "clarify",
)

REMOVED: Mapping[str, Mapping[str, str]] = {
    "coe_agents": {"CoEError": "Import it from coe_agents.errors"},
    "coe_agents.actions": {"read_action": "Import it from coe_agents.actions.canonical"},
    "coe_agents.agents": {
        "ChatJudge": "Import it from coe_agents.agents.judge",
        "ChoiceProbabilities": "Import it from coe_agents.agents.choice.probability",
    },
    "coe_agents.clustering": {
        "CachedEntailment": "Import it from coe_agents.clustering.entailment_wrappers",
        "canonical_answer": "Import it from coe_agents.clustering.answers",
    },
    "coe_agents.decisions": {
        "CoEClassifierResponse": "Import it from coe_agents.decisions.decision_model",
        "QuestionDecision": "Import it from coe_agents.decisions.decision_model",
    },
    "coe_agents.config": {"Configuration": "Import it from coe_agents.config.build"},
    "coe_agents.policy": {
        "agreement_weights": "Import it from coe_agents.measurement.weighted_vote"
    },
    "coe_agents.experiments": {
        "ReplayedPolicy": "Import it from coe_agents.experiments.replays",
        "load_saved": "Import it from coe_agents.experiments.replays",
        "replay": "Call coe_agents.compare(samples, policies={name: policy})",
    },
    "coe_agents.rounds": {
        "AdaptiveSampling": _FIXED_NUMBER,
        "Clarify": "Import it from coe_agents.rounds.strategies",
        "Strategy": "Import it from coe_agents.rounds.strategy",
    },
    "coe_agents.rulings": {
        "RecordedCase": "Import it from coe_agents.decision.case",
        "cases": "Import it from coe_agents.rulings.recorded",
        "recalibrate": "Import it from coe_agents.rulings.audits",
    },
    "coe_agents.testing": {"TableEntailment": "Import it from coe_agents.testing.doubles"},
    "coe_agents.uncertainty": {
        "CoEInterval": "Import it from coe_agents.uncertainty.intervals",
        "ensemble_mean": "Import it from coe_agents.uncertainty.collaborative",
    },
    "coe_agents.graph": {
        "CoEInput": "Import it from coe_agents.graph.state",
        "Event": "Import it from coe_agents.graph.events",
        "CoEOutput": "Import it from coe_agents.graph.state",
        "Recording": "Import it from coe_agents.rulings",
        "candidates": "Import it from coe_agents.graph.nodes.escalation",
    },
    "coe_agents.middleware": {
        "CoEVerdicts": _ASKS_PEOPLE,
        "Verdict": "Import it from coe_agents.middleware.verdict",
        "lacks_approval": _ASKS_PEOPLE,
    },
    "coe_agents.evaluation": {
        "CRITERIA": "Import it from coe_agents.evaluation.scoring.correctness",
        "SampledQuestion": "Import it from coe_agents.types",
        "Rule": "Import it from coe_agents.evaluation.scoring.correctness",
        "advise": "Import it from coe_agents.advice",
        "judge_samples": "Call the method `judge` of Samples",
        "recalibrate": "Import it from coe_agents.rulings.audits",
        "score": "Import it from coe_agents; it takes samples, and returns a table",
    },
    "create_coe_graph": {
        "adaptive": _FIXED_NUMBER,
        "divergence": _KL,
        "recording": _ON_DECISION,
        "claims": "Pass it as answer_judge",
        **{
            name: f"Pass options=coe_agents.graph.GraphOptions({name}=...)"
            for name in _GRAPH_OPTIONS
        },
    },
    "create_graph": {"recording": _ON_DECISION},
    "CoEMiddleware": {"on_error": "A failure to ask closes the gate, and the log has its kind"},
    "coe_interval": {
        "log_probs": "Responses count equally",
        "weights": "Agents count equally",
        "divergence": _KL,
    },
    "score": {
        "renyi_3": _VOTE_SHARE,
        "self_consistency": _VOTE_SHARE,
        "disagreement": _VOTE_SHARE,
        "length_normalised_entropy": _VOTE_SHARE,
        "verbal_confidence": "confidence_vote_share reads what the agents stated",
    },
    "Samples": {"workers": "Files are read on all cores"},
    "report": {"workers": "One process writes it; coe-agents score --processes scores in several"},
    "solver": {"genetic": _SOLVER, "bayesian": _SOLVER},
    "choice": {"top_logprobs": _FIRST_TOKEN, "constrained": _FIRST_TOKEN},
    "measure": {"n_resamples": _INTERVAL, "divergence": _KL},
    "GroupDecision": {"interval": _INTERVAL, "divergence": _KL},
    "Measurement": {
        "interval": _INTERVAL,
        "forecast": _FIXED_NUMBER,
        "divergence": _KL,
        "comparable_coe": _COE,
        "comparable_epistemic": _EPISTEMIC,
        "epistemic_scale": _EPISTEMIC,
        "proposal_support": "Read `proposals.support`",
        "proposer": "Read `proposals.proposer`",
        "votes": "Read `proposals.votes`",
        "voters": "Call `proposals.voters`",
        "calls": "Read `proposals.calls`",
        "writings": "Read `proposals.writings`",
        "fields": "Read `proposals.fields`",
        "contested": "Read `proposals.contested`",
        "history": "Read `run.history`",
        "tokens_left": "Read `run.tokens_left`",
        "conformity": "Read `run.conformity`",
        "scores": "Read `run.scores`",
        "sampled": "Read `run.sampled`",
        "leading": "Call coe_agents.measurement.measurement.leading_cluster",
    },
    "graph": {"adaptive": _FIXED_NUMBER.replace("`", '"'), "divergence": _KL},
}
"""What replaces each name, by its owner: a module, a function, a class, a part, or a table of the configuration."""


def replacement_of(owner: str, name: str) -> str | None:
    """Returns what replaces a name that its owner had in an earlier version; None if it never had it."""
    return REMOVED.get(owner, {}).get(name)


def refuse_arguments(
    function: str, names: Iterable[str], *, known: Sequence[str] = (), owner: str | None = None
) -> None:
    """Raises a TypeError for the first argument that a function does not take, with what replaces a removed one.

    Args:
        function: The name by which it was called.
        names: The arguments that it does not take.
        known: Those that it takes, of which the nearest is named.
        owner: Of which function the arguments are, where it passes them on.
    """
    for name in names:
        instead = replacement_of(owner or function, name)
        if instead is not None:
            raise TypeError(
                f'{function} must be called without "{name}", which was removed. {instead}'
            )
        near = get_close_matches(name, known, n=1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{function} got an unexpected keyword argument {name!r}{hint}")


def names_of_arguments(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's arguments, and of those that its `**arguments: Unpack[...]` lists."""
    names = []
    for name, parameter in signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            names.append(name)
            continue
        for listed in get_args(parameter.annotation):
            names += getattr(listed, "__annotations__", ())
    return names


def refuse_others(
    function: str, given: Iterable[str], *, known: Sequence[str], owner: str | None = None
) -> None:
    """Raises a TypeError for the first argument given that is not known; see `refuse_arguments`."""
    others = [name for name in given if name not in known]
    refuse_arguments(function, others, known=known, owner=owner)


def refuses_removed(part: _Part) -> _Part:
    """Has a function refuse the arguments that it once took, with what replaces them, and others with the nearest.

    Of a class it is the constructor; so for a dataclass, which writes its own. The signature stays as it is.
    """
    if isinstance(part, type):
        constructed: Any = part
        constructed.__init__ = refuses_removed(constructed.__init__)
        return part

    function: Any = part
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    known = names_of_arguments(function)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        refuse_others(name, kwargs, known=known)
        return function(*args, **kwargs)

    return cast("_Part", checked)


def missing_attribute(of: object, name: str) -> AttributeError:
    """Returns the error for an attribute that an object does not have, with what replaces a removed one."""
    kind = type(of).__name__
    instead = replacement_of(kind, name)
    message = f"{kind!r} object has no attribute {name!r}"
    return AttributeError(message if instead is None else f"{message}: it was removed. {instead}")


def missing_name(module: str, name: str) -> Exception:
    """Returns the error for a name that a module does not have, with what replaces a removed one.

    It is an ImportError then: `from module import name` replaces the message of any AttributeError.
    """
    instead = replacement_of(module, name)
    if instead is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return ImportError(f"{name} cannot be imported from {module}: it was removed. {instead}")
