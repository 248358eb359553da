"""The first sentences of the page; every number is derived by hand."""

from coe_agents.evaluation.html.summary import summarize


def table(*rows):
    """Columns from rows of CoE, verdict and kind; all of CoE is aleatoric."""
    coe, correct, kind = zip(*rows, strict=True)
    return {"coe": coe, "aleatoric": coe, "epistemic": [0.0] * len(rows), "correct": correct, "kind": kind}


def figures(rows, auroc=(0.75, 0.6, 0.9)):
    known = [correct for _, correct, _ in rows if correct is not None]
    accuracy = sum(known) / len(known) if known else None
    return {"n_scored": len(known), "accuracy": accuracy, "scores": {"coe": {"auroc": list(auroc)}}}


def plain(sentences):
    return [sentence.replace("\u00a0", " ") for sentence in sentences]


ROWS = (
    [(0.1, 1.0, "answer")] * 4
    + [(0.4, 0.0, "answer"), (0.6, 1.0, "answer"), (0.6, 0.0, "answer")]
    + [(0.9, 0.0, "refusal")]
)


def test_it_says_how_many_are_right_and_how_many_wrong_ones_look_certain():
    right, pairs, certain = plain(summarize(table(*ROWS, (0.2, None, "answer")), figures(ROWS)))
    assert right == "The group is right on 5 of 8 questions (62 %)."
    assert "in 75 % of pairs (95 % interval 60 % to 90 %; chance is 50 %)" in pairs
    assert certain.startswith("1 wrong answer looked certain")
