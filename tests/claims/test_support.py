import pytest

from coe_agents.agents import ChatEntailment
from coe_agents.claims import Overlap
from coe_agents.claims.support import Asked, EntailedBy
from coe_agents.claims.wording import words
from coe_agents.errors import ClusteringError
from coe_agents.testing.doubles import TableEntailment
from tests.doubles import JudgingModel


def test_overlap_is_the_share_of_words_without_case_and_endings_that_the_best_sentence_has():
    claims = ["Ada was born in London in 1815.", "She is."]
    texts = [
        "Ada lived. ADA was born in london.",
        "In 1815. In London.",
        "",
        "I don't know. Ada was born in London.",
    ]
    found = Overlap().judge([Asked(claims, texts), Asked([], texts), Asked(claims, [])])
    # Ada, born, London, 1815, and no sentence without the year; a claim of nothing but words of grammar keeps them
    assert found[0][..., 0].tolist() == [[0.0, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert Overlap().judge([Asked(["Ada was born in Rome."], texts)])[0][0, 0, 0] == pytest.approx(
        2 / 3
    )
    assert not found[0][..., 1].any()
    assert [each.shape for each in found[1:]] == [(0, 4, 2), (2, 0, 2)]
    assert words("The EDITOR edited 1,500 towns") == words("editor editing 1500 town")
    assert words("北京大学") == {"北", "京", "大", "学"}


def support(claim, passage):
    return Overlap().judge([Asked([claim], [passage])])[0][0, 0].tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada was born in London.", "Ada was not born in London."),
        ("Ada was born in London.", "Ada was Never born in London."),
        ("Ada was born in London.", "Ada was born in London, not."),
        ("Ada was born in London.", "It is untrue that Ada was born in London."),
        ("Ada did live in London.", "Ada didn’t live in London."),
        ("Ada did live in London.", "Ada didnt live in London."),
        ("Ada lives in London.", "Ada no longer lives in London."),
        ("Ada lives with Bo in London.", "Ada lives without Bo in London."),
        ("Ada did not live in Rome.", "Ada did not not live in Rome."),
        ("Ada never married and moved to Rome.", "Ada married and never moved to Rome."),
        ("Ada was born in London in 1815.", "Ada was born in London in 1816."),
        ("Ada was born on 1 March 1815.", "Ada was born on 1 April 1815."),
        ("Ada was born on 1 March 1815.", "Ada was born on 1 may 1815."),
        ("Ada lived from 1815 to 1852.", "Ada lived from 1852 to 1815."),
        ("Ada had three children in London.", "Ada had four children in London."),
        ("Ada had one child in London.", "Ada had two children in London."),
        ("Ada was the second child.", "Ada was the third child."),
        ("It was the time of World War I in Rome.", "It was the time of World War II in Rome."),
        ("It fell to 5 degrees in Rome.", "It fell to -5 degrees in Rome."),
        ("It fell to 5 degrees in Rome.", "It fell to \N{MINUS SIGN}5 degrees in Rome."),
        ("It fell to 5 degrees in Rome.", "It fell to minus 5 degrees in Rome."),
        ("It grew by 5 in Rome.", "It grew by 5% in Rome."),
        ("It grew by 5 in Rome.", "It grew by 5 percent in Rome."),
        ("It costs $5 in Rome.", "It costs €5 in Rome."),
        ("Then x = 5 there.", "Then x != 5 there."),
        ("Es gab 3 Kinder in Rom.", "Es gab 4 Kinder in Rom."),
        ("Ada defeated Bo.", "Bo defeated Ada."),
        ("Ada defeated Bo.", "bo defeated ada."),
        ("Ada defeated Bo.", "Ada was defeated by Bo."),
        ("Ada defeated Bo.", "ada was defeated by bo."),
        ("Ada met Bo, and Cy met Ada.", "Bo met Ada, and Cy met Ada."),
        ("Ada was born in Rome and died in Paris.", "Ada was born in Paris and died in Rome."),
        ("The dog bit the man.", "The man bit the dog."),
        ("Dogs bit men.", "Men bit dogs."),
        ("北京打败上海。", "上海打败北京。"),
    ],
)
def test_a_claim_is_silent_where_a_sentence_of_its_words_has_other_particulars(one, other):
    assert support(one, other) == support(other, one) == [0.0, 0.0]
    assert support(one, f"{other} {one}")[0] == support(other, f"{one} {other}")[0] == 1.0


