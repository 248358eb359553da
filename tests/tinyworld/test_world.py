import pytest

from coe_agents.evaluation.scoring.correctness import Prediction
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder, writer_of
from coe_agents.tinyworld.facts import ANSWERS, MODELS, RELATIONS, extract_answer, load_facts
from coe_agents.tinyworld.questions import find_questions, tinyworld_criterion, tinyworld_questions
from tools.tinyworld.knowledge import draw_beliefs

ASKED = "What is the capital of France?"


def test_there_are_enough_facts_with_the_beliefs_that_were_drawn_and_each_is_asked_once():
    facts = load_facts()
    assert len(facts) == len({fact.question for fact in facts}) >= 600
    assert len({fact.relation for fact in facts}) >= 5
    for fact in facts:
        assert fact.distractor not in fact.references
        assert dict(zip(MODELS, fact.believed, strict=True)) == draw_beliefs(fact)


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_wording_can_be_read_back(relation):
    for wording in (*RELATIONS[relation].statements, *ANSWERS):
        assert (
            extract_answer(relation, "Some One", wording.format(s="Some One", a="J. R. Answer"))
            == "J. R. Answer"
        )


def test_the_models_are_small_and_hold_no_pickle():
    names = (ENTAILMENT_MODEL, *MODELS, *map(writer_of, MODELS))
    files = [file for name in names for file in model_folder(name).iterdir()]
    assert sum(file.stat().st_size for file in files) < 16e6
    assert {file.suffix for file in files} <= {".json", ".safetensors", ".jinja", ".md"}
    for name in names:
        assert "no evidence about large models" in " ".join(
            (model_folder(name) / "README.md").read_text().split()
        )


@pytest.mark.parametrize("split", ["calibration", "validation"])
def test_each_half_holds_its_facts(split):
    found = tinyworld_questions(split)
    facts = [fact for fact in load_facts() if fact.split == split]
    assert [(question.id, question.question, question.references) for question in found] == [
        (fact.id, fact.question, fact.references) for fact in facts
    ]
    opened = find_questions("tinyworld", split, seed=0)
    assert (opened.source, opened.questions.n_records) == (f"tinyworld, {split}", len(facts))
    assert sorted(question.id for question in opened.questions) == sorted(
        question.id for question in found
    )


def test_an_answer_is_right_in_all_wordings_and_only_where_the_fact_is_true():
    said = [
        "Paris",
        "The capital of France is Paris.",
        "I think it is paris.",
        "It is Lyon.",
        "Not Paris but Lyon.",
    ]
    assert tinyworld_criterion().judge([Prediction(ASKED, text) for text in said]) == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert tinyworld_criterion().judge([Prediction("Who won?", "Paris", ("Paris",))]) == [None]
