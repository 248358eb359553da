"""Each test of a contract is seen red: a part with one fault, and the tests that must find it."""

import inspect
import itertools

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import (
    AgentContract,
    ClustererContract,
    EntailmentModelContract,
    FailingAgentContract,
    ScriptedAgent,
    TableEntailment,
)

RIGHT = TableEntailment(lambda premise, hypothesis: "entailment" if hypothesis.endswith("Paris") else "contradiction")


def failed(contract, **parts):
    """The tests of the contract that fail, without "test_"."""
    suite = type("Suite", (contract,), {name: staticmethod(make) for name, make in parts.items()})()
    found = set()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if name.startswith("test_"):
            try:
                test()
            except Exception:
                found.add(name.removeprefix("test_"))
    return found


class ScriptedEntailment:
    """An entailment model whose `predict` is set on the instance."""


def entailing(predict):
    """A factory of entailment models with this `predict`."""

    def create():
        model = ScriptedEntailment()
        model.predict = predict
        return model

    return create


def each_row_by_what_came_first(pairs):
    return RIGHT.predict([*pairs[:1]] * len(pairs))


def other_the_second_time():
    calls = itertools.count()
    return entailing(lambda pairs: np.roll(RIGHT.predict(pairs), next(calls), axis=1))()


def by_position(pairs):
    rows = RIGHT.predict(pairs)
    return np.where(np.arange(len(rows))[:, None] == 2, 1 / 3, rows)


def emptied(pairs):
    rows = RIGHT.predict(pairs)
    if isinstance(pairs, list):
        pairs.clear()
    return rows


def without_nothing(pairs):
    if any(not text for pair in pairs for text in pair):
        raise IndexError("no words")
    return RIGHT.predict(pairs)


ROWS = "each_row_is_a_distribution_over_the_labels"


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (object, "it_is_an_entailment_model"),
        (entailing(lambda pairs: RIGHT.predict(pairs)[:, :2]), ROWS),
        (entailing(lambda pairs: RIGHT.predict(pairs) * 2), ROWS),
        (entailing(lambda pairs: RIGHT.predict(pairs) * np.nan), ROWS),
        (entailing(lambda pairs: np.eye(3, dtype=int)[[2] * len(pairs)]), ROWS),
        (entailing(each_row_by_what_came_first), "a_pair_has_the_same_row_whatever_is_asked_beside_it"),
        (entailing(by_position), "a_pair_asked_twice_has_two_equal_rows"),
        (entailing(lambda pairs: RIGHT.predict(pairs)[:, ::-1]), "obvious_pairs_are_judged_right"),
        (entailing(without_nothing), "odd_texts_have_rows_too"),
        (entailing(emptied), "the_pairs_are_not_changed_and_may_be_any_sequence"),
        (other_the_second_time, "threads_may_share_it"),
    ],
)
def test_faults_of_an_entailment_model_are_found(create, expected):
    assert failed(EntailmentModelContract, create_model=lambda: RIGHT) == set()
    assert expected in failed(EntailmentModelContract, create_model=create)


def clustering(change):
    """A factory of clusterers: `NormalizedMatch`, its labels changed by a function of them, responses and questions."""

    def cluster(responses, questions):
        return change(NormalizedMatch().cluster(responses, questions), responses, questions)

    def create():
        clusterer = NormalizedMatch()
        clusterer.cluster = cluster
        return clusterer

    return create


def split_repetitions(labels, responses, questions):
    return [list(range(len(texts))) for texts in responses]


def reversed_together(labels, responses, questions):
    return [list(range(len(row))) for row in labels] if len(labels) == 3 and all(labels) else labels


def cleared(labels, responses, questions):
    if isinstance(responses, list):
        responses.clear()
    return labels


def without_empty(labels, responses, questions):
    if not all(texts for texts in responses):
        raise IndexError("no responses")
    return labels


def without_control(labels, responses, questions):
    if any("\x00" in text for texts in responses for text in texts):
        raise ValueError("null byte")
    return labels


