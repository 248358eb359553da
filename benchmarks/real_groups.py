"""Names the groups of models whose answers `weights.py` and `escalation.py` read: those of `defaults.py`, and more.

A set of responses and a choice of its models is a group.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from actions import opened
from calibn import SETS, to_samples
from defaults import GROUPS, LARGEST, generations

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.calibration.calibrate import Judged, judge_samples

CALIBN = {
    "ladder": ("Llama-3.1-70B-Instruct", "Llama-3.1-8B-Instruct", "gemma-2-2b-it"),
    "five": (
        "Qwen2-72B-Instruct",
        "gemma-2-9b-it",
        "Llama-3-8B-Instruct",
        "Llama-2-7b-chat",
        "Phi-3.5-mini-instruct",
    ),
    "weak": ("gemma-2-2b-it", "Llama-2-7b-chat", "Phi-3.5-mini-instruct"),
}
MATHS = {
    "ladder": (
        "gpt-4o-2024-08-06",
        "Meta-Llama-3.1-70B-Instruct",
        "Meta-Llama-3.1-8B-Instruct",
        "gemma-2-2b-it",
    ),
    "one": (
        "claude-3-5-sonnet-20241022",
        "claude-3-haiku-20240307",
        "gpt-3.5-turbo-0125",
        "gemma-2-2b-it",
    ),
}
LETTERS = {
    "one": (LARGEST, "Llama-3.2-3B-Instruct", "Qwen2.5-3B-Instruct", "gemma-3-4b-it"),
    "ladder": ("gpt-4o-2024-08-06", "gemma-2-27b-it", "Meta-Llama-3.1-8B-Instruct-Turbo"),
    "weak": ("Llama-3.2-3B-Instruct", "gemma-3-4b-it", "Mistral-Nemo-Instruct-2407"),
}
PROMPTS = {
    "ladder": ("gpt-4-0125-preview", "gpt-3.5-turbo-0125", "gemini-1.0-pro-001"),
    "one": (
        "Llama-2-70b-chat-hf",
        "claude-3-opus-20240229",
        "Mixtral-8x7B-Instruct-v0.1",
        "Qwen1.5-72B-Chat",
    ),
}
MORE = {
    **dict.fromkeys(SETS, CALIBN),
    "mmlupro_calib": LETTERS,
    **dict.fromkeys(("gsm_zeroeval", "mathl5_zeroeval"), MATHS),
    "realmistake_prompts": PROMPTS,
}


def all_groups(folder: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields set, title and models of each group; "all" are the models that answered every question of the set."""
    for name, groups in GROUPS.items():
        for title, models in {**groups, **MORE.get(name, {})}.items():
            yield name, title, models or _of_all(folder, name)


def _of_all(folder: Path, name: str) -> tuple[str, ...]:
    answered = [
        {model for model, said in each["responses"].items() if said}
        for each in records_of(folder, name)
    ]
    return tuple(sorted(set.intersection(*answered)))


@lru_cache(maxsize=1)
def records_of(folder: Path, name: str) -> list[dict]:
    return list(generations(folder, name))


def judged(folder: Path, name: str, models: tuple[str, ...], *, most: int = 1000) -> list[Judged]:
    """Measures the questions that all models of a group answered, with a verdict on every cluster.

    Of each model the first `most` responses count.
    """
    chosen = [
        each
        for record in records_of(folder, name)
        for each in to_samples(record, models)
        if each["index"] < most
    ]
    with opened(chosen) as questions:
        rows = judge_samples(questions, clusterer=NormalizedMatch(), every_cluster=True)
    return [row for row in rows if row.correct is not None and None not in row.verdicts]
