"""Owns what every `Agent`, `Clusterer` and `EntailmentModel` must do, as suites of tests.

Their assertions are a function, which unlike `assert` holds under `python -O` and outside test files.
"""

import asyncio
import copy
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.clustering.protocols import ENTAILMENT_LABELS
from coe_agents.types import Agent, AgentReply, AgentRequest, Response

_FIELDS = set(Response.__annotations__)
_ENTAILMENT = ENTAILMENT_LABELS.index("entailment")
_Pair = tuple[str, str]
_Result = TypeVar("_Result")

_ODD_TEXTS = (
    "",
    " \t\n",
    "?!",
    "word " * 2000,
    "naïve 東京 🙂 é",
    'a "quoted" <answer>text</answer>',
    "null\x00byte",
)
"""Texts that models return: empty ones, long ones, other scripts, markup, control characters."""


def _expect(holds: object, message: str) -> None:
    """Raises `AssertionError` with the message unless `holds`."""
    if not holds:
        raise AssertionError(message)


def _call_in_threads(call: Callable[[], _Result], *, n_threads: int = 4) -> list[_Result]:
    """Returns what the call gives in several threads at once."""
    with ThreadPoolExecutor(n_threads) as pool:
        return [future.result() for future in [pool.submit(call) for _ in range(n_threads)]]


def _create_request(round: int = 0) -> AgentRequest:
    question = "What is the capital of France?"
    return AgentRequest(question=question, messages=[{"role": "user", "content": question}], round=round)


