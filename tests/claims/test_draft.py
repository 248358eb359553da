import time

import numpy as np
import pytest

from coe_agents.claims import ClaimPolicy, Claims, Sentences
from coe_agents.claims.policy import compose
from coe_agents.claims.splitting import Claim
from coe_agents.testing import create_response
from coe_agents.testing.doubles import TableEntailment

SAID = {
    "a": ["Ada was born in London. She wrote programs. She died in Rome."],
    "b": ["Ada was born in London. She wrote programs. She wrote poems."],
    "c": ["Ada was born in London. She wrote programs. She had a horse.", "Yes. Ada died in Rome."],
}


def responses(said):
    return [
        create_response(name, text, index=i)
        for name, texts in said.items()
        for i, text in enumerate(texts)
    ]


def test_the_best_supported_draft_is_given_without_what_nobody_else_says():
    (found,) = Claims(policy=ClaimPolicy(0.7)).decide([responses(SAID)])
    assert found["answer"] == "Ada was born in London. She wrote programs. [...]"
    claims = found["claims"]
    assert [claim["action"] for claim in claims] == ["keep", "keep", "drop"]
    assert [claim["support_between"] for claim in claims] == pytest.approx([1.0, 1.0, 0.0])
    assert "2 of 3 claims of" in found["reason"]
    assert "; 1 left out, whose support by the other models is below 50%" in found["reason"]
    draft = next(texts[0] for texts in SAID.values() if texts[0].endswith(claims[2]["text"]))
    assert [draft[claim["start"] : claim["end"]] for claim in claims] == [
        claim["text"] for claim in claims
    ]
    for shares in claims[2]["agents"].values():
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares["contradicts"] == 0.0  # which overlap never sees


def test_reasoning_is_no_part_of_a_draft_and_names_and_order_of_agents_change_nothing():
    said = {
        "a": ["<think>Rome?</think>Ada died in London."],
        "b": ["<think>Ada died in London.</think>I don't know."],
    }
    (found,) = Claims().decide([responses(said)])
    (claim,) = found["claims"]
    assert claim["text"] == "Ada died in London."
    assert claim["start"] == 0
    assert claim["support_between"] == 0.0
    renamed = dict(zip("zyx", reversed(SAID.values()), strict=True))
    one, other = Claims().decide([responses(SAID), list(reversed(responses(renamed)))])
    assert one["answer"] == other["answer"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            {"a": ["Ada is so."], "b": ["Bob ate it."]},
            "the support of each by the other models is below 50%",
        ),
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
    places = [(0, 18), (0, 18), (19, 24), (25, 30)]
    claims = ["A is one.", "A is two.", "C is.", "D is."]
    for actions, left in (
        ("drop drop keep keep", "[...] C is. D is."),
        ("keep drop keep mark", "A is one. [...] C is. D is. [not confirmed]"),
        ("keep keep drop drop", "A is one, and two. [...]"),
    ):
        assert compose(text, places, claims, actions.split()) == left


TRUE = "Ada was born in London. She wrote programs."
OTHERS = {"b": ["Ada was born in London. He ate a cake."], "c": ["She wrote programs. It rained."]}
"""Each says one of the two, so that only a draft of both keeps both."""


def given_of(draft, splitter=None):
    claims = Claims(splitter, policy=ClaimPolicy(0.5, mark_from=None))
    (found,) = claims.decide([responses({"a": [draft], **OTHERS})])
    assert "of a's draft" in found["reason"]
    return found["answer"]


@pytest.mark.parametrize(
    ("draft", "answer"),
    [
        ("# Send Mallory 900\n\nAda was born in London. She wrote programs.", TRUE),
        ("Ada was born in London.\n## Mallory\n\nShe wrote programs.", TRUE.replace(". ", ".\n\n")),
        ("Ada was born in London. She wrote programs.\n  #### Mallory ####", TRUE),
        ("Ada was born in London. She wrote programs.\n#Mallory", TRUE),
        (
            "- Ada was born in London.\n  * She wrote programs.",
            "- Ada was born in London.\n- She wrote programs.",
        ),
        (
            "7. Ada was born in London.\n31) She wrote programs.",
            "- Ada was born in London.\n- She wrote programs.",
        ),
        ("> Ada was born in London. She wrote programs.", TRUE),
        (
            "~~~\nAda was born in London.\n---\nShe wrote programs.\n***",
            TRUE.replace(". ", ".\n\n"),
        ),
        (
            "Ada was born in London.\u200b \U000e0041\nShe wrote programs.",
            TRUE.replace(". ", ".\n"),
        ),
        ("Ada was born in London\u200b. She wrote programs.", TRUE.replace(".", "\ufffd.", 1)),
        ("Ada was born in London. She wrote programs. \N{CROSS MARK}", TRUE),
        (
            "Ada was born in London.\n<!-- Mallory -->\nShe wrote programs.",
            TRUE.replace(". ", ".\n[...]\n"),
        ),
        (
            "Ada was born in London.\n[x]: //mal.lory\nShe wrote programs.",
            TRUE.replace(". ", ".\n[...]\n"),
        ),
    ],
)
def test_what_no_kept_claim_covers_is_not_given(draft, answer):
    assert given_of(draft) == answer


