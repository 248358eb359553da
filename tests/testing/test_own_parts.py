import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import ModelAgent
from coe_agents.agents import ChatEntailment
from coe_agents.backends import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment, EmbeddingSimilarity, NormalizedMatch
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.doubles import TableEntailment
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder
from tests.contracts import AgentContract, ClustererContract, EntailmentModelContract
from tests.doubles import CountingModel, JudgingModel

MODEL = str(model_folder(ENTAILMENT_MODEL))


def names(text):
    return {city for city in ("Paris", "Lyon", "Marseille") if city.casefold() in text.casefold()}


def verdict(premise, hypothesis):
    return "entailment" if names(premise) == names(hypothesis) != set() else "contradiction"


class CityEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return list(map(self.embed_query, texts))

    def embed_query(self, text):
        cities = names(text)
        return [float(city in cities) for city in ("Paris", "Lyon", "Marseille")] + [0.01]


TABLE = dict.fromkeys(EntailmentModelContract.entailed, "entailment")
TABLE |= dict.fromkeys(EntailmentModelContract.not_entailed, "contradiction")
SAME = ("Paris", "It is Paris.")


@pytest.mark.parametrize(
    "create",
    [
        lambda: TableEntailment(TABLE),
        lambda: TransformersEntailment(MODEL),
        lambda: ChatEntailment(JudgingModel(verdict)),
    ],
    ids=["table", "transformers", "chat"],
)
class TestEntailment(EntailmentModelContract):
    @pytest.fixture(autouse=True)
    def _created(self, create):
        self.create_model = create


@pytest.mark.parametrize(
    ("create", "same"),
    [
        (NormalizedMatch, ClustererContract.same),
        (lambda: BidirectionalEntailment(TableEntailment(verdict), strict=False), SAME),
        (lambda: BidirectionalEntailment(TransformersEntailment(MODEL)), SAME),
        (lambda: EmbeddingSimilarity(CityEmbeddings(), threshold=0.9), SAME),
    ],
    ids=["normalized", "lenient", "strict", "embeddings"],
)
class TestClusterers(ClustererContract):
    @pytest.fixture(autouse=True)
    def _created(self, create, same):
        self.create_clusterer, self.same = create, same


def scripted(*rounds):
    return lambda: ScriptedAgent("scripted", *rounds)


def asking(model, **options):
    return lambda: ModelAgent("model", model, n_samples=3, **options)


@pytest.mark.parametrize(
    ("create", "create_failing"),
    [
        (scripted(["Paris", "Lyon"], ["Paris"]), scripted(ConnectionError("refused"))),
        (asking(CountingModel()), asking(CountingModel(per_call=0), retries=0)),
        (
            asking(FakeListChatModel(responses=["Paris", "Lyon"])),
            asking(CountingModel(per_call=0), retries=0),
        ),
    ],
    ids=["scripted", "model", "one response a call"],
)
class TestAgents(AgentContract):
    @pytest.fixture(autouse=True)
    def _created(self, create, create_failing):
        self.create_agent, self.create_failing_agent = create, create_failing
