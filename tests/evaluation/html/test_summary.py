from coe_agents.evaluation.html.report_page import summarize


def test_it_says_how_many_are_right_and_how_many_wrong_ones_look_certain():
    # the last has no verdict; of the three wrong answers only that of CoE 0.4 looks certain
    coe, correct = [0.1, 0.1, 0.1, 0.1, 0.4, 0.6, 0.6, 0.9, 0.2], [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, None]
    kinds = ["answer"] * 7 + ["refusal", "answer"]
    table = {"coe": coe, "aleatoric": coe, "epistemic": [0.0] * 9, "correct": correct, "kind": kinds}
    figures = {"n_scored": 8, "accuracy": 5 / 8, "scores": {"coe": {"auroc": [0.75, 0.6, 0.9]}}}
    right, pairs, certain = (sentence.replace("\u00a0", " ") for sentence in summarize(table, figures))
    assert right == "The group is right on 5 of 8 questions (62 %)."
    assert "in 75 % of pairs (95 % interval 60 % to 90 %; chance is 50 %)" in pairs
    assert certain.startswith("1 wrong answer looked certain")
