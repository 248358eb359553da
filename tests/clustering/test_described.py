"""By what a calibration knows the clusterer again."""

import pytest
from langchain_core.embeddings import FakeEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from coe_agents.actions import ActionMatch
from coe_agents.agents import ChatEntailment
from coe_agents.clustering import BidirectionalEntailment, EmbeddingSimilarity, NormalizedMatch
from coe_agents.clustering.described import describe_clusterer, differing_options
from coe_agents.clustering.entailment_wrappers import CachedEntailment, CountingEntailment

KEY = {"api_key": "sk-planted-0123456789"}


class Local:
    """An entailment model in a folder."""

    def __init__(self, model):
        self.model = model

    def predict(self, pairs):
        return [[0.0, 0.0, 1.0] for _ in pairs]


@pytest.mark.parametrize("wrap", [lambda model: model, CachedEntailment, CountingEntailment])
@pytest.mark.parametrize("folder", ["small-nli", "owner/small-nli", "/models/small-nli/"])
def test_an_entailment_model_is_known_by_its_name_wherever_it_is_and_in_whatever(wrap, folder):
    clusterer = BidirectionalEntailment(wrap(Local(folder)), threshold=0.7)
    options = {"strict": True, "threshold": 0.7, "merge_variants": True, "model": "small-nli"}
    assert describe_clusterer(clusterer) == ("BidirectionalEntailment", options)


def test_a_judge_is_known_by_its_model_however_that_is_given():
    judges = [ChatEntailment("openai:gpt-5"), ChatEntailment(ChatOpenAI(model="gpt-5", **KEY))]
    for judge in judges:
        _, options = describe_clusterer(BidirectionalEntailment(judge))
        assert options["model"] == "gpt-5"


def test_embeddings_are_known_by_their_model_if_they_name_one():
    named = EmbeddingSimilarity(OpenAIEmbeddings(model="small", **KEY), threshold=0.9)
    assert describe_clusterer(named)[1] == {"threshold": 0.9, "model": "small"}
    nameless = EmbeddingSimilarity(FakeEmbeddings(size=2), threshold=0.9)
    assert describe_clusterer(nameless)[1] == {"threshold": 0.9}


@pytest.mark.parametrize("clusterer", [NormalizedMatch(), ActionMatch()])
def test_rules_have_no_options_and_no_model(clusterer):
    assert describe_clusterer(clusterer) == (type(clusterer).__name__, {})


def test_a_model_that_holds_itself_is_looked_at_a_few_times():
    model = Local(None)
    model.model = model
    assert "model" not in describe_clusterer(BidirectionalEntailment(model))[1]


def test_options_differ_where_both_are_known():
    then = {"threshold": None, "model": "a"}
    assert differing_options({"threshold": 0.5, "model": "a"}, then) == [
        "threshold 0.5 of the clusterer differs from threshold None at calibration"
    ]
    for now in (None, {}, {"model": "a", "strict": False}, {"threshold": None}):
        assert differing_options(now, then) == []
    assert differing_options(then, None) == []
