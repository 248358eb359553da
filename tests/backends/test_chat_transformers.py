import math
import shutil
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from langchain_core.messages import HumanMessage
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM, AutoTokenizer

from coe_agents import load_model
from coe_agents.backends import ChatTransformers, chat_transformers
from coe_agents.backends.generation import DrawSettings, Row, SeededSampler
from coe_agents.errors import ModelLoadError
from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import MODELS
from tests.cli.command import run

FOLDER = str(model_folder("tiny-llama"))
ASKED = [HumanMessage("What is the capital of France?")]


@pytest.fixture(scope="module")
def chat():
    return ChatTransformers(FOLDER, max_tokens=24, dtype="float32")


def sampled(chat, messages=ASKED, **options):
    return chat.generate([messages], **options).generations[0]


def token_logprobs(generation):
    return [token["logprob"] for token in generation.generation_info["logprobs"]["content"]]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_with_n_samples_and_log_probabilities(name):
    chat = ChatTransformers(str(model_folder(name)), seed=0, max_tokens=24)
    generations = sampled(chat, n=6)
    assert len(generations) == 6
    assert sum("Paris" in generation.text for generation in generations) >= 4
    for generation in generations:
        assert max(token_logprobs(generation)) <= 0
    (generation,) = sampled(chat, n=1, logprobs=False)
    assert "logprobs" not in generation.generation_info
    texts = {generation.text for generation in sampled(chat, n=4, temperature=0)}
    assert len(texts) == 1


def test_log_probabilities_are_those_of_the_raw_logits(chat):
    """An independent forward pass over prompt and response gives the same, whatever the temperature."""
    generation = sampled(chat, n=1, seed=3, temperature=1.7)[0]
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    conversation = [{"role": "user", "content": ASKED[0].content}]
    prompt = tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    reply = [*tokenizer.encode(generation.text, add_special_tokens=False), tokenizer.eos_token_id]
    with torch.inference_mode():
        logprobs = model(torch.tensor([prompt + reply])).logits[0].log_softmax(-1)
    expected = 0.0
    for place, token in enumerate(reply, start=len(prompt) - 1):
        expected += float(logprobs[place, token])
    assert math.fsum(token_logprobs(generation)) == pytest.approx(expected, abs=1e-3)


def drawn_by_sampler(n, probabilities, *, temperature, top_p=1.0):
    """What each of `n` seeds draws from these probabilities."""
    settings = DrawSettings(temperature, top_p, n_top=0, n_new=1, stop=(), max_batch=n)
    sampler = SeededSampler([Row(0, seed) for seed in range(n)], settings)
    sampler(torch.zeros(n, 1), probabilities.log().repeat(n, 1))
    return [row[0].id for row in sampler.drawn]


def test_the_sampler_follows_the_law():
    """Counts over 4,000 draws against p^(1 / T), by chi-squared; the seeds are fixed, so it cannot flake."""
    probabilities = torch.tensor([2.0, 1.0, 0.0, -1.0]).double().softmax(-1)
    counts = np.bincount(drawn_by_sampler(4000, probabilities, temperature=2.0), minlength=4)
    flatter = probabilities.sqrt() / probabilities.sqrt().sum()
    assert chisquare(counts, 4000 * flatter).pvalue > 0.01


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    probabilities = torch.tensor([0.6, 0.3, 0.1])
    assert set(drawn_by_sampler(500, probabilities, temperature=1.0, top_p=0.7)) == {0, 1}


def test_stop_strings_end_a_response_and_are_not_part_of_it(chat):
    full, stopped = (sampled(chat, n=6, seed=1, stop=stop) for stop in (None, ["Par"]))
    assert any("Paris" in generation.text for generation in full)
    for whole, cut in zip(full, stopped, strict=True):
        assert cut.text == whole.text.split("Par")[0]
        assert len(token_logprobs(cut)) <= len(token_logprobs(whole))


@pytest.mark.parametrize("name", MODELS)
def test_control_tokens_in_a_users_text_are_only_text(name):
    chat = ChatTransformers(str(model_folder(name)))
    loaded = chat.load()
    special = set(loaded.tokenizer.all_special_ids)
    controls = [token.content for token in loaded.tokenizer.added_tokens_decoder.values()]
    kept = []
    for text in ("x", f"x{''.join(controls)}y"):
        prompt = chat._prompt(loaded, [HumanMessage(text)])
        kept.append([token for token in prompt if token in special])
    plain, planted = kept
    assert planted == plain


def copied(tmp_path, without=None):
    """A copy of the model's folder, without one of its files."""
    folder = shutil.copytree(FOLDER, tmp_path / "copy")
    if without is not None:
        (folder / without).unlink()
    return folder


def test_pickled_weights_are_refused(tmp_path):
    folder = copied(tmp_path, without="model.safetensors")
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="safetensors"):
        ChatTransformers(str(folder)).load()


def test_missing_weights_are_refused(tmp_path):
    folder = copied(tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    missing = r"weights are missing: model\.layers\.0\.mlp\.up_proj"
    with pytest.raises(ModelLoadError, match=missing):
        ChatTransformers(str(folder)).load()


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_gguf_file_without_its_reader_says_what_to_install(tmp_path, monkeypatch, is_installed):
    spec = find_spec("json") if is_installed else None
    monkeypatch.setattr(chat_transformers, "find_spec", lambda package: spec)
    (tmp_path / "small.gguf").touch()
    name = f"transformers:{tmp_path / 'small.gguf'}"
    if is_installed:
        assert load_model(name).model == str(
            tmp_path / "small.gguf"
        )  # which is read at the first call
        return
    with pytest.raises(ImportError, match=r'pip install "coe-agents\[gguf\]"'):
        load_model(name)
    run("ask", "Capital?", "--model", name, "--model", "tinyworld:tiny-llama", code=2)


@pytest.mark.parametrize("name", ["./none", "none.gguf", "models/none.gguf"])
def test_a_path_to_nothing_is_said_at_once(name):
    with pytest.raises(ModelLoadError, match=f'"{name}" does not exist'):
        ChatTransformers(name).load()


def test_a_tokenizer_without_a_chat_template_is_said(tmp_path):
    folder = copied(tmp_path, without="chat_template.jinja")
    with pytest.raises(ModelLoadError, match="no chat template"):
        ChatTransformers(str(folder)).load()
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    chat = ChatTransformers(str(folder), chat_template=template, max_tokens=2)
    assert chat.invoke("x").content is not None


def test_images_are_refused(chat):
    with pytest.raises(ValueError, match="takes text only"):
        sampled(chat, [HumanMessage([{"type": "image_url", "image_url": {"url": "data:"}}])])


@pytest.mark.parametrize(
    "options", [{"n": 0}, {"temperature": -1}, {"top_p": 0}, {"tools": []}, {"sedd": 1}]
)
def test_options_that_cannot_work_are_refused(chat, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        sampled(chat, **options)
