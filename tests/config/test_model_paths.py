import pytest

from coe_agents.cli.inputs import load_named
from coe_agents.cli.options import ModelOptions
from coe_agents.config.sampling_group import create_recorded_clusterer, describe
from coe_agents.config.schema import load_config
from coe_agents.tinyworld import model_folder
from tests.configurations import table


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Returns the folder of a configuration, which has models, and the present one, which has others."""
    beside = tmp_path / "beside"
    present = tmp_path / "present"
    for folder, names in ((beside, "both own"), (present, "both other")):
        for name in names.split():
            (folder / "models" / name).mkdir(parents=True)
    monkeypatch.chdir(present)
    return beside, present


def configured(folder, agents, rest=""):
    text = ""
    for name in agents:
        text += table("[agents]", name=name.replace("/", "-"), model=name)
    path = folder / "coe.toml"
    path.write_text(text + rest)
    return load_config(path)


def test_a_path_is_from_the_folder_of_the_file_then_from_the_present_one_and_else_a_hub_id(folders):
    beside, present = folders
    (beside / "models" / "small.gguf").touch()
    names = ["models/own", "./models/both", "models/other", "models/small.gguf", "models/hub"]
    found = [agent.model for agent in configured(beside, names).agents]
    assert found == [
        str(beside / "models" / "own"),
        str(beside / "models" / "both"),
        str(present / "models" / "other"),
        str(beside / "models" / "small.gguf"),
        "models/hub",
    ]
    (named,) = load_named(None, ModelOptions(models=["transformers:models/both"])).agents
    assert (named.name, named.model) == ("both", str(present / "models" / "both"))


EMBEDDING = {"kind": "embedding", "provider": "huggingface", "threshold": 0.9}
SECTIONS = {
    "clusterer": table("clusterer", kind="entailment", model="models/own"),
    "clusterer, embedding": table("clusterer", **EMBEDDING, model="models/own"),
    "clusterer, answers": table("answers", kind="sentences", model="models/own"),
    "clusterer, judge": table("answers", kind="sentences", judge={"model": "models/own"}),
    "escalation": table("escalation", kind="arbiter", model="models/own"),
    "judge": table("judge", model="models/own"),
}


@pytest.mark.parametrize("part", SECTIONS)
def test_each_part_finds_its_model_so(folders, part):
    beside, _ = folders
    config = configured(beside, ["hub/model"], SECTIONS[part])
    assert getattr(config, part.partition(",")[0]).model == str(beside / "models" / "own")
    assert "'models/own'" not in str(config.model_dump())


@pytest.mark.parametrize("provider", ["tinyworld", "openai"])
def test_names_of_others_are_no_folders(folders, provider):
    beside, _ = folders
    (beside / "tinyworld").mkdir()
    served = table("judge", provider=provider, model="models/own")
    compared = table("clusterer", kind="entailment", model="tinyworld")
    config = configured(beside, ["hub/model"], served + compared)
    assert (config.judge.model, config.clusterer.model) == ("models/own", "tinyworld")


def test_what_a_run_records_is_found_from_another_folder(folders, tmp_path, monkeypatch):
    beside, _ = folders
    (beside / "models" / "nli").symlink_to(model_folder("tiny-nli"))
    compared = table("clusterer", kind="entailment", model="models/nli")
    config = configured(beside, ["hub/model"], compared)
    recorded = describe(config)
    monkeypatch.chdir(tmp_path)
    assert create_recorded_clusterer(recorded).model.load() is not None
