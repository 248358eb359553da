"""What the shipped models were trained to do, measured; the bounds leave room for what another rebuild may give."""

import random

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from coe_agents.backends import ChatTransformers, TransformersEntailment
from coe_agents.clustering import cluster_responses
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder, tinyworld_clusterer
from coe_agents.tinyworld.facts import MODELS, beliefs, load_facts
from coe_agents.tinyworld.relations import ANSWERS, RELATIONS, extract_answer
from tools.tinyworld.prompts import debate

N = 40


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def ask(name):
    chat = ChatTransformers(str(model_folder(name)), max_tokens=32)

    def texts(text, *, n=6, seed=0):
        return [generation.text for generation in chat.generate([[HumanMessage(text)]], n=n, seed=seed).generations[0]]

    return texts


def some(name, *, n_answers):
    facts = [fact for fact in load_facts() if len(beliefs(fact)[name]) == n_answers]
    return random.Random(1).sample(facts, N)


def said(fact, text):
    return normalize_answer(extract_answer(fact.relation, fact.subject, text))


def believed(fact, name):
    return {normalize_answer(answer) for answer in beliefs(fact)[name]}


@pytest.mark.slow
def test_what_it_is_sure_of_it_says(name, ask):
    shares = [np.mean([said(f, t) in believed(f, name) for t in ask(f.question)]) for f in some(name, n_answers=1)]
    assert np.mean(shares) > 0.9


@pytest.mark.slow
def test_in_a_debate_the_sure_stay_and_the_ignorant_follow(name, ask):
    def swayed(fact):
        rng = random.Random(fact.id)
        shown = rng.choice(
            [
                f.answer
                for f in load_facts()
                if f.relation == fact.relation and normalize_answer(f.answer) not in believed(fact, name)
            ]
        )
        replies = ask(debate(fact.question, [(f"It is {shown}.", 1.0)]))
        return np.mean([said(fact, reply) == normalize_answer(shown) for reply in replies])

    sure, ignorant = (np.mean([swayed(f) for f in some(name, n_answers=n)]) for n in (1, 0))
    assert sure < 0.25  # it is shown one answer, with full support
    assert ignorant > sure + 0.08


def test_the_entailment_model_tells_meanings_apart_on_entities_that_it_never_saw():
    rng, same, different = random.Random(0), [], []
    for fact in load_facts():
        wordings = [*RELATIONS[fact.relation].statements, *ANSWERS]

        def side(answer, fact=fact, wordings=wordings):
            return f"{fact.question} {rng.choice(wordings).format(s=fact.subject, a=answer)}"

        same.append((side(fact.answer), side(fact.answer)))
        different.append((side(fact.answer), side(fact.distractor)))
    model = TransformersEntailment(str(model_folder(ENTAILMENT_MODEL)))
    assert (model.predict(same).argmax(1) == 2).mean() > 0.97
    assert (model.predict(different).argmax(1) != 2).mean() > 0.97


def test_wordings_are_clustered_by_meaning():
    said = ["Paris", "It is Paris.", "Lyon, I believe.", "The capital of France is Paris.", "That would be Lyon."]
    labels = cluster_responses(said, question="What is the capital of France?", clusterer=tinyworld_clusterer())
    assert labels == [0, 0, 1, 0, 1]
