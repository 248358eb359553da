"""Invented samples: rows as they stand on disk, and questions of known difficulty."""

import json

import numpy as np

from coe_agents.evaluation.scoring.scores import ScoringSetup, score_each, to_scores


def row(identifier="q1", agent="a", index=0, text="Paris", **fields):
    return {"id": identifier, "agent": agent, "index": index, "text": text, **fields}


def write(path, rows):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def group(n_questions, *, agents=("a", "b", "c"), n_samples=4, seed=0, **fields):
    """Rows of a group that is right about a question as often, in each response, as the question is easy."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(n_questions):
        ease = generator.random()
        for agent in agents:
            for index in range(n_samples):
                right = generator.random() < ease
                said = "right" if right else f"wrong {generator.integers(4)}"
                rows.append(
                    row(
                        f"q{number:05}",
                        agent,
                        index,
                        said,
                        question=f"Question {number}?",
                        references=["right"],
                    )
                    | {"logprob": -float(generator.random()), "n_tokens": 3}
                    | fields
                )
    return rows


def score(questions, **setup):
    """The score vectors of questions; the arguments are those of `ScoringSetup`."""
    scoring = ScoringSetup(**setup)
    return to_scores(score_each(questions, scoring), scoring)