@pytest.mark.parametrize(
    "sign",
    [
        "\N{CROSS MARK}",
        "\N{NEGATIVE SQUARED LATIN CAPITAL LETTER B}",
        "5",
        "[1234]",
        "<b>",
        "[1](//ada.x)",
        "ada@born.in",
    ],
)
def test_what_is_no_word_needs_support_too(sign):
    assert support(f"Ada Byron was born in London {sign}.", "Ada Byron was born in London.") == [
        0.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Ada was born in London in 1815.", "In 1815, in London, Ada was born [2]."),
        ("Ada was born in London [1].", "Ada was born in London [^7]."),
        ("Ada[1][2] was born in London [3], says Bo. [4]", "Ada was born in London, says Bo."),
        ("Ada had three children.", "Ada had 3 children and 12 books."),
        ("Ada was the 2nd child.", "Ada was the second child."),
        ("Ada cannot swim.", "Ada can't swim."),
        ("Ada lived 1815 – 1852.", "Ada lived from 1815 to 1852."),
        (
            "Ada was in a film.",
            "Ada was in films such as Without Remorse.",
        ),  # a title denies nothing
        ("Ada lives in the NT.", "Ada lives in the NT, where it is hot."),
        ("Bo was one of the poets.", "Bo was among the poets."),
        ("ADA DEFEATED BO.", "Ada defeated Bo."),
    ],
)
def test_the_same_particulars_in_other_forms_are_support(claim, passage):
    assert support(claim, passage) == [1.0, 0.0]


def test_a_number_in_brackets_that_stands_where_a_word_does_is_no_citation():
    claim = "Ada takes [500] mg of it."
    assert support(claim, "Ada takes [5] mg of it.")[0] < 1.0
    assert support(claim, "Ada takes [500] mg of it.")[0] == 1.0


def test_an_entailment_model_sees_the_best_passages_and_each_pair_once_for_all_questions():
    judge = TableEntailment(
        lambda text, claim: "entailment" if claim[:-1] in text else "contradiction"
    )
    support_of = EntailedBy(judge, n_passages=1)
    text = "It rains. Ada wrote programs. She was a countess."
    found = support_of.judge(
        [Asked(["Ada wrote programs."], [text, text, ""]), Asked(["Ada wrote programs."], [text])]
    )
    assert judge.calls == [[("Ada wrote programs.", "Ada wrote programs.")]]
    assert found[0].tolist() == [[[0.8, 0.1], [0.8, 0.1], [0.0, 0.0]]]  # an empty text is silent
    assert support_of.judge([Asked(["Ada was a poet."], [text])])[0].tolist() == [[[0.1, 0.8]]]
    with pytest.raises(TypeError, match='"model" of EntailedBy'):
        EntailedBy(Overlap())


def test_a_judge_without_a_verdict_on_any_claim_fails_where_one_of_some_leaves_the_text_silent():
    def verdict(premise, hypothesis):
        return "Hmm" if "paid" in hypothesis else "entailment"

    support_of = EntailedBy(ChatEntailment(JudgingModel(verdict)))
    text = "Ann paid. Bob left."
    with pytest.raises(ClusteringError, match="ChatEntailment gave no verdict on the only pair"):
        support_of.judge([Asked(["Ann paid."], [text])])
    [judged] = support_of.judge([Asked(["Ann paid.", "Bob left."], [text])])
    assert judged[:, 0].tolist() == [[0, 0], [1, 0]]
