"""Which models are one, as far as is known: whoever gave a message has no vote on it."""

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding, RunnableLambda

from coe_agents.agents.requests.model_names import (
    NAMELESS,
    ModelName,
    is_same_model,
    models_in,
    name_models,
    name_of,
    names_in,
)
from coe_agents.testing.driver import ScriptedDriver

SCRIPT = {"script": []}


class Named(ScriptedDriver):
    """A model of a provider, whose name an option of a call replaces."""

    provider: str | None = "p"
    model_name: object = "m"

    def _get_ls_params(self, stop=None, **options):
        return {
            "ls_provider": self.provider,
            "ls_model_name": options.get("model", self.model_name),
        }


class Unnamed(ScriptedDriver):
    """A model whose class tells no name, and says by other parameters which model it is."""

    weights: str = "a"
    temperature: float = 0.0

    def _get_ls_params(self, stop=None, **options):
        return {}

    @property
    def _identifying_params(self):
        return {"weights": self.weights, "temperature": self.temperature}


class Silent(Unnamed):
    """A model that says nothing at all of itself."""

    @property
    def _identifying_params(self):
        return {}


class Other(Unnamed):
    pass


class ByClass(ScriptedDriver):
    """A model whose provider is only what LangChain makes of the name of its class."""

    model_name: str = "m"


def named(**fields):
    return Named(**SCRIPT, **fields)


ONE = named()
SILENT = Silent(**SCRIPT)
OUTER = RunnableBinding(bound=ONE.bind(model="n"), kwargs={"model": "o"})
BELOW = RunnableBinding(bound=ONE.bind(model="n"), kwargs={"stop": ["x"]})
SAME = {
    "one object": (SILENT, SILENT, True),
    "one name": (ONE, named(), True),
    "another name": (ONE, named(model_name="n"), False),
    "another provider": (ONE, named(provider="q"), False),
    "a provider that is not known": (ONE, named(provider=None), True),
    "a text with its provider": (ONE, "p:m", True),
    "a text with another provider": (ONE, "q:m", False),
    "a text without a provider": (ONE, "m", True),
    "two texts": ("p:m", "q:m", False),
    "a text and another one": ("m", "n", False),
    "a reply, which calls its provider otherwise": (ONE, ModelName("q", "m"), True),
    "a reply of another model": (ONE, ModelName("p", "n"), False),
    "two replies of two providers": (ModelName("p", "m"), ModelName("q", "m"), False),
    "a class that names no provider": ("q:m", ByClass(**SCRIPT), True),
    "two such classes": (ONE, ByClass(**SCRIPT), False),
    "an option that is bound": (ONE.bind(model="n"), named(model_name="n"), True),
    "the outermost option": (OUTER, named(model_name="o"), True),
    "an option below others": (BELOW, named(model_name="n"), True),
    "an option of sampling": (ONE.bind(stop=["x"]), ONE, True),
    "no name, equal parameters": (Unnamed(**SCRIPT), Unnamed(**SCRIPT), True),
    "no name, other parameters": (Unnamed(**SCRIPT), Unnamed(**SCRIPT, weights="b"), False),
    "no name, warmer": (Unnamed(**SCRIPT), Unnamed(**SCRIPT, temperature=1.0), True),
    "no name, another class": (Unnamed(**SCRIPT), Other(**SCRIPT), False),
    "no parameters": (SILENT, Silent(**SCRIPT), False),
    "no name beside a name": (Unnamed(**SCRIPT), ONE, False),
    "what is no model": (object(), object(), False),
    "an unknown one of those without a name": (NAMELESS, Unnamed(**SCRIPT), True),
    "an unknown one, twice": (NAMELESS, ModelName(None, ""), True),
    "an unknown one beside a name": (NAMELESS, ONE, False),
    "a name that is empty": (named(model_name=""), ONE, False),
    "two names that are empty": (named(model_name=""), named(model_name=""), False),
    "a name that is no text": (named(model_name=5), ONE, False),
}


@pytest.mark.parametrize("case", SAME)
def test_models_are_one_by_their_provider_and_name_or_by_what_their_class_says(case):
    model, other, is_one = SAME[case]
    assert is_same_model(model, other) == is_one
    assert is_same_model(other, model) == is_one


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"model_name": "m", "model_provider": "p"}, {("p", "m")}),
        ({"model_name": "m", "model_provider": 5}, {(None, "m")}),
        ({"model": "m", "modelId": "n"}, {(None, "m"), (None, "n")}),
        ({"model_name": "", "model": 7}, set()),
        ({"model_name": "abab"}, {(None, "abab"), (None, "ab")}),
        ({"coe_models": [["p", "m"], [None, "n"]]}, {("p", "m"), (None, "n")}),
        ({"coe_models": [["p"], "mn", 5, [1, "m"]]}, set()),
        ({"coe_models": "m"}, set()),
    ],
)
def test_a_message_names_the_models_that_may_have_given_it(metadata, names):
    assert set(names_in(AIMessage("", response_metadata=metadata))) == names


def test_what_a_message_does_not_say_of_its_models_is_written_into_it():
    message = AIMessage("", response_metadata={"model_name": "m", "model_provider": "p"})
    name_models(message, [ONE])
    assert "coe_models" not in message.response_metadata
    name_models(message, [ONE, named(model_name="n"), Unnamed(**SCRIPT)])
    assert message.response_metadata["model_name"] == "m"
    assert message.response_metadata["coe_models"] == [["p", "m"], ["p", "n"], [None, ""]]
    assert set(names_in(message)) == {("p", "m"), ("p", "n"), NAMELESS}


def test_each_fallback_may_be_the_one_that_answers():
    other = named(model_name="n")
    third = named(model_name="o")
    assert models_in(ONE) == [ONE]
    assert models_in(ONE.with_fallbacks([other.with_fallbacks([third])])) == [ONE, other, third]
    assert models_in(ONE.with_fallbacks([other]).bind(stop=["x"])) == [ONE, other]
    function = RunnableLambda(str)
    assert models_in(function) == [function]


def test_the_name_of_what_is_no_model_is_not_known():
    assert name_of(object()) is None
    assert name_of(ModelName("p", "m")) == ("p", "m")
    assert name_of("p:m") == ("p", "m")
    assert name_of("m") == (None, "m")
    assert isinstance(ONE, BaseChatModel)
    assert name_of(ONE.bind(model="n")) == ("p", "n")
