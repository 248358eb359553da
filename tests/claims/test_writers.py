from random import Random

from coe_agents import GroupDecision
from coe_agents.tinyworld import PARAGRAPH, tinyworld_writers
from coe_agents.tinyworld.facts import MODELS, load_facts
from tools.tinyworld.paragraphs import Paragraphs


def test_a_paragraph_is_given_without_its_false_sentence():
    decision = GroupDecision.from_state(
        tinyworld_writers().compile().invoke({"question": PARAGRAPH[0]})
    )
    true = {fact.answer for fact in load_facts() if fact.subject == "Mongolia"}
    for claim in decision.claims:
        is_true = any(answer in claim["text"].rstrip(".") for answer in true)
        assert is_true == (claim["action"] == "keep")
    actions = [claim["action"] for claim in decision.claims]
    assert sorted(actions) == ["drop", "keep", "keep"]
    assert "[...]" in decision.answer


def test_a_writer_is_taught_three_to_five_facts_that_it_believes():
    for model in MODELS:
        rng = Random(0)
        paragraphs = Paragraphs(model)
        for _ in range(50):
            asked, reply = paragraphs.document(rng)[:2]
            assert asked[0].startswith(("Tell me about", "What do you know", "Write a paragraph"))
            assert 3 <= reply.count(".") <= 5
