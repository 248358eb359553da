"""The documents that tinyworld's language models are trained on, without tools and then with them."""

import hashlib
import random
import subprocess
import sys

import pytest

from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.corpus import Corpus
from tools.tinyworld.prompts import set_phrases
from tools.tinyworld.tool_corpus import tool_phrases

# of the documents of both parts of the shipped models' training, and of the phrases
TRAINED_ON = {
    "tiny-llama": (
        "064083cf67746294668d4a5324984177fd30ba67feedf557233aa221d5982bbd",
        "78c726a004927897cf23ebfc50edba228bab514c3a42ee99016ba19c67e504c0",
    ),
    "tiny-qwen2": (
        "e3458276a8fb554bd0fec75c6f8e0cbd94f3f514d855a262fb1a222898a4c24a",
        "cc353164c1b8026ce128b14f5f206a4536ed885466cd635e802cc626f5af71bb",
    ),
    "tiny-mistral": (
        "ead124438fa51020ee5627a786f23332211ef4ee1bb43e41aec67b0735a2ef84",
        "93e3f809b199c690004964f6fdcf8ea3a96db9c51810f9f962a9503a3a51419c",
    ),
    "phrases": (
        "0cfc06f159f4c2b67cb22b088522af235f4fa9ece108fa11becddb23bd756beb",
        "ded251134acf76cdf7a7fde63cf3c0c82fa9dc7dca240bf1093071060e19a753",
    ),
}


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


@pytest.mark.parametrize("model", MODELS)
def test_the_training_documents_are_those_of_the_shipped_models(model):
    corpus, first, second = Corpus(model), random.Random(model), random.Random(model)
    without = [corpus.document(first) for _ in range(500)]
    about = [corpus.document_with_tools(second) for _ in range(500)]
    assert (
        digest([(document.turns, document.reply) for document in without]),
        digest([(document.turns, document.reply, document.tools) for document in about]),
    ) == TRAINED_ON[model]
    assert not any(document.tools for document in without)


def test_the_phrases_of_the_tokenizers_are_those_of_the_shipped_models():
    assert (digest(set_phrases()), digest(tool_phrases())) == TRAINED_ON["phrases"]


def test_training_reads_no_prompt_of_the_package():
    # so that a change of `coe_agents.prompts` retrains nothing
    modules = "tools.tinyworld.corpus, tools.tinyworld.entailment_corpus"
    code = f"import sys, {modules}; sys.exit('coe_agents.prompts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
