from coe_agents.experiments.experiment import Experiment, paper_rows
from coe_agents.experiments.ranking import RANKING_COLUMNS


def test_cells_of_the_papers_tables():
    ranked = {row[:2]: row[2:] for row in paper_rows("selective-prediction", ("models", "metric", *RANKING_COLUMNS))}
    assert len(ranked) == 12
    assert ranked[3, "CoE"][RANKING_COLUMNS.index("AUROC")] == 0.772
    assert ranked[2, "Regular Entropy"][RANKING_COLUMNS.index("80%")] == 0.562
    assert ranked[3, "P(False)"][RANKING_COLUMNS.index("paper's AURAC")] == 0.117
    accuracies = paper_rows("model-accuracy", ("model", "dataset", "train accuracy", "validation accuracy"))
    assert ("Qwen", "SQuAD", 0.2, 0.15) in accuracies
    assert paper_rows("divergences", ("divergence", "gain", "solver"))[3] == ("wasserstein", 0.205, "greedy")
    assert Experiment(name="epsilon", title="", columns=(), rows=()).label == "fig: 4"


def test_the_areas_follow_from_the_accuracies_with_two_columns_of_three_models_swapped():
    columns = ("models", "80%", "90%", "95%", "100%", "paper's AURAC", "metric", "AUROC")
    for models, a80, a90, a95, a100, area, *_ in paper_rows("selective-prediction", columns):
        ends = (a80, a95) if models == 2 else (a95, a80)
        # truncated there, not rounded
        assert area - 1e-9 <= 0.1 * (ends[0] / 2 + a90 + ends[1] + a100 / 2) < area + 0.00105, (models, area)
