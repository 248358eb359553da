import json

import pytest

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets import open_questions
from coe_agents.evaluation.decisions import DECIDER
from coe_agents.runs import load_items
from coe_agents.runs.runner import Units
from coe_agents.tinyworld import load_facts

CHAIN = {
    "id": "france",
    "chain": [
        {"question": "What is the capital of France?", "references": ["Paris"]},
        {"question": "In which continent is {answer}?", "references": ["Europe"]},
    ],
}


def written(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_a_dataset_has_an_item_of_one_step_for_each_question():
    found = load_items("tinyworld", "calibration")
    assert len(found.items) == len([fact for fact in load_facts() if fact.split == "calibration"])
    assert all(len(item.steps) == 1 and not item.is_chain and item.id == item.steps[0].id for item in found.items)
    assert found.is_tinyworld


def test_a_limit_chooses_by_id_and_seed_and_a_smaller_one_is_the_beginning_of_a_larger_one():
    one, two = (load_items("tinyworld", seed=seed).items for seed in (1, 2))
    assert one[:4] == list(one.first(4)) != two[:4]
    assert len(one.first(None)) == len(one) == len(two)


def test_a_chain_fills_the_answer_into_the_next_question(tmp_path):
    found = load_items(written(tmp_path / "c.jsonl", CHAIN))
    (item,) = found.items
    assert (item.id, item.is_chain, found.n_records) == ("france", True, 1)
    assert item.next_question(0, "What is the capital of France?", " Lyon ") == "In which continent is Lyon?"
    assert item.next_question(1, "In which continent is Lyon?", "Europe") is None


def test_an_answer_with_braces_is_data(tmp_path):
    (item,) = load_items(written(tmp_path / "c.jsonl", CHAIN)).items
    assert item.next_question(0, "?", "{answer}{x.__class__}") == "In which continent is {answer}{x.__class__}?"


def test_tinyworlds_chains_hold_the_true_walk():
    found = load_items("tinyworld-chains")
    facts = {fact.question: fact for fact in load_facts()}
    assert found.items
    for item in found.items:
        assert item.is_chain
        assert 1 <= len(item.steps) <= 4
        for number, (step, following) in enumerate(zip(item.steps, item.steps[1:], strict=False)):
            assert item.next_question(number, step.question, facts[step.question].answer) == following.question


def test_two_chains_of_one_id_are_an_error(tmp_path):
    with pytest.raises(DatasetError, match="several chains have the id 'france'"):
        load_items(written(tmp_path / "c.jsonl", CHAIN, CHAIN))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"id": "1", "chain": []}, '"chain" must be a list of at least one question'),
        ({"chain": CHAIN["chain"]}, '"id" must be a string that is not empty'),
        ({"id": "1", "chain": ["Who?"]}, "each question of the chain must be an object"),
        ({"id": "1", "chain": [{"question": "Who?"}]}, '"references" is missing'),
        ({"id": "1", "chain": [CHAIN["chain"][0]] * 2}, "question 2 of the chain must hold {answer}"),
        ({"id": "1", "chain": CHAIN["chain"][1:]}, "question 1 of the chain must not hold {answer}, since no answer"),
        ("text", '"chain" must be a list'),
    ],
)
def test_a_malformed_chain_is_an_error_with_its_line(tmp_path, record, said):
    path = written(tmp_path / "c.jsonl", CHAIN, record)
    with pytest.raises(DatasetError) as caught:
        load_items(path)
    assert f"{path}:2: " in str(caught.value)
    assert said in str(caught.value)


def test_there_is_no_such_split():
    with pytest.raises(ConfigurationError, match="no split"):
        load_items("tinyworld-chains", "test")


def test_an_unknown_dataset_is_answered_with_all_names():
    with pytest.raises(ConfigurationError, match=r"neither a dataset nor a file.* tinyworld, tinyworld-chains$"):
        load_items("nope")


@pytest.mark.parametrize("dataset", ["tinyworld-chains", "questions", "chains"])
def test_the_units_of_a_run_are_its_items(tmp_path, dataset):
    if dataset == "questions":
        records = [{"id": f"q{number}", "question": f"Number {number}?", "references": ["A"]} for number in range(40)]
        dataset = written(tmp_path / "d.jsonl", *records, *records[:5])
    elif dataset == "chains":
        dataset = written(tmp_path / "c.jsonl", *({**CHAIN, "id": f"c{number}"} for number in range(9)))
    whole = load_items(dataset, seed=3).items
    for limit in (4, None):
        items = whole.first(limit)
        units = Units(items, seed=3)
        assert dict(units) == {(item.id, DECIDER): 1 for item in items}
        assert ("q99", DECIDER) not in units
        assert (items[0].id, "another") not in units
        assert ((whole[-1].id, DECIDER) in units) is (limit is None)


def test_questions_are_asked_in_the_order_of_a_sample(tmp_path):
    records = [{"id": f"q{number}", "question": f"Number {number}?", "references": ["A"]} for number in range(40)]
    path = written(tmp_path / "d.jsonl", *records, *records[:5])
    found = load_items(path, seed=3)
    assert [item.steps[0] for item in found.items] == list(open_questions(path, seed=3).questions)
    assert (found.source, found.n_records, len(found.items)) == (path, 45, 40)
