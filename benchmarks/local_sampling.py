"""Prints what sampling a model in this process costs, as ratios to a bare `generate` and to one call after the other.

    python benchmarks/local_sampling.py [--repeats 5] [--write FILE]

The runs of a ratio are interleaved. tinyworld's model shows the overhead, a random Llama of 41 million parameters the
computing, with fewer tokens and pairs. In the first two ratios no response ends early, so that all are equally long.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from langchain_core.messages import HumanMessage
from langchain_huggingface import HuggingFacePipeline
from result_page import result_page
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM, pipeline

from coe_agents import ModelAgent
from coe_agents.backends import ChatTransformers
from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import load_facts
from coe_agents.types import AgentRequest

TINY = model_folder("tiny-llama")
N_QUESTIONS = 20
Seconds = tuple[float, float]  # wall, CPU


def random_llama(folder: Path, **sizes: int) -> Path:
    """Saves a Llama that was never trained, with tinyworld's tokenizer and a vocabulary of usual size."""
    torch.manual_seed(0)
    ours = {
        "hidden_size": 512,
        "intermediate_size": 1376,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 1024,
    }
    config = LlamaConfig(
        vocab_size=32_000, tie_word_embeddings=True, pad_token_id=0, **(ours | sizes)
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(folder)
    return folder


@contextmanager
def endless(chat: ChatTransformers) -> Iterator[None]:
    """Lets no response end before its limit."""
    loaded = chat.load()
    ends, loaded.end_tokens = loaded.end_tokens, []
    loaded.model.generation_config.eos_token_id = None  # which fills in what a call leaves open
    try:
        yield
    finally:
        loaded.end_tokens = loaded.model.generation_config.eos_token_id = ends


async def measure_seconds(run: Callable[[], Awaitable[Any]]) -> Seconds:
    wall, cpu = time.perf_counter(), time.process_time()
    await run()
    return time.perf_counter() - wall, time.process_time() - cpu


async def compared(
    what: str, one: Callable[[], Awaitable[Any]], other: Callable[[], Awaitable[Any]], repeats: int
) -> None:
    """Prints the medians of both, and of their ratios, `one` over `other`."""
    await other()  # so that everything is loaded
    pairs = [(await measure_seconds(one), await measure_seconds(other)) for _ in range(repeats)]
    first, second = np.array(pairs).swapaxes(0, 1)
    medians = np.median([first, second, first / second], axis=1).ravel()
    print(f"{what:57}", *(f"{median:8.3f}" for median in medians), flush=True)


async def compare(name: str, folder: Path, length: int, repeats: int) -> None:
    chat = ChatTransformers(str(folder), max_tokens=length, seed=1)
    loaded = chat.load()
    questions = [fact.question for fact in load_facts()][:N_QUESTIONS]
    asked = [HumanMessage(questions[0])]
    prompt = torch.tensor([chat._prompt(loaded, asked)], device=loaded.model.device)
    bare_settings = GenerationConfig(
        do_sample=True,
        top_k=0,
        num_return_sequences=10,
        max_new_tokens=length,
        pad_token_id=0,
        eos_token_id=None,
    )
    piped = HuggingFacePipeline(
        pipeline=pipeline(
            "text-generation",
            model=loaded.model,
            tokenizer=loaded.tokenizer,
            generation_config=GenerationConfig(
                do_sample=True, top_k=0, max_new_tokens=length, pad_token_id=0
            ),
        )
    )
    text = chat._render(loaded, asked, tokenize=False)

    async def ours() -> None:
        await chat.agenerate([asked], n=10)

    async def bare() -> None:
        with torch.inference_mode():
            loaded.model.generate(
                prompt, attention_mask=torch.ones_like(prompt), generation_config=bare_settings
            )

    async def piped_ten_times() -> None:
        for _ in range(10):
            piped.invoke(text)

    with endless(chat):
        await compared(f"{name}: n=10, ours / bare generate", ours, bare, repeats)
        await compared(
            f"{name}: HuggingFacePipeline 10 times / ours, n=10", piped_ten_times, ours, repeats
        )
    requests = [
        AgentRequest(question=question, messages=[{"role": "user", "content": question}], round=0)
        for question in questions
    ]
    for n in (1, 5, 10):
        agent = ModelAgent(name, chat, n_samples=n, seed=1)

        async def in_turn(agent: ModelAgent = agent) -> None:
            for request in requests:
                await agent.asample(request)

        async def at_once(agent: ModelAgent = agent) -> None:
            await asyncio.gather(*map(agent.asample, requests))

        await compared(
            f"{name}: {N_QUESTIONS} questions, n={n}, in turn / at once", in_turn, at_once, repeats
        )


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(f"{f'medians of {args.repeats} pairs':57} {'first':>17} {'second':>17} {'ratio':>17}")
    print(f"{'seconds':57}" + f" {'wall':>8} {'CPU':>8}" * 3)
    await compare("tiny-llama, 1 M", TINY, 32, args.repeats)
    with tempfile.TemporaryDirectory() as folder:
        await compare("Llama, 41 M", random_llama(Path(folder)), 12, (args.repeats + 1) // 2)


if __name__ == "__main__":
    with result_page():
        asyncio.run(main())
