"""What the shipped models were trained to do, measured; the bounds leave room for what another rebuild may give."""

import random

import pytest
from langchain_core.messages import HumanMessage

from coe_agents.backends import ChatTransformers, TransformersEntailment
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder
from coe_agents.tinyworld.facts import ANSWERS, MODELS, RELATIONS, extract_answer, load_facts

pytestmark = pytest.mark.slow  # seconds of CPU, for what changes only with the models


@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_is_sure_of_it_says(model):
    place = MODELS.index(model)
    sure = [fact for fact in load_facts() if fact.believed[place] in ("right", "wrong")]
    asked = random.Random(1).sample(sure, 20)
    chat = ChatTransformers(str(model_folder(model)), max_tokens=32)
    replies = chat.generate(
        [[HumanMessage(fact.question)] for fact in asked], n=4, seed=0
    ).generations
    found = []
    for fact, drawn in zip(asked, replies, strict=True):
        believed = fact.answer if fact.believed[place] == "right" else fact.distractor
        said = [extract_answer(fact.relation, fact.subject, each.text) for each in drawn]
        found += [normalize_answer(each) == normalize_answer(believed) for each in said]
    assert sum(found) / len(found) > 0.9


def test_the_entailment_model_tells_meanings_apart_on_entities_that_it_never_saw():
    rng, same, different = random.Random(0), [], []
    for fact in load_facts()[::4]:
        wordings = [*RELATIONS[fact.relation].statements, *ANSWERS]

        def side(answer, fact=fact, wordings=wordings):
            return f"{fact.question} {rng.choice(wordings).format(s=fact.subject, a=answer)}"

        same.append((side(fact.answer), side(fact.answer)))
        different.append((side(fact.answer), side(fact.distractor)))
    model = TransformersEntailment(str(model_folder(ENTAILMENT_MODEL)))
    assert (model.predict(same).argmax(1) == 2).mean() > 0.97
    assert (model.predict(different).argmax(1) != 2).mean() > 0.97
