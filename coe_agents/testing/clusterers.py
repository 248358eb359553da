"""Owns what every `Clusterer` must do, as a suite of tests."""

from collections.abc import Sequence

from coe_agents.clustering import Clusterer
from coe_agents.testing.expectations import ODD_TEXTS, expect, from_threads


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
        expect(isinstance(clusterer, Clusterer), f'{name} must have a method "cluster(responses, questions)"')

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
            expect(len(ours) == 1, f"{list(self.same)} must share a cluster; their labels are {ours}")
            others = {found[text] for text in self.different}
            expect(len(others) == apart and not others & ours, f"{list(self.different)} must be apart; got {found}")

    def test_repetitions_share_a_cluster_and_change_no_other(self) -> None:
        texts = self._texts()
        (once,), (twice,) = (self._labels([given], [self.question]) for given in (texts, texts + texts))
        expect(twice == once + once, f"responses given twice must have their labels twice; got {once}, then {twice}")

    def test_many_questions_give_what_each_gives_alone(self) -> None:
        batch = [self._texts(), self._texts()[::-1], list(self.same)]
        questions = [self.question, "", self.question]
        alone = [self._labels([texts], [question])[0] for texts, question in zip(batch, questions, strict=True)]
        together = self._labels(batch, questions)
        expect(
            together == alone, f"questions asked together must have the labels {alone} of each alone; got {together}"
        )

    def test_the_same_call_gives_the_same_labels(self) -> None:
        clusterer, texts = self.create_clusterer(), self._texts()
        first, second = (clusterer.cluster([texts], [self.question]) for _ in range(2))
        expect(first == second, f"a second call must give the labels of the first, {first}; got {second}")

    def test_odd_texts_have_labels_too(self) -> None:
        self._labels([list(ODD_TEXTS)], [self.question])

    def test_the_responses_are_not_changed_and_may_be_any_sequence(self) -> None:
        texts = self._texts()
        given, questions = [list(texts)], [self.question]
        labels = self._labels(given, questions)
        expect(given == [texts] and questions == [self.question], '"cluster" must not change its arguments')
        of_tuples = self._labels((tuple(texts),), (self.question,))
        expect(of_tuples == labels, f"tuples must have the labels of lists, {labels}; got {of_tuples}")

    def test_threads_may_share_it(self) -> None:
        clusterer, texts = self.create_clusterer(), self._texts()
        expected = clusterer.cluster([texts], [self.question])
        for labels in from_threads(lambda: clusterer.cluster([texts], [self.question])):
            expect(labels == expected, f"labels must be {expected} from several threads, too; got {labels}")

    def _texts(self) -> list[str]:
        return [*self.same, *self.different]

    def _labels(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
        returned = self.create_clusterer().cluster(responses, questions)
        expect(isinstance(returned, list), f'"cluster" must return a list of lists; got {type(returned).__name__}')
        n_labels, n_texts = [len(row) for row in returned], [len(texts) for texts in responses]
        expect(n_labels == n_texts, f"each response must have a label; {n_texts} responses got {n_labels} labels")
        for row in returned:
            kinds = {type(label).__name__ for label in row}
            expect(kinds <= {"int"}, f"labels must be Python integers, which fit any checkpointer; got {kinds}")
            first = list(dict.fromkeys(row))
            expect(first == list(range(len(first))), f"labels must be 0, 1, ... by first appearance; got {row}")
        return returned
