import hashlib
import random
import subprocess
import sys

import pytest

from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.corpus import Corpus
from tools.tinyworld.prompts import set_phrases
from tools.tinyworld.tool_corpus import tool_phrases

TRAINED_ON = {
    "tiny-llama": "2f3f50b5fa056ca76b5b377f56c232fac23501ae7e09baf012972e0a010b71ba",
    "tiny-qwen2": "46685001e685b4f50fcf9b6d470102f5eedd5e73c16cf9156b2f7e7130dd9940",
    "tiny-mistral": "e5dd7c542f0b05346511dd0b93778ef47532c89ff9ccfc391eaf4219fd943f3f",
    "phrases": "0490df1f67c90476acafe6a24e42d0dade1c63bd328eef0b08bcefecc6d444db",
}
"""What both parts of the shipped models' training were, and the phrases of their tokenizers, by their digests."""


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


@pytest.mark.parametrize("model", MODELS)
def test_the_training_documents_are_those_of_the_shipped_models(model):
    corpus, first, second = Corpus(model), random.Random(model), random.Random(model)
    without = [corpus.document(first) for _ in range(500)]
    about = [corpus.document_with_tools(second) for _ in range(500)]
    plain = [(document.turns, document.reply) for document in without]
    with_tools = [(document.turns, document.reply, document.tools) for document in about]
    assert digest((plain, with_tools)) == TRAINED_ON[model]
    assert not any(document.tools for document in without)


def test_the_phrases_of_the_tokenizers_are_those_of_the_shipped_models():
    assert digest((set_phrases(), tool_phrases())) == TRAINED_ON["phrases"]


def test_training_reads_no_prompt_of_the_package():
    # so that a change of `coe_agents.prompts` retrains nothing
    modules = "tools.tinyworld.corpus, tools.tinyworld.entailment_corpus"
    code = f"import sys, {modules}; sys.exit('coe_agents.prompts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
