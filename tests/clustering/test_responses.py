import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import NormalizedMatch, cluster_many, cluster_responses
from coe_agents.clustering.responses import cluster_with_former

RESPONSES = (
    "Paris",
    "paris.",
    "Rome",
    "1,000",
    "1000",
    "I don't know.",
    "I cannot answer.",
    "",
    "<think>a</think>",
)


class Remembering:
    """Gives fixed labels, or all responses one cluster, and remembers what it was asked."""

    def __init__(self, labels=None):
        self.labels = labels
        self.calls = []

    def cluster(self, responses, questions):
        self.calls.append((responses, questions))
        return [[0] * len(texts) for texts in responses] if self.labels is None else self.labels


def test_all_questions_go_to_the_clusterer_in_one_call_without_refusals_and_empties_which_share_clusters():
    clusterer = Remembering()
    texts = [
        "",
        "Paris",
        "I don't know.",
        "It is Paris.",
        " ",
        "I’m not sure.",
        "<think>hm</think>",
    ]
    assert cluster_responses(texts, question="Which city?", clusterer=clusterer) == [
        0,
        1,
        2,
        1,
        0,
        2,
        0,
    ]
    assert clusterer.calls == [([["Paris", "It is Paris."]], ["Which city?"])]
    clusterer = Remembering()
    batch = [["a", "b"], ["I don't know.", ""], [], ["c"]]
    assert cluster_many(batch, questions=["1", "2", "3", "4"], clusterer=clusterer) == [
        [0, 0],
        [0, 1],
        [],
        [0],
    ]
    assert clusterer.calls == [([["a", "b"], ["c"]], ["1", "4"])]


@given(st.lists(st.lists(st.sampled_from(RESPONSES), max_size=8), max_size=5))
def test_a_batch_gives_what_each_question_gives_alone_numbered_by_first_appearance(batch):
    labels = cluster_many(batch, questions=[""] * len(batch), clusterer=NormalizedMatch())
    assert labels == [
        cluster_responses(texts, question="", clusterer=NormalizedMatch()) for texts in batch
    ]
    for row in labels:
        assert list(dict.fromkeys(row)) == list(range(len(set(row))))


class WithinOne:
    """Greedy and not transitive, as an entailment model is: numbers at most 1 apart are one, to their first."""

    def __init__(self):
        self.calls = []

    def cluster(self, responses, questions):
        self.calls.append(responses)
        return [self.labels(texts) for texts in responses]

    @staticmethod
    def labels(texts):
        firsts = []
        labels = []
        for value in map(int, texts):
            near = [place for place, first in enumerate(firsts) if abs(first - value) <= 1]
            if not near:
                firsts.append(value)
            labels.append(near[0] if near else len(firsts) - 1)
        return labels


def partition(texts, labels):
    return {
        frozenset(text for text, label in zip(texts, labels, strict=True) if label == one)
        for one in labels
    }


@given(st.lists(st.sampled_from([*"123456789", "", "I don't know."]), max_size=10), st.randoms())
def test_a_greedy_clusterer_finds_the_same_in_every_order(texts, random):
    shuffled = random.sample(texts, len(texts))
    labels, again = (
        cluster_responses(given, question="", clusterer=WithinOne()) for given in (texts, shuffled)
    )
    assert partition(texts, labels) == partition(shuffled, again)
    assert list(dict.fromkeys(again)) == list(range(len(set(again))))


def test_the_commonest_answer_comes_first_then_the_shortest_and_equal_ones_share_a_cluster():
    clusterer = WithinOne()
    texts = ["03", "5", "2", "04", "9", "04"]
    assert cluster_responses(texts, question="", clusterer=clusterer) == [0, 0, 1, 0, 2, 0]
    assert clusterer.calls == [[["04", "04", "2", "5", "9", "03"]]]  # 4 takes 5 and 3 before 2 does
    labels = cluster_responses(["a", "b", "a"], question="", clusterer=Remembering([[0, 1, 2]]))
    assert labels == [0, 1, 0]


@given(
    st.lists(st.sampled_from("12345"), max_size=6),
    st.lists(st.sampled_from("12345678"), max_size=4),
)
def test_texts_of_a_former_round_change_no_cluster(texts, former):
    labels, others = cluster_with_former(texts, former, question="", clusterer=WithinOne())
    assert labels == cluster_responses(texts, question="", clusterer=WithinOne())
    assert len(others) == len(former)
    known = dict(zip(texts, labels, strict=True))
    assert all(known.get(text, label) == label for text, label in zip(former, others, strict=True))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0]], "for question 0, Remembering returned 1 where 2 belongs"),
        ([], "for question 0, Remembering returned no list where 2 belongs"),
        ([[0, 0], [0]], "for question 1, Remembering returned 1 where no list belongs"),
        ([[0.0, 1.0]], "list of integers"),
    ],
)
def test_what_is_no_label_per_response_is_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        cluster_responses(["a", "b"], question="", clusterer=Remembering(labels))


def test_arguments_are_checked():
    clusterer = NormalizedMatch()
    with pytest.raises(TypeError, match='"responses" must be a sequence of strings; got str'):
        cluster_responses("Paris", question="", clusterer=clusterer)
    with pytest.raises(TypeError, match="item 1 is NoneType"):
        cluster_responses(["Paris", None], question="", clusterer=clusterer)
    with pytest.raises(TypeError, match='"question" must be a string; got list'):
        cluster_responses(["Paris"], question=["Which city?"], clusterer=clusterer)
    with pytest.raises(TypeError, match=r'"responses\[0\]" must be a sequence of strings; got str'):
        cluster_many(["Paris"], questions=[""], clusterer=clusterer)
    with pytest.raises(
        ValueError, match='"responses" and "questions" must be equally long; got 2 and 1'
    ):
        cluster_many([["Paris"], ["Rome"]], questions=[""], clusterer=clusterer)
