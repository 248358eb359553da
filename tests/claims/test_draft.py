import time

import numpy as np
import pytest

from coe_agents.claims import ClaimPolicy, Claims, Sentences
from coe_agents.claims.policy import compose
from coe_agents.testing import TableEntailment, create_response

SAID = {
    "a": ["Ada was born in London. She wrote programs. She died in Rome."],
    "b": ["Ada was born in London. She wrote programs. She wrote poems."],
    "c": ["Ada was born in London. She wrote programs. She had a horse.", "Yes. Ada died in Rome."],
}


def responses(said):
    return [create_response(name, text, index=i) for name, texts in said.items() for i, text in enumerate(texts)]


def test_the_best_supported_draft_is_given_without_what_nobody_else_says():
    (found,) = Claims(policy=ClaimPolicy(0.7)).decide([responses(SAID)])
    assert found["answer"] == "Ada was born in London. She wrote programs. [...]"
    claims = found["claims"]
    assert [claim["action"] for claim in claims] == ["keep", "keep", "drop"]
    assert [claim["support_between"] for claim in claims] == pytest.approx([1.0, 1.0, 0.0])
    assert "2 of 3 claims of" in found["reason"]
    draft = next(texts[0] for texts in SAID.values() if texts[0].endswith(claims[2]["text"]))
    assert [draft[claim["start"] : claim["end"]] for claim in claims] == [claim["text"] for claim in claims]
    for shares in claims[2]["agents"].values():
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares["contradicts"] == 0.0  # which overlap never sees


def test_reasoning_is_no_part_of_a_draft_and_names_and_order_of_agents_change_nothing():
    said = {"a": ["<think>Rome?</think>Ada died in London."], "b": ["<think>Ada died in London.</think>I don't know."]}
    (found,) = Claims().decide([responses(said)])
    (claim,) = found["claims"]
    assert (claim["text"], claim["start"], claim["support_between"]) == ("Ada died in London.", 0, 0.0)
    renamed = dict(zip("zyx", reversed(SAID.values()), strict=True))
    one, other = Claims().decide([responses(SAID), list(reversed(responses(renamed)))])
    assert one["answer"] == other["answer"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"a": ["Ada is so."], "b": ["Bob ate it."]}, "0 of 1 claim of .'s draft are given: the other models support"),
        ({"a": ["Ada is so."]}, "no other model answered"),
        ({"a": ["I don't know."], "b": ["I'm not sure."]}, "no draft has claims"),
    ],
)
def test_where_nothing_is_left_there_is_no_answer(said, reason):
    (found,) = Claims().decide([responses(said)])
    assert found["answer"] is None
    assert reason.split(".")[0] in found["reason"]
    (found,) = Claims(max_pairs=1).decide([responses({"a": ["It is so. Yes."], "b": ["It is."]})])
    assert "3 claims and 2 responses are 6 pairs to judge, more than 1" in found["reason"]


def test_an_answer_shows_where_something_was_left_out():
    text = "A is one, and two. C is. D is."
    places, claims = [(0, 18), (0, 18), (19, 24), (25, 30)], ["A is one.", "A is two.", "C is.", "D is."]
    for actions, left in (
        ("drop drop keep keep", "[...] C is. D is."),
        ("keep drop keep mark", "A is one. [...] C is. D is. [not confirmed]"),
        ("keep keep drop drop", "A is one, and two. [...]"),
    ):
        assert compose(text, places, claims, actions.split()) == left


def long_text(n, seed):
    names = np.random.default_rng(seed).integers(1000, size=(n, 6))
    form = "Person{} met person{} in town{} and bought thing{} for {} or {}."
    return " ".join(form.format(*each) for each in names)


def cpu_seconds(n_claims):
    said = {name: [long_text(n_claims, 10 * place + i) for i in range(3)] for place, name in enumerate("abcde")}
    asked, started = responses(said), time.process_time()
    (found,) = Claims().decide([asked])
    assert len(found["claims"]) == n_claims
    return time.process_time() - started


@pytest.mark.slow
def test_a_question_with_forty_claims_takes_little_time_and_twice_the_claims_not_four_times():
    cpu_seconds(2)  # imports
    small, large = cpu_seconds(40), cpu_seconds(80)
    assert small < 0.3
    assert large < 4 * max(small, 0.02)


def test_an_entailment_model_tells_contradiction_from_silence():
    judge = TableEntailment(lambda text, claim: "contradiction" if "Rome" in text else "entailment")
    claims = Claims(support=judge, policy=ClaimPolicy(0.5, mark_from=None))
    said = {"a": ["Ada died in London."], "b": ["Ada died in Rome."], "c": ["I don't know."]}
    # who is not trusted gives no draft, and is heard
    found, _ = claims.decide([responses(said)] * 2, weights={"b": 0.0})
    assert len(judge.calls) == 1
    assert found["answer"] is None
    assert found["claims"][0]["agents"] == {
        "b": {"supports": pytest.approx(0.1), "contradicts": 0.8, "silent": pytest.approx(0.1)},
        "c": {"supports": 0.0, "contradicts": 0.0, "silent": 1.0},
    }


def test_parts_of_the_wrong_kind_are_refused():
    for wrong in ({"splitter": 3}, {"support": Sentences()}, {"policy": 0.5}):
        with pytest.raises(TypeError):
            Claims(**wrong)
    with pytest.raises(ValueError, match="at most"):
        ClaimPolicy(0.5, mark_from=0.6)
