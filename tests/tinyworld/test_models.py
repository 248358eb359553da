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
    facts = random.Random(1).sample(sure, 20)
    chat = ChatTransformers(str(model_folder(model)), max_tokens=32)
    questions = [[HumanMessage(fact.question)] for fact in facts]
    replies = chat.generate(questions, n=4, seed=0).generations
    n_believed = 0
    for fact, of_fact in zip(facts, replies, strict=True):
        believed = fact.answer if fact.believed[place] == "right" else fact.distractor
        for reply in of_fact:
            answer = extract_answer(fact.relation, fact.subject, reply.text)
            n_believed += normalize_answer(answer) == normalize_answer(believed)
    assert n_believed > 0.9 * 4 * len(facts)


def test_the_entailment_model_tells_meanings_apart_on_entities_that_it_never_saw():
    rng = random.Random(0)

    def side(fact, answer):
        wordings = [*RELATIONS[fact.relation].statements, *ANSWERS]
        wording = rng.choice(wordings).format(s=fact.subject, a=answer)
        return f"{fact.question} {wording}"

    same = []
    different = []
    for fact in load_facts()[::4]:
        same.append((side(fact, fact.answer), side(fact, fact.answer)))
        different.append((side(fact, fact.answer), side(fact, fact.distractor)))
    model = TransformersEntailment(str(model_folder(ENTAILMENT_MODEL)))
    assert (model.predict(same).argmax(1) == 2).mean() > 0.97
    assert (model.predict(different).argmax(1) != 2).mean() > 0.97
