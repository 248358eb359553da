"""Owns the questions of a dataset on the disk: each once, in the order in which a run asks them."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from coe_agents.evaluation.datasets.question import Question, can_be_example, draw_key, from_plain, merge
from coe_agents.evaluation.disk_sequence import DiskSequence


@dataclass(frozen=True, slots=True)
class QuestionsOnDisk:
    """The questions of a dataset, each once, on the disk, in an order that a seed draws.

    Attributes:
        source: The file, or the dataset's name on the hub with its configuration and split.
        questions: In the order in which they are asked.
        n_records: How many records were read: more than questions where some repeat one, as in TriviaQA on the hub.
        seed: Of the order, and of that of examples.
    """

    source: str
    questions: DiskSequence[Question]
    n_records: int
    seed: int

    def examples(self, k: int, *, with_context: bool = False) -> list[Question]:
        """Returns enough questions for `examples_from` to find `k` examples for any question.

        A prompt never shows a question of its own wording, so the first questions with k + 1 wordings are enough.
        """
        shown, wordings = list[Question](), set[str]()
        usable = (each for each in self.questions if can_be_example(each, with_context=with_context))
        for question in on_disk(usable, seed=self.seed, purpose="example") if k else ():
            shown.append(question)
            wordings.add(question.question)
            if len(wordings) > k:
                break
        return shown


def on_disk(questions: Iterable[Question], *, seed: int, purpose: str = "asked") -> DiskSequence[Question]:
    """Returns questions in the order that a seed draws for a purpose (`draw_key`), each id once.

    Raises:
        ConflictError: If two of one id differ in more than their references.
    """
    return DiskSequence(
        questions,
        key=lambda question: draw_key(purpose, seed, question.id),
        encode=lambda question: json.dumps(asdict(question)),
        decode=lambda text: from_plain(json.loads(text)),
        merge=merge,
    )
