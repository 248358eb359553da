import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import Clusterer, EmbeddingSimilarity


class AngleEmbeddings:
    """Puts each text on the unit circle, at the degrees that its last word says, and keeps what it was asked."""

    def __init__(self, length=1.0):
        self.length = length
        self.calls = []

    def embed_documents(self, texts):
        self.calls.append(list(texts))
        angles = [math.radians(float(text.split()[-1])) for text in texts]
        return [[self.length * math.cos(angle), self.length * math.sin(angle)] for angle in angles]


def at_most(degrees):
    return math.cos(math.radians(degrees))


def labels_of(texts, *, embeddings=None, **options):
    return EmbeddingSimilarity(embeddings or AngleEmbeddings(), **options).cluster([texts], [""])[0]


@given(st.lists(st.integers(0, 359), max_size=12), st.integers(1, 85))
def test_the_partition_is_that_of_comparing_one_pair_at_a_time(angles, degrees):
    representatives = []
    expected = []
    for angle in angles:
        near = [
            label
            for label, other in enumerate(representatives)
            if min(abs(angle - other), 360 - abs(angle - other)) < degrees + 0.5
        ]
        expected.append(near[0] if near else len(representatives))
        if not near:
            representatives.append(angle)
    assert labels_of([str(angle) for angle in angles], threshold=at_most(degrees + 0.5)) == expected


def test_all_questions_share_one_call_and_each_text_is_sent_once():
    embeddings = AngleEmbeddings()
    batch = [["0", " 0 ", "90"], ["90", "0", "95"], [], ["45", "45"]]
    labels = EmbeddingSimilarity(embeddings, threshold=at_most(10)).cluster(
        batch, ["a", "b", "c", "d"]
    )
    assert labels == [[0, 0, 1], [0, 1, 0], [], [0, 0]]
    assert embeddings.calls == [["0", "90", "95"]]  # the last question has nothing to compare


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "vector 1 of the 2 from Wrong holds only zeros"),
        ([[math.nan, 0.0], [1.0, 0.0]], "vector 0 of the 2 from Wrong holds NaN or infinity"),
        ([[1.0, 0.0]], r"of Wrong must return numbers of shape \(2, any\); got shape \(1, 2\)"),
        ([[1.0], [1.0, 0.0]], "of Wrong must return rows of numbers, all of one length; got list"),
    ],
)
def test_what_is_no_vector_is_refused(returned, message):
    class Wrong:
        def embed_documents(self, texts):
            return returned

    with pytest.raises(ValueError, match=message):
        labels_of(["a", "b"], embeddings=Wrong(), threshold=0.5)


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, math.nan])
def test_arguments_are_checked(threshold):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        EmbeddingSimilarity(AngleEmbeddings(), threshold=threshold)
    with pytest.raises(TypeError, match='"embed_documents'):
        EmbeddingSimilarity("all-MiniLM-L6-v2", threshold=0.5)
    with pytest.raises(ValueError, match="equally long; got 1 and 0"):
        EmbeddingSimilarity(AngleEmbeddings(), threshold=0.5).cluster([["1"]], [])
    assert isinstance(EmbeddingSimilarity(AngleEmbeddings(), threshold=0.5), Clusterer)
