"""What every `Agent`, `Clusterer` and `EntailmentModel` must do: derive from a class here, and override its factory."""

import asyncio
import copy
import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.clustering.protocols import ENTAILMENT_LABELS
from coe_agents.types import Agent, AgentRequest, Response

ODD_TEXTS = (
    "",
    " \t\n",
    "?!",
    "word " * 2000,
    "naïve 東京 🙂 é",
    'a "quoted" <answer>text</answer>',
    "null\x00byte",
)


def create_request(round=0):
    question = "What is the capital of France?"
    return AgentRequest(
        question=question, messages=[{"role": "user", "content": question}], round=round
    )


def in_threads(call, n_threads=4):
    """Returns what the call gives in several threads at once."""
    with ThreadPoolExecutor(n_threads) as pool:
        return [future.result() for future in [pool.submit(call) for _ in range(n_threads)]]


def check_reply(agent, reply, *, round):
    """Asserts that the reply is complete, and of that agent and round."""
    assert reply["responses"], "an agent must give at least one response, or raise"
    assert [response["index"] for response in reply["responses"]] == list(
        range(len(reply["responses"]))
    )
    for response in reply["responses"]:
        assert set(response) == Response.__required_keys__  # none of them is a failure
        assert response["agent"] == agent.name
        assert response["round"] == round
        assert response["error"] is None
        assert isinstance(response["text"], str)
        logprob = response["logprob"]
        n_tokens = response["n_tokens"]
        assert (logprob is None) == (n_tokens is None)
        assert logprob is None or (math.isfinite(logprob) and logprob <= 1e-6 and n_tokens >= 1)
    assert set(reply["usage"]) == {"input_tokens", "output_tokens"}
    assert all(
        count is None or (isinstance(count, int) and count >= 0)
        for count in reply["usage"].values()
    )


class AgentContract:
    """Tests of an `Agent`: that of `create_agent` answers, and that of `create_failing_agent` cannot.

    The latter raises, so that an error never passes for an answer.
    """

    def test_responses_are_complete_and_numbered(self):
        for asked in (0, 1):
            agent = self.create_agent()
            assert isinstance(agent, Agent)
            assert agent.name.strip()
            assert 0 <= agent.weight < math.inf
            check_reply(agent, agent.sample(create_request(asked)), round=asked)

    def test_the_async_form_does_the_same(self):
        async def two_at_once(agent):
            return await asyncio.gather(
                agent.asample(create_request()), agent.asample(create_request())
            )

        agent = self.create_agent()
        for reply in asyncio.run(two_at_once(agent)):
            check_reply(agent, reply, round=0)

    def test_a_reply_is_plain_data_and_the_request_is_not_changed(self):
        request = create_request()
        reply = self.create_agent().sample(given := copy.deepcopy(request))
        assert json.loads(json.dumps(reply, allow_nan=False)) == reply
        assert given == request

    def test_overrides_and_a_config_are_accepted(self):
        overriding = {**create_request(1), "n_samples": 2, "temperature": 0.5, "timeout": 60.0}
        config = {
            "callbacks": [],
            "tags": ["contract"],
            "metadata": {"suite": "coe"},
            "configurable": {"x": 1},
        }
        agent = self.create_agent()
        check_reply(agent, agent.sample(overriding, config), round=1)
        check_reply(
            agent, asyncio.run(self.create_agent().asample(create_request(), config)), round=0
        )

    def test_a_failure_raises(self):
        with pytest.raises(Exception):  # noqa: B017, PT011  # of any kind
            self.create_failing_agent().sample(create_request())
        with pytest.raises(Exception):  # noqa: B017, PT011  # of any kind
            asyncio.run(self.create_failing_agent().asample(create_request()))


