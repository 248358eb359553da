from coe_agents.experiments.experiment import paper_rows


def test_the_areas_follow_from_the_accuracies_with_two_columns_of_three_models_swapped():
    columns = ("models", "80%", "90%", "95%", "100%", "paper's AURAC", "metric", "AUROC")
    for models, a80, a90, a95, a100, area, *_ in paper_rows("selective-prediction", columns):
        ends = (a80, a95) if models == 2 else (a95, a80)
        # truncated there, not rounded
        assert area - 1e-9 <= 0.1 * (ends[0] / 2 + a90 + ends[1] + a100 / 2) < area + 0.00105, (models, area)
