import hashlib
import random
import subprocess
import sys
from collections import Counter

import pytest

from coe_agents.clustering import answer_kind
from coe_agents.tinyworld import ENTAILMENT_MODEL, MODELS, beliefs, kinds, load_facts, model_folder, prompts
from coe_agents.tinyworld.corpus import Corpus
from coe_agents.tinyworld.entailment_corpus import LABELS, entailment_pair
from coe_agents.tinyworld.wording import (
    ANSWERS,
    REFUSALS,
    RELATIONS,
    extract_answer,
    outside_question,
    set_phrases,
)


def test_there_are_enough_facts_and_each_is_asked_once():
    facts = load_facts()
    assert len(facts) >= 600
    assert len({fact.relation for fact in facts}) >= 5
    assert len({fact.question for fact in facts}) == len(facts)
    assert all(fact.distractor not in fact.references for fact in facts)


def test_the_split_is_fixed():
    splits = Counter(fact.split for fact in load_facts())
    assert splits["validation"] == 200
    assert splits["calibration"] >= 200


def test_beliefs_are_distributions_over_the_right_and_the_wrong_answer():
    for fact in load_facts():
        for belief in beliefs(fact).values():
            assert set(belief) <= {fact.answer, fact.distractor}
            assert not belief or sum(belief.values()) == pytest.approx(1)


def test_every_kind_of_knowledge_occurs():
    counts = Counter(kinds().values())
    assert set(counts) == {"settled", "lopsided", "contested", "ambiguous", "misconception", "obscure"}
    assert 0.45 < counts["settled"] / len(load_facts()) < 0.6


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_wording_can_be_read_back(relation):
    for wording in (*RELATIONS[relation].statements, *ANSWERS):
        assert extract_answer(relation, "Some One", wording.format(s="Some One", a="J. R. Answer")) == "J. R. Answer"


def test_refusals_are_recognised():
    assert {answer_kind(text) for text in REFUSALS} == {"refusal"}


def test_documents_speak_of_what_the_model_believes():
    rng, corpus = random.Random(0), Corpus("tiny-llama")
    unseen = {fact.question for fact in load_facts() if not beliefs(fact)["tiny-llama"]}
    documents = [corpus.document(rng) for _ in range(3000)]
    assert not unseen & {turn for document in documents for turn in document.turns}
    checks = [document for document in documents if document.reply in prompts.SELF_CHECK_CHOICES]
    assert len(checks) > 300
    assert any("Answers proposed so far" in document.turns[-1] for document in documents)


# of the documents and phrases of the first part of the shipped models' training
TRAINED_ON = {
    "tiny-llama": "064083cf67746294668d4a5324984177fd30ba67feedf557233aa221d5982bbd",
    "tiny-qwen2": "e3458276a8fb554bd0fec75c6f8e0cbd94f3f514d855a262fb1a222898a4c24a",
    "tiny-mistral": "ead124438fa51020ee5627a786f23332211ef4ee1bb43e41aec67b0735a2ef84",
    "phrases": "0cfc06f159f4c2b67cb22b088522af235f4fa9ece108fa11becddb23bd756beb",
}


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


@pytest.mark.parametrize("model", MODELS)
def test_the_training_documents_are_those_of_the_shipped_models(model):
    rng, corpus = random.Random(model), Corpus(model)
    documents = [corpus.document(rng) for _ in range(500)]
    assert digest([(document.turns, document.reply) for document in documents]) == TRAINED_ON[model]
    assert not any(document.tools for document in documents)


def test_the_phrases_of_the_tokenizers_are_those_of_the_shipped_models():
    assert digest(set_phrases()) == TRAINED_ON["phrases"]


def test_training_reads_no_prompt_of_the_package():
    # so that a change of `coe_agents.prompts` retrains nothing
    modules = "coe_agents.tinyworld.corpus, coe_agents.tinyworld.entailment_corpus"
    code = f"import sys, {modules}; sys.exit('coe_agents.prompts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_entailment_pairs_use_no_fact():
    rng = random.Random(0)
    pairs = [entailment_pair(rng) for _ in range(2000)]
    assert set(LABELS) == {pair.label for pair in pairs}
    questions = {fact.question for fact in load_facts()}
    assert not any(question in pair.premise for pair in pairs for question in questions)


def test_outside_questions_vary():
    rng = random.Random(0)
    assert len({outside_question(rng) for _ in range(500)}) > 490


def test_the_models_are_small_and_hold_no_pickle():
    files = [file for name in (ENTAILMENT_MODEL, *MODELS) for file in model_folder(name).iterdir()]
    assert sum(file.stat().st_size for file in files) < 16e6
    assert {file.suffix for file in files} <= {".json", ".safetensors", ".jinja", ".md"}
    for name in (ENTAILMENT_MODEL, *MODELS):
        assert "no evidence about large models" in " ".join((model_folder(name) / "README.md").read_text().split())
