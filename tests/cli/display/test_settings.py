import pytest

from coe_agents.cli.display.settings import show_config
from coe_agents.config.schema import read_config

FILE = """
[[agents]]
name = "a"
provider = "tinyworld"
model = "tiny-llama"
[[agents]]
name = "b"
provider = "tinyworld"
model = "tiny-qwen2"
[clusterer]
kind = "embedding"
provider = "huggingface"
model = '{}'
threshold = 0.9
"""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("minilm", "minilm (folder) (key: not needed)"),
        ("models/minilm", "huggingface models/minilm (hub)"),
    ],
)
def test_an_embedding_model_of_this_process_says_where_it_is_loaded_from(
    name, shown, tmp_path, monkeypatch, capsys
):
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    show_config(read_config(FILE.format(name), tmp_path / "coe.toml"), [], path="coe.toml")
    assert shown in " ".join(capsys.readouterr().out.split())
