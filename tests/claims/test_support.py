import pytest

from coe_agents.claims import Overlap
from coe_agents.claims.support import Asked, EntailedBy, words
from coe_agents.testing import TableEntailment


def test_overlap_is_the_share_of_words_without_case_and_endings_that_the_best_sentence_has():
    claims = ["Ada was born in London in 1815.", "She is."]
    texts = ["Ada lived. ADA was born in london.", "In 1815. In London.", "", "I don't know. Ada was born in London."]
    found = Overlap().judge([Asked(claims, texts), Asked([], texts), Asked(claims, [])])
    # Ada, born, London, 1815; a claim of nothing but words of grammar keeps them
    assert found[0][..., 0].tolist() == [[0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert not found[0][..., 1].any()
    assert [each.shape for each in found[1:]] == [(0, 4, 2), (2, 0, 2)]
    assert words("The EDITOR edited 1,500 towns") == words("editor editing 1500 town")
    assert words("北京大学") == {"北", "京", "大", "学"}


def test_an_entailment_model_sees_the_best_passages_and_each_pair_once_for_all_questions():
    judge = TableEntailment(lambda text, claim: "entailment" if claim[:-1] in text else "contradiction")
    support = EntailedBy(judge, n_passages=1)
    text = "It rains. Ada wrote programs. She was a countess."
    found = support.judge([Asked(["Ada wrote programs."], [text, text, ""]), Asked(["Ada wrote programs."], [text])])
    assert judge.calls == [[("Ada wrote programs.", "Ada wrote programs.")]]
    assert found[0].tolist() == [[[0.8, 0.1], [0.8, 0.1], [0.0, 0.0]]]  # an empty text is silent
    assert support.judge([Asked(["Ada was a poet."], [text])])[0].tolist() == [[[0.1, 0.8]]]
    with pytest.raises(TypeError, match='"model" of EntailedBy'):
        EntailedBy(Overlap())
