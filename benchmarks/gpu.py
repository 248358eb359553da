"""Prints whether models on a GPU give what they give on a CPU, and what sampling and entailment cost there.

    python benchmarks/gpu.py [--write FILE]

Sampling: tinyworld's Llama, alone and in batches; a Llama of 1 billion parameters with random weights, whose responses
do not end early. Entailment: a DeBERTa-v2 of the shape of v3's large one, with random weights. Times are the medians
of 3, in wall seconds. Without a GPU everything is small and runs on the CPU, to try this out.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from entailment import draw_questions, save_model
from langchain_core.messages import HumanMessage
from local_sampling import TINY, endless, random_llama
from result_page import result_page
from transformers import GenerationConfig

from coe_agents.backends import ChatTransformers, TransformersEntailment
from coe_agents.tinyworld.facts import load_facts

HAS_GPU = torch.cuda.is_available()
QUESTIONS = [fact.question for fact in load_facts()]
LARGE_LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
Sampled = tuple[str, float]  # a text and its log-probability


def seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(4):
        start = time.perf_counter()
        run()
        if HAS_GPU:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def sample(chat: ChatTransformers, questions: list[str], at_once: int) -> list[Sampled]:
    """Returns ten responses to each question, so many questions at a time."""

    async def all_of() -> list[Sampled]:
        rows = []
        for start in range(0, len(questions), at_once):
            asked = [[HumanMessage(question)] for question in questions[start : start + at_once]]
            for result in await asyncio.gather(
                *(chat.agenerate([messages], n=10) for messages in asked)
            ):
                rows += result.generations[0]
        return [
            (
                row.text,
                sum(token["logprob"] for token in row.generation_info["logprobs"]["content"]),
            )
            for row in rows
        ]

    return asyncio.run(all_of())


def compare_texts(n_questions: int) -> None:
    """Prints how many texts of a seed depend on the batch, and on the device."""
    asked = QUESTIONS[:n_questions]
    kinds = {
        dtype: ChatTransformers(str(TINY), dtype=dtype, max_tokens=16, seed=1)
        for dtype in ("float32", "bfloat16")
    }
    alone = {dtype: sample(chat, asked, 1) for dtype, chat in kinds.items()}
    pairs = {
        f"{dtype}, 64 questions at once": (alone[dtype], sample(chat, asked, 64))
        for dtype, chat in kinds.items()
    }
    on_cpu = ChatTransformers(str(TINY), device="cpu", max_tokens=16, seed=1)
    pairs["float32, on the CPU"] = alone["float32"], sample(on_cpu, asked, 1)
    print(
        f"tinyworld's Llama, {10 * n_questions:,} responses of a seed, one question at a time in float32 or bfloat16"
    )
    print(f"{'and':44} {'texts that differ':>18} {'log-probability off by':>24}")
    for what, (first, other) in pairs.items():
        same = [
            abs(one[1] - two[1]) for one, two in zip(first, other, strict=True) if one[0] == two[0]
        ]
        print(f"{what:44} {len(first) - len(same):18} {max(same):24.2g}")


def compare_sampling(folder: Path, length: int) -> None:
    """Prints what a batch of ours takes over a bare `generate`, and what questions at once save."""
    chat = ChatTransformers(str(folder), dtype="bfloat16", max_tokens=length, seed=1)
    loaded = chat.load()
    n_parameters = sum(parameter.numel() for parameter in loaded.model.parameters())
    print(
        f"\nLlama of {n_parameters / 1e6:,.0f} M parameters, bfloat16, {length} tokens a response: seconds"
    )
    print(f"{'':44} {'first':>8} {'second':>8} {'ratio':>8}")

    def row(what: str, first: Callable[[], object], second: Callable[[], object]) -> None:
        one, other = seconds(first), seconds(second)
        print(f"{what:44} {one:8.3f} {other:8.3f} {one / other:8.2f}", flush=True)

    with endless(chat):
        for text in (QUESTIONS[0], " ".join(QUESTIONS[:60])):
            prompt = torch.tensor(
                [chat._prompt(loaded, [HumanMessage(text)])], device=loaded.model.device
            )
            for n in (10, 100):
                settings = GenerationConfig(
                    do_sample=True,
                    top_k=0,
                    num_return_sequences=n,
                    max_new_tokens=length,
                    pad_token_id=0,
                )

                def bare(
                    prompt: torch.Tensor = prompt, settings: GenerationConfig = settings
                ) -> None:
                    with torch.inference_mode():
                        loaded.model.generate(
                            prompt,
                            attention_mask=torch.ones_like(prompt),
                            generation_config=settings,
                        )

                def ours(text: str = text, n: int = n) -> None:
                    chat.generate([[HumanMessage(text)]], n=n)

                row(f"prompt of {prompt.shape[1]}, n={n}: ours / bare generate", ours, bare)
        asked = QUESTIONS[:20]
        row(
            "20 questions, n=10: in turn / at once",
            lambda: sample(chat, asked, 1),
            lambda: sample(chat, asked, 20),
        )


def compare_entailment(folder: Path, texts: list[str], n_pairs: int) -> None:
    """Prints milliseconds a pair by precision and size of a pass, and how far the probabilities are from the CPU's."""
    drawn = np.random.default_rng(0).integers(0, len(texts), (n_pairs, 2))
    pairs = [(texts[first], texts[second]) for first, second in drawn]
    on_cpu = TransformersEntailment(str(folder), device="cpu").predict(pairs[:50])
    print(f"\nDeBERTa-v2, {n_pairs} pairs")
    print(
        f"{'':10} {'batch_size':>10} {'batch_tokens':>13} {'ms a pair':>10} {'off the CPU by':>15}",
        end="",
    )
    print(f" {'other verdicts':>15}")
    for dtype in ("float32", "bfloat16"):
        for size, n_tokens in ((64, 8192), (256, 8192), (256, 32768)):
            model = TransformersEntailment(
                str(folder), dtype=dtype, batch_size=size, batch_tokens=n_tokens
            )
            each = 1000 * seconds(lambda model=model: model.predict(pairs)) / n_pairs
            found = model.predict(pairs)[:50]
            off, n_other = abs(found - on_cpu).max(), (found.argmax(1) != on_cpu.argmax(1)).sum()
            print(
                f"{dtype:10} {size:10} {n_tokens:13,} {each:10.3f} {off:15.2g} {n_other:15}",
                flush=True,
            )


def main() -> None:
    print(f"{torch.cuda.get_device_name() if HAS_GPU else 'no GPU'}\n")
    compare_texts(200 if HAS_GPU else 20)
    with tempfile.TemporaryDirectory() as name:
        compare_sampling(
            random_llama(Path(name), **(LARGE_LLAMA if HAS_GPU else {})), 64 if HAS_GPU else 4
        )
    data = draw_questions(5)
    texts = [f"{each['question']} {response}" for each in data for response in each["responses"]]
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name), texts, **({"hidden": 1024, "n_layers": 24} if HAS_GPU else {}))
        compare_entailment(Path(name), texts, 1000 if HAS_GPU else 60)


if __name__ == "__main__":
    with result_page():
        main()
