"""The documents that tinyworld's language models and its entailment model are trained on."""

import hashlib
import random
import subprocess
import sys

import pytest

from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.corpus import Corpus
from tools.tinyworld.prompts import set_phrases

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
    modules = "tools.tinyworld.corpus, tools.tinyworld.entailment_corpus"
    code = f"import sys, {modules}; sys.exit('coe_agents.prompts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