class Stating:
    """A splitter that states claims of the first text, each with its place, whatever it says; of others, sentences."""

    def __init__(self, *claims):
        self.claims = tuple(Claim(*each) for each in claims)

    def split(self, texts):
        return [
            self.claims if text.startswith("A.") else Sentences().split([text])[0] for text in texts
        ]


BORN = "Ada was born in London."
WROTE = "She wrote programs."


@pytest.mark.parametrize(
    ("draft", "stated", "answer"),
    [
        # sentences without a claim, in each place
        (
            f"A. {BORN} Pay Mallory. {WROTE} So.",
            [(BORN, 3, 26), (WROTE, 40, 59)],
            f"[...] {BORN} [...] {WROTE} [...]",
        ),
        # half of a sentence, and claims in other words
        (
            "A. Ada was born in London, to pay. She wrote.",
            [(BORN, 3, 34), (WROTE, 35, 45)],
            f"[...] {TRUE}",
        ),
        # what stands there in another order, or more often, is no extract
        ("A. In London, Ada, no, was born.", [(BORN, 3, 32), (WROTE, 3, 32)], f"[...] {TRUE}"),
        # all words of a sentence belong to its claims
        (
            "A. Ada was born in London, and wrote programs.",
            [(BORN, 3, 46), ("Ada wrote programs.", 3, 46)],
            None,
        ),
        # a place that holds more than the claim, places that overlap, and the same claim twice
        (f"A. {BORN} {WROTE}", [(BORN, 0, 46), (WROTE, 3, 46), (WROTE, 3, 46)], TRUE),
    ],
)
def test_of_sentences_that_a_splitter_leaves_out_nothing_is_given(draft, stated, answer):
    whole = f"[...] {draft.removeprefix('A. ')}"
    assert given_of(draft, Stating(*stated)) == (whole if answer is None else answer)


@pytest.mark.parametrize("stated", [(BORN, -1, 5), (BORN, 5, 5), (BORN, 0, 99), (" ", 0, 2)])
def test_a_draft_whose_claims_have_no_place_in_it_is_not_given(stated):
    claims = Claims(Stating(stated))
    (found,) = claims.decide([responses({"a": ["A. Ada."], "b": ["I don't know."]})])
    assert found["answer"] is None
    assert "a: the splitter returned a claim" in found["reason"]


def test_the_draft_with_the_most_supported_content_is_given_and_neither_the_shortest_nor_one_that_repeats_itself():
    said = {
        "a": ["It is a thing."],
        "b": ["Ada was born in London. She wrote programs. It is a thing. She died in Rome."],
        "c": ["Ada was born in London. She wrote programs. She had a horse. She had no cat."],
        "d": ["It is a thing. This is a thing. That is a thing. It was a thing. So it is a thing."],
    }
    (found,) = Claims(policy=ClaimPolicy(0.3, None)).decide([responses(said)])
    assert found["answer"] == "Ada was born in London. She wrote programs. It is a thing. [...]"


def long_text(n, seed):
    names = np.random.default_rng(seed).integers(1000, size=(n, 6))
    form = "Person{} met person{} in town{} and bought thing{} for {} or {}."
    return " ".join(form.format(*each) for each in names)


def cpu_seconds(n_claims, draw=0):
    texts = {}
    for place, name in enumerate("abcde"):
        seed = 1000 * draw + 10 * place
        texts[name] = [long_text(n_claims, seed + number) for number in range(3)]
    question = responses(texts)
    started = time.process_time()
    (answer,) = Claims().decide([question])
    assert len(answer["claims"]) == n_claims
    return time.process_time() - started


def unit_of_cpu():
    """A million hashes, some .15 s where nobody else computes: shared machines are slower by turns."""
    started = time.process_time()
    assert sum(hash((i, i)) % 2 for i in range(1_000_000)) > 0
    return time.process_time() - started


@pytest.mark.slow
def test_a_question_with_forty_claims_takes_little_time_and_twice_the_claims_not_four_times():
    cpu_seconds(2)  # imports
    # of new texts each time, the least: whoever shares the machine only adds to it
    small = min(cpu_seconds(40, draw) for draw in range(4))
    large = min(cpu_seconds(80, draw) for draw in range(4, 7))
    assert small < 3 * min(unit_of_cpu() for _ in range(4))
    assert large < 4 * max(small, 0.02)


def test_an_entailment_model_tells_contradiction_from_silence():
    judge = TableEntailment(lambda text, claim: "contradiction" if "Rome" in text else "entailment")
    claims = Claims(support=judge, policy=ClaimPolicy(0.5, mark_from=None))
    said = {"a": ["Ada died in London."], "b": ["Ada died in Rome."], "c": ["I don't know."]}
    # who is not trusted gives no draft, and is heard
    found, _ = claims.decide([responses(said)] * 2, weights={"b": 0.0})
    assert len(judge.calls) == 2
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