class AgentContract:
    """Tests of an `Agent` that can answer. Derive from it, and override `create_agent`.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> class TestMine(AgentContract):
        ...     def create_agent(self):
        ...         return ScriptedAgent("mine", ["Paris", "It is Paris."])
        >>> TestMine().test_responses_are_complete_and_numbered()
    """

    def create_agent(self) -> Agent:
        """Returns the agent to test; called once for each test."""
        raise NotImplementedError('override "create_agent" and return your agent')

    def test_it_is_an_agent(self) -> None:
        agent = self.create_agent()
        kind = type(agent).__name__
        _expect(isinstance(agent, Agent), f'{kind} must have "name", "weight", "sample(...)", "asample(...)"')
        name: Any = agent.name
        weight = agent.weight
        _expect(isinstance(name, str) and name.strip(), f'"name" must be a text, not empty; got {name!r}')
        _expect(0 <= weight < math.inf, f'"weight" must be a number of at least 0; got {weight!r}')

    def test_responses_are_complete_and_numbered(self) -> None:
        for asked in (0, 1):
            agent = self.create_agent()
            _check_reply(agent, agent.sample(_create_request(asked)), round=asked)

    def test_the_async_form_does_the_same(self) -> None:
        async def two_at_once(agent: Agent) -> list[AgentReply]:
            return list(await asyncio.gather(agent.asample(_create_request()), agent.asample(_create_request())))

        agent = self.create_agent()
        for reply in asyncio.run(two_at_once(agent)):
            _check_reply(agent, reply, round=0)

    def test_a_reply_is_plain_data(self) -> None:
        reply = self.create_agent().sample(_create_request())
        try:
            returned = json.loads(json.dumps(reply, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"a reply must be plain data, which fits any checkpointer: {error}") from error
        _expect(returned == reply, f"a reply must hold dicts, lists, texts and numbers only; got {reply}")

    def test_the_request_is_not_changed(self) -> None:
        request = _create_request()
        given = copy.deepcopy(request)
        self.create_agent().sample(given)
        _expect(given == request, f'"sample" must not change the request; got {given} afterwards')

    def test_overrides_are_accepted(self) -> None:
        agent = self.create_agent()
        overriding: AgentRequest = {**_create_request(1), "n_samples": 2, "temperature": 0.5, "timeout": 60.0}
        _check_reply(agent, agent.sample(overriding), round=1)

    def test_a_config_is_accepted(self) -> None:
        agent = self.create_agent()
        config = {"callbacks": [], "tags": ["contract"], "metadata": {"suite": "coe"}, "configurable": {"x": 1}}
        _check_reply(agent, agent.sample(_create_request(), config), round=0)
        _check_reply(agent, asyncio.run(self.create_agent().asample(_create_request(), config)), round=0)


class FailingAgentContract:
    """Tests of an `Agent` that cannot answer: it raises, so that an error never passes for an answer.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> class TestMine(FailingAgentContract):
        ...     def create_failing_agent(self):
        ...         return ScriptedAgent("mine", ConnectionError("refused"))
        >>> TestMine().test_a_failure_raises()
    """

    def create_failing_agent(self) -> Agent:
        """Returns an agent whose model cannot be reached, say; called once for each test."""
        raise NotImplementedError('override "create_failing_agent" and return an agent that cannot answer')

    def test_a_failure_raises(self) -> None:
        self._expect_failure("sample", self.create_failing_agent().sample)

    def test_a_failure_raises_in_the_async_form(self) -> None:
        agent = self.create_failing_agent()
        self._expect_failure("asample", lambda request: asyncio.run(agent.asample(request)))

    @staticmethod
    def _expect_failure(name: str, sample: Callable[[AgentRequest], AgentReply]) -> None:
        try:
            reply = sample(_create_request())
        except Exception:
            return
        raise AssertionError(f'"{name}" must raise where the agent cannot answer; it returned {reply}')


def _check_reply(agent: Agent, reply: AgentReply, *, round: int) -> None:
    """Raises `AssertionError` unless the reply is complete and of that agent and round."""
    responses = reply["responses"]
    _expect(responses, "an agent must give at least one response, or raise")
    indices = [response["index"] for response in responses]
    _expect(indices == list(range(len(indices))), f'"index" must count from 0; got {indices}')
    for response in responses:
        _expect(set(response) == _FIELDS, f"a response must have the fields {sorted(_FIELDS)}; got {sorted(response)}")
        _expect(response["agent"] == agent.name, f'"agent" must be {agent.name!r}; got {response["agent"]!r}')
        _expect(response["round"] == round, f'"round" must be that of the request, {round}; got {response["round"]}')
        _expect(isinstance(response["text"], str), f'"text" must be a text; got {response["text"]!r}')
        _expect(response["error"] is None, f'an agent raises its errors; "error" is {response["error"]!r}')
        logprob, n_tokens = response["logprob"], response["n_tokens"]
        _expect((logprob is None) == (n_tokens is None), f'"logprob" is {logprob} where "n_tokens" is {n_tokens}')
        if logprob is not None and n_tokens is not None:
            fits = math.isfinite(logprob) and logprob <= 1e-6 and n_tokens >= 1
            _expect(fits, f'"logprob" must be at most 0, of at least one token; got {logprob} of {n_tokens}')
    spent = reply["usage"]
    _expect(set(spent) == {"input_tokens", "output_tokens"}, f'"usage" must count input and output tokens; got {spent}')
    are_counts = all(count is None or (isinstance(count, int) and count >= 0) for count in spent.values())
    _expect(are_counts, f"tokens must be counts; got {spent}")


class ClustererContract:
    """Tests of a `Clusterer`. Derive from it, and override `create_clusterer`.

    Attributes:
        question: The question to which the responses belong.
        same: Responses that must share a cluster, in any order.
        different: Responses that must not share one, neither with each other nor with `same`.

    Example:
        >>> from coe_agents.clustering import NormalizedMatch
        >>> class TestMine(ClustererContract):
        ...     def create_clusterer(self):
        ...         return NormalizedMatch()
        >>> TestMine().test_equal_answers_share_a_cluster_and_others_do_not()
    """

    question: str = "What is the capital of France?"
    same: Sequence[str] = ("Paris", "paris.")
    different: Sequence[str] = ("Lyon", "Marseille")

    def create_clusterer(self) -> Clusterer:
        """Returns the clusterer to test; called once for each test."""
        raise NotImplementedError('override "create_clusterer" and return your clusterer')

    def test_it_is_a_clusterer(self) -> None:
        clusterer = self.create_clusterer()
        name = type(clusterer).__name__
        _expect(isinstance(clusterer, Clusterer), f'{name} must have a method "cluster(responses, questions)"')

    def test_labels_are_numbered_by_first_appearance(self) -> None:
        texts = self._texts()
        self._labels([texts, texts[::-1]], [self.question] * 2)

    def test_nothing_gives_nothing(self) -> None:
        self._labels([], [])
        self._labels([[]], [self.question])
        self._labels([[], list(self.same), []], [self.question] * 3)

    def test_equal_answers_share_a_cluster_and_others_do_not(self) -> None:
        texts, apart = [*self.different, *self.same], len(self.different)
        for order in (texts, texts[::-1]):
            (labels,) = self._labels([order], [self.question])
            found = dict(zip(order, labels, strict=True))
            ours = {found[text] for text in self.same}
            _expect(len(ours) == 1, f"{list(self.same)} must share a cluster; their labels are {ours}")
            others = {found[text] for text in self.different}
            _expect(len(others) == apart and not others & ours, f"{list(self.different)} must be apart; got {found}")

    def test_repetitions_share_a_cluster_and_change_no_other(self) -> None:
        texts = self._texts()
        (once,), (twice,) = (self._labels([given], [self.question]) for given in (texts, texts + texts))
        _expect(twice == once + once, f"responses given twice must have their labels twice; got {once}, then {twice}")

    def test_many_questions_give_what_each_gives_alone(self) -> None:
        batch = [self._texts(), self._texts()[::-1], list(self.same)]
        questions = [self.question, "", self.question]
        alone = [self._labels([texts], [question])[0] for texts, question in zip(batch, questions, strict=True)]
        together = self._labels(batch, questions)
        _expect(together == alone, f"questions together must have the labels {alone} of each alone; got {together}")

    def test_the_same_call_gives_the_same_labels(self) -> None:
        clusterer, texts = self.create_clusterer(), self._texts()
        first, second = (clusterer.cluster([texts], [self.question]) for _ in range(2))
        _expect(first == second, f"a second call must give the labels of the first, {first}; got {second}")

    def test_odd_texts_have_labels_too(self) -> None:
        self._labels([list(_ODD_TEXTS)], [self.question])

    def test_the_responses_are_not_changed_and_may_be_any_sequence(self) -> None:
        texts = self._texts()
        given, questions = [list(texts)], [self.question]
        labels = self._labels(given, questions)
        _expect(given == [texts] and questions == [self.question], '"cluster" must not change its arguments')
        of_tuples = self._labels((tuple(texts),), (self.question,))
        _expect(of_tuples == labels, f"tuples must have the labels of lists, {labels}; got {of_tuples}")

    def test_threads_may_share_it(self) -> None:
        clusterer, texts = self.create_clusterer(), self._texts()
        expected = clusterer.cluster([texts], [self.question])
        for labels in _call_in_threads(lambda: clusterer.cluster([texts], [self.question])):
            _expect(labels == expected, f"labels must be {expected} from several threads, too; got {labels}")

    def _texts(self) -> list[str]:
        return [*self.same, *self.different]

    def _labels(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
        returned = self.create_clusterer().cluster(responses, questions)
        _expect(isinstance(returned, list), f'"cluster" must return a list of lists; got {type(returned).__name__}')
        n_labels, n_texts = [len(row) for row in returned], [len(texts) for texts in responses]
        _expect(n_labels == n_texts, f"each response must have a label; {n_texts} responses got {n_labels} labels")
        for row in returned:
            kinds = {type(label).__name__ for label in row}
            _expect(kinds <= {"int"}, f"labels must be Python integers, which fit any checkpointer; got {kinds}")
            first = list(dict.fromkeys(row))
            _expect(first == list(range(len(first))), f"labels must be 0, 1, ... by first appearance; got {row}")
        return returned


class EntailmentModelContract:
    """Tests of an `EntailmentModel`. Derive from it, and override `create_model`.

    Attributes:
        entailed: Pairs of which the model must say entailment.
        not_entailed: Pairs of which it must say something else; they find columns in the wrong order.
        tolerance: How far two rows of the same pair may lie apart.

    Example:
        >>> from coe_agents.testing import TableEntailment
        >>> class TestMyTable(EntailmentModelContract):
        ...     def create_model(self):
        ...         return TableEntailment(dict.fromkeys(self.entailed, "entailment"), default="contradiction")
        >>> TestMyTable().test_obvious_pairs_are_judged_right()
    """

    entailed: Sequence[_Pair] = (
        ("What is the capital of France? It is Paris.", "What is the capital of France? Paris"),
    )
    not_entailed: Sequence[_Pair] = (
        ("What is the capital of France? Paris", "What is the capital of France? It is Lyon."),
    )
    tolerance: float = 1e-3

    def create_model(self) -> EntailmentModel:
        """Returns the model to test; called once for each test."""
        raise NotImplementedError('override "create_model" and return your entailment model')

    def test_it_is_an_entailment_model(self) -> None:
        model = self.create_model()
        _expect(isinstance(model, EntailmentModel), f'{type(model).__name__} must have a method "predict(pairs)"')

    def test_each_row_is_a_distribution_over_the_labels(self) -> None:
        for count in (1, 2, 7):
            self._rows((self._pairs() * count)[:count])

    def test_a_pair_has_the_same_row_whatever_is_asked_beside_it(self) -> None:
        pairs = self._pairs()
        alone = np.concatenate([self._rows([pair]) for pair in pairs])
        must = "a pair's row must not depend on the other pairs, nor on their order"
        self._expect_close(self._rows(pairs), alone, must)
        self._expect_close(self._rows(pairs[::-1])[::-1], alone, "row i must belong to pair i")

    def test_a_pair_asked_twice_has_two_equal_rows(self) -> None:
        pairs = self._pairs()
        rows = self._rows([*pairs, *pairs])
        self._expect_close(rows[: len(pairs)], rows[len(pairs) :], "equal pairs must have equal rows")

    def test_obvious_pairs_are_judged_right(self) -> None:
        order = f"in the order {', '.join(ENTAILMENT_LABELS)}"
        for pairs, is_entailed in ((self.entailed, True), (self.not_entailed, False)):
            for pair, row in zip(pairs, self._rows(pairs), strict=True):
                must = f"{pair} is {'an' if is_entailed else 'not an'} entailment; the row is {row}, {order}"
                _expect((row.argmax() == _ENTAILMENT) == is_entailed, must)

    def test_odd_texts_have_rows_too(self) -> None:
        self._rows([(text, "Paris") for text in _ODD_TEXTS] + [("Paris", text) for text in _ODD_TEXTS])

    def test_the_pairs_are_not_changed_and_may_be_any_sequence(self) -> None:
        pairs = self._pairs()
        given = list(pairs)
        rows = self._rows(given)
        _expect(given == pairs, '"predict" must not change the pairs that it is given')
        self._expect_close(self._rows(tuple(pairs)), rows, "a tuple of pairs must have the rows of a list")

    def test_threads_may_share_it(self) -> None:
        model, pairs = self.create_model(), self._pairs()
        expected = _check_rows(model.predict(pairs), len(pairs))
        for rows in _call_in_threads(lambda: model.predict(pairs)):
            self._expect_close(_check_rows(rows, len(pairs)), expected, "rows must be the same from several threads")

    def _pairs(self) -> list[_Pair]:
        return [*self.entailed, *self.not_entailed]

    def _rows(self, pairs: Sequence[_Pair]) -> NDArray[np.float64]:
        return _check_rows(self.create_model().predict(pairs), len(pairs))

    def _expect_close(self, rows: NDArray[np.float64], others: NDArray[np.float64], must: str) -> None:
        off = float(np.abs(rows - others).max())
        _expect(off <= self.tolerance, f"{must}; rows differ by {off:.2g}, and {self.tolerance:.2g} is allowed")


def _check_rows(returned: object, n_pairs: int) -> NDArray[np.float64]:
    rows = np.asarray(returned)
    _expect(rows.dtype.kind == "f", f'"predict" must return floats; it returned {rows.dtype}')
    wanted = (n_pairs, len(ENTAILMENT_LABELS))
    _expect(rows.shape == wanted, f'"predict" must return shape {wanted} for {n_pairs} pairs; got {rows.shape}')
    _expect(np.isfinite(rows).all(), f'"predict" must return finite numbers; got {rows}')
    sums = rows.sum(axis=1)
    _expect((rows >= 0).all() and (np.abs(sums - 1) <= 1e-3).all(), f"rows must be at least 0 and sum to 1; got {rows}")
    return rows.astype(np.float64)
