"""Owns questions with known answers: reading them, choosing some by a seed, and the prompts that ask them."""

from coe_agents.evaluation.datasets.loading import PUBLISHED, open_questions
from coe_agents.evaluation.datasets.on_disk import QuestionsOnDisk
from coe_agents.evaluation.datasets.prompts import Prompt, load_prompt
from coe_agents.evaluation.datasets.question import Kind, Question, examples_from

__all__ = [
    "PUBLISHED",
    "Kind",
    "Prompt",
    "Question",
    "QuestionsOnDisk",
    "examples_from",
    "load_prompt",
    "open_questions",
]
