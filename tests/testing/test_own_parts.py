import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import ModelAgent
from coe_agents.agents import ChatEntailment
from coe_agents.backends import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment, EmbeddingSimilarity, NormalizedMatch
from coe_agents.testing import ScriptedAgent, TableEntailment
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder
from tests.contracts import AgentContract, ClustererContract, EntailmentModelContract, FailingAgentContract
from tests.doubles import CountingModel, JudgingModel

MODEL = str(model_folder(ENTAILMENT_MODEL))


def names(text):
    return {city for city in ("Paris", "Lyon", "Marseille") if city.casefold() in text.casefold()}


def verdict(premise, hypothesis):
    return "entailment" if names(premise) == names(hypothesis) != set() else "contradiction"


class CityEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return [[float(city in names(text)) for city in ("Paris", "Lyon", "Marseille")] + [0.01] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class TestTableEntailment(EntailmentModelContract):
    def create_model(self):
        table = dict.fromkeys(self.entailed, "entailment") | dict.fromkeys(self.not_entailed, "contradiction")
        return TableEntailment(table)


class TestTransformersEntailment(EntailmentModelContract):
    def create_model(self):
        return TransformersEntailment(MODEL)


class TestChatEntailment(EntailmentModelContract):
    def create_model(self):
        return ChatEntailment(JudgingModel(verdict))


class TestNormalizedMatch(ClustererContract):
    def create_clusterer(self):
        return NormalizedMatch()


class TestBidirectionalEntailmentByTheLenientRule(ClustererContract):
    same = ("Paris", "It is Paris.")

    def create_clusterer(self):
        return BidirectionalEntailment(TableEntailment(verdict), strict=False)


class TestBidirectionalEntailmentOverTinyNLI(ClustererContract):
    same = ("Paris", "It is Paris.")

    def create_clusterer(self):
        return BidirectionalEntailment(TransformersEntailment(MODEL))


class TestEmbeddingSimilarity(ClustererContract):
    same = ("Paris", "It is Paris.")

    def create_clusterer(self):
        return EmbeddingSimilarity(CityEmbeddings(), threshold=0.9)


class TestScriptedAgent(AgentContract, FailingAgentContract):
    def create_agent(self):
        return ScriptedAgent("scripted", ["Paris", "Lyon"], ["Paris"])

    def create_failing_agent(self):
        return ScriptedAgent("scripted", ConnectionError("refused"))


@pytest.mark.parametrize("model", [CountingModel(), FakeListChatModel(responses=["Paris", "Lyon"])], scope="class")
class TestModelAgent(AgentContract):
    @pytest.fixture(autouse=True)
    def _model(self, model):
        self.model = model

    def create_agent(self):
        return ModelAgent("model", self.model, n_samples=3)


class TestFailingModelAgent(FailingAgentContract):
    def create_failing_agent(self):
        return ModelAgent("model", CountingModel(per_call=0), retries=0)
