import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest

from coe_agents.backends.local_embeddings import LocalEmbeddings
from coe_agents.clustering import EmbeddingSimilarity
from coe_agents.config.build import create_clusterer
from coe_agents.config.schema import load_config
from coe_agents.config.validation import check
from coe_agents.errors import ConfigurationError, ModelLoadError
from tests.configurations import table

pytest.importorskip("langchain_huggingface")
LOCAL = {"kind": "embedding", "provider": "huggingface", "threshold": 0.9}


@pytest.fixture
def loaded(monkeypatch):
    """Stands in for sentence-transformers, and lists the models that are loaded, with their options."""
    loaded = []

    class SentenceTransformer:
        def __init__(self, name, **options):
            loaded.append((name, options))
            if "broken" in name:
                raise OSError("no weights\nat all")

        def encode(self, texts, **_):
            return np.array([[1.0, 5.0 * ("Paris" in text)] for text in texts])

    module = ModuleType("sentence_transformers")
    module.__spec__ = ModuleSpec("sentence_transformers", None)
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return loaded


def configured(folder, **fields):
    agent = table("[agents]", name="a", provider="tinyworld", model="tiny-llama")
    path = folder / "coe.toml"
    path.write_text(agent + table("clusterer", **LOCAL, **fields))
    return load_config(path)


def test_a_check_loads_nothing_and_the_first_comparison_loads_the_model_once(tmp_path, loaded):
    options = {"model_kwargs": {"trust_remote_code": True}}
    config = configured(tmp_path, model=str(tmp_path), options=options)
    check(config)
    clusterer = create_clusterer(config)
    assert loaded == []
    for _ in range(2):
        labels = clusterer.cluster([["Paris", "It is Paris.", "Lyon"]], ["Of France?"])
        assert labels == [[0, 0, 1]]
    assert clusterer.embeddings.embed_query("Paris") == [1.0, 5.0]
    assert loaded == [(str(tmp_path), {"cache_folder": None, "trust_remote_code": True})]


def test_what_a_check_can_see_is_said_before_anything_is_loaded(tmp_path, loaded, monkeypatch):
    missing = configured(tmp_path, model="./none")
    for use in (check, create_clusterer):
        with pytest.raises(
            ConfigurationError, match=r'clusterer\.model: the folder "\./none" does not'
        ):
            use(missing)
    direct = EmbeddingSimilarity(LocalEmbeddings("./none"), threshold=0.9)
    with pytest.raises(ModelLoadError, match=r'"\./none" cannot be loaded: the folder'):
        direct.cluster([["a", "b"]], ["?"])
    misspelt = configured(tmp_path, model="owner/name", options={"model_kwarg": {}})
    with pytest.raises(ConfigurationError, match=r"options\.model_kwarg: unknown option"):
        check(misspelt)
    monkeypatch.setattr("coe_agents.backends.local_embeddings.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="need langchain_huggingface; pip install"):
        check(configured(tmp_path, model="owner/name"))
    assert loaded == []


def test_what_cannot_be_loaded_says_why_on_one_line(tmp_path, loaded):
    clusterer = create_clusterer(configured(tmp_path, model="owner/broken"))
    with pytest.raises(ModelLoadError, match=r"cannot be loaded: OSError: no weights\. Give a"):
        clusterer.cluster([["a", "b"]], ["?"])