def forgetting():
    calls = itertools.count()
    return clustering(lambda labels, *_: labels if next(calls) == 0 else [[0] * len(row) for row in labels])()


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (object, "it_is_a_clusterer"),
        (clustering(lambda labels, *_: [[label + 1 for label in row] for row in labels]), "labels_are_numbered"),
        (clustering(lambda labels, *_: [np.array(row) for row in labels]), "labels_are_numbered"),
        (clustering(lambda labels, *_: [row[:-1] for row in labels]), "labels_are_numbered"),
        (clustering(lambda labels, *_: tuple(labels)), "labels_are_numbered"),
        (clustering(without_empty), "nothing_gives_nothing"),
        (clustering(lambda labels, *_: [[0] * len(row) for row in labels]), "equal_answers_share"),
        (clustering(split_repetitions), "equal_answers_share"),
        (clustering(split_repetitions), "repetitions_share"),
        (clustering(reversed_together), "many_questions"),
        (forgetting, "the_same_call"),
        (clustering(without_control), "odd_texts"),
        (clustering(cleared), "the_responses_are_not_changed"),
        (forgetting, "threads"),
    ],
)
def test_faults_of_a_clusterer_are_found(create, expected):
    assert failed(ClustererContract, create_clusterer=NormalizedMatch) == set()
    assert any(name.startswith(expected) for name in failed(ClustererContract, create_clusterer=create))


class Faulty(ScriptedAgent):
    """An agent whose reply or request a function changes; without `also_async`, the async form says nothing."""

    def __init__(self, change, *, also_async=True):
        super().__init__("faulty", ["Paris", "Lyon"])
        self.change, self.also_async = change, also_async

    def sample(self, request, config=None):
        reply = super().sample(request, config)
        self.change(reply, request)
        return reply

    async def asample(self, request, config=None):
        return self.sample(request, config) if self.also_async else {"responses": [], "usage": {}}


def first(**fields):
    """A change of the first response's fields."""
    return lambda reply, request: reply["responses"][0].update(fields)


def narrow(reply, request):
    if unknown := set(request) - {"question", "messages", "round"}:
        raise TypeError(f"what is {unknown}?")


WHOLE = "responses_are_complete_and_numbered"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (first(index=1), WHOLE),
        (first(agent="other"), WHOLE),
        (first(round=0), WHOLE),
        (first(text=None), WHOLE),
        (first(error="ConnectionError: refused"), WHOLE),
        (first(logprob=-1.0), WHOLE),
        (first(logprob=0.5, n_tokens=1), WHOLE),
        (first(logprob=float("nan"), n_tokens=1), WHOLE),
        (first(extra=1), WHOLE),
        (lambda reply, request: reply["responses"].clear(), WHOLE),
        (lambda reply, request: reply["usage"].update(input_tokens=-1), WHOLE),
        (lambda reply, request: reply["usage"].update(cost=1), WHOLE),
        (first(logprob=np.float32(-1.0), n_tokens=1), "a_reply_is_plain_data"),
        (lambda reply, request: reply.update(responses=tuple(reply["responses"])), "a_reply_is_plain_data"),
        (lambda reply, request: request["messages"].clear(), "the_request_is_not_changed"),
        (narrow, "overrides_are_accepted"),
    ],
)
def test_faults_of_an_agent_are_found(change, expected):
    assert expected in failed(AgentContract, create_agent=lambda: Faulty(change))


def test_an_agent_without_fault_passes_and_its_other_faults_are_found():
    nothing = lambda reply, request: None  # noqa: E731
    assert failed(AgentContract, create_agent=lambda: Faulty(nothing)) == set()
    only_sync = failed(AgentContract, create_agent=lambda: Faulty(nothing, also_async=False))
    assert only_sync == {"the_async_form_does_the_same", "a_config_is_accepted"}
    assert "it_is_an_agent" in failed(AgentContract, create_agent=lambda: ScriptedAgent(" ", ["x"]))
    assert "it_is_an_agent" in failed(AgentContract, create_agent=lambda: ScriptedAgent("a", ["x"], weight=-1))
    assert "it_is_an_agent" in failed(AgentContract, create_agent=object)


def test_an_error_that_passes_for_an_answer_is_found():
    refused = ConnectionError("refused")
    assert failed(FailingAgentContract, create_failing_agent=lambda: ScriptedAgent("a", refused)) == set()
    found = failed(FailingAgentContract, create_failing_agent=lambda: ScriptedAgent("a", [f"Error: {refused}"]))
    assert found == {"a_failure_raises", "a_failure_raises_in_the_async_form"}


@pytest.mark.parametrize("contract", [AgentContract, ClustererContract, EntailmentModelContract, FailingAgentContract])
def test_a_suite_says_what_to_override(contract):
    create = next(name for name in vars(contract) if name.startswith("create_"))
    with pytest.raises(NotImplementedError, match=f'override "{create}"'):
        getattr(contract(), create)()
