import pytest

from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder, writer_of
from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.training import train_and_report

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("trained", [ENTAILMENT_MODEL, *MODELS, *map(writer_of, MODELS)])
def test_training_repeats(trained, tmp_path):
    class Reports(list):
        put = list.append

    runs = []
    for attempt in ("first", "second"):
        reports = Reports()
        train_and_report(trained, tmp_path / attempt, 2, reports)
        runs.append((reports, (tmp_path / attempt / "model.safetensors").read_bytes()))
    assert runs[0] == runs[1]
    assert runs[0][0][-1][:3] == (trained, 2, 2)
    made, shipped = (
        folder / "tokenizer.json" for folder in (tmp_path / "first", model_folder(trained))
    )
    assert made.read_bytes() == shipped.read_bytes()  # training and answering split texts alike