class ClustererContract:
    """Tests of a `Clusterer`; `create_clusterer` is called once for each test."""

    question = "What is the capital of France?"
    same = ("Paris", "paris.")
    """Responses that must share a cluster, in any order."""
    different = ("Lyon", "Marseille")
    """Responses that must not share one, neither with each other nor with `same`."""

    def test_nothing_gives_nothing_and_odd_texts_have_labels_too(self):
        assert isinstance(self.create_clusterer(), Clusterer)
        self._labels([], [])
        self._labels([[], list(self.same), []], [self.question] * 3)
        self._labels([list(ODD_TEXTS)], [self.question])

    def test_equal_answers_share_a_cluster_and_others_do_not(self):
        texts = [*self.different, *self.same]
        for order in (texts, texts[::-1]):
            (labels,) = self._labels([order], [self.question])
            found = dict(zip(order, labels, strict=True))
            ours, others = ({found[text] for text in part} for part in (self.same, self.different))
            assert (len(ours), len(others), others & ours) == (1, len(self.different), set()), found

    def test_repetitions_share_a_cluster_and_change_no_other(self):
        texts = self._texts()
        (once,), (twice,) = (
            self._labels([given], [self.question]) for given in (texts, texts + texts)
        )
        assert twice == once + once

    def test_many_questions_give_what_each_gives_alone(self):
        batch = [self._texts(), self._texts()[::-1], list(self.same)]
        questions = [self.question, "", self.question]
        alone = [
            self._labels([texts], [question])[0]
            for texts, question in zip(batch, questions, strict=True)
        ]
        assert self._labels(batch, questions) == alone

    def test_the_responses_are_not_changed_and_may_be_any_sequence(self):
        texts = self._texts()
        given = [list(texts)]
        questions = [self.question]
        labels = self._labels(given, questions)
        assert given == [texts]
        assert questions == [self.question]
        assert self._labels((tuple(texts),), (self.question,)) == labels

    def test_further_calls_give_the_same_and_threads_may_share_it(self):
        clusterer = self.create_clusterer()
        texts = self._texts()
        expected = clusterer.cluster([texts], [self.question])
        assert clusterer.cluster([texts], [self.question]) == expected
        assert all(
            labels == expected
            for labels in in_threads(lambda: clusterer.cluster([texts], [self.question]))
        )

    def _texts(self):
        return [*self.same, *self.different]

    def _labels(self, responses, questions):
        """Labels are lists of Python integers, which fit any checkpointer, numbered by first appearance."""
        returned = self.create_clusterer().cluster(responses, questions)
        assert isinstance(returned, list)
        assert [len(row) for row in returned] == [len(texts) for texts in responses]
        for row in returned:
            assert {type(label) for label in row} <= {int}
            assert list(dict.fromkeys(row)) == list(range(len(set(row))))
        return returned


class EntailmentModelContract:
    """Tests of an `EntailmentModel`; `create_model` is called once for each test."""

    entailed = (
        ("What is the capital of France? It is Paris.", "What is the capital of France? Paris"),
    )
    not_entailed = (
        ("What is the capital of France? Paris", "What is the capital of France? It is Lyon."),
    )
    """Pairs of which it must say something else; they find columns in the wrong order."""

    def test_each_row_is_a_distribution_over_the_labels(self):
        assert isinstance(self.create_model(), EntailmentModel)
        for count in (1, 2, 7):
            self._rows((self._pairs() * count)[:count])
        self._rows(
            [(text, "Paris") for text in ODD_TEXTS] + [("Paris", text) for text in ODD_TEXTS]
        )

    def test_a_pair_has_the_same_row_whatever_is_asked_beside_it(self):
        pairs = self._pairs()
        alone = np.concatenate([self._rows([pair]) for pair in pairs])
        assert_close(self._rows(pairs), alone)
        assert_close(self._rows(pairs[::-1])[::-1], alone)
        assert_close(self._rows([*pairs, *pairs]), np.concatenate([alone, alone]))

    def test_obvious_pairs_are_judged_right(self):
        for pairs, is_entailed in ((self.entailed, True), (self.not_entailed, False)):
            for pair, row in zip(pairs, self._rows(pairs), strict=True):
                assert (ENTAILMENT_LABELS[row.argmax()] == "entailment") == is_entailed, (pair, row)

    def test_the_pairs_are_not_changed_and_may_be_any_sequence(self):
        pairs = self._pairs()
        rows = self._rows(given := list(pairs))
        assert given == pairs
        assert_close(self._rows(tuple(pairs)), rows)

    def test_threads_may_share_it(self):
        model = self.create_model()
        pairs = self._pairs()
        expected = check_rows(model.predict(pairs), len(pairs))
        for rows in in_threads(lambda: model.predict(pairs)):
            assert_close(check_rows(rows, len(pairs)), expected)

    def _pairs(self):
        return [*self.entailed, *self.not_entailed]

    def _rows(self, pairs):
        return check_rows(self.create_model().predict(pairs), len(pairs))


def check_rows(returned, n_pairs):
    rows = np.asarray(returned)
    assert rows.dtype.kind == "f"
    assert rows.shape == (n_pairs, len(ENTAILMENT_LABELS))
    assert np.isfinite(rows).all()
    assert (rows >= 0).all()
    assert (np.abs(rows.sum(axis=1) - 1) <= 1e-3).all()
    return rows.astype(np.float64)


def assert_close(rows, others):
    np.testing.assert_allclose(rows, others, rtol=0, atol=1e-3)
