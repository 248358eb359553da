"""What a folder of an experiment tells apart: whoever resumes with other agents than began is refused."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import Arbiter, Debate, ModelAgent, ThresholdPolicy, create_coe_graph, run, sample
from coe_agents.actions import ActionMatch, Exact, Text
from coe_agents.agents import ChatEntailment
from coe_agents.agents.judge import ChatJudge
from coe_agents.errors import ConfigurationError
from coe_agents.experiments.fingerprint import fingerprint
from coe_agents.testing import ScriptedAgent
from tests.faults import KEY
from tests.servers import answering, completion

SILENT: dict[str, Any] = {"progress": False}
CAPITAL = {"question": "Capital of France?", "references": ["Paris"]}


@pytest.mark.parametrize("experiment", [sample, run])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_tokens": 30}, "an option of their chat models"),
        ({"model_kwargs": {"user": "b"}}, "an option of their chat models"),
        ({"model": "gpt-5"}, r"agents\[0\]\.model: 'gpt-5-mini' there, 'gpt-5' here"),
    ],
)
def test_another_option_of_a_chat_model_is_refused(tmp_path, experiment, change, named):
    with answering(lambda body: completion("Paris", "Paris")) as server:

        def group(**options):
            options = {"model": "gpt-5-mini", "api_key": KEY, "max_tokens": 20, **options}
            model = ChatOpenAI(base_url=server.url, **options)
            return [ModelAgent("a", model, n_samples=2, temperature=0.7, on_greedy="trust")]

        experiment(group(), [CAPITAL], out=tmp_path, **SILENT)
        another_key = group(api_key=f"{KEY}-of-tomorrow")
        experiment(another_key, [CAPITAL], out=tmp_path, **SILENT)
        with pytest.raises(ConfigurationError, match=named):
            experiment(group(**change), [CAPITAL], out=tmp_path, **SILENT)


def with_strategy(strategy):
    return create_coe_graph(
        [ScriptedAgent("a", ["Paris"])],
        policy=ThresholdPolicy(0.5),
        strategies={"conflict": strategy},
    ).compile()


def chat_model(max_tokens):
    return ChatOpenAI(model="gpt-5", api_key=KEY, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("create", "one", "another"),
    [
        (lambda compare: ActionMatch(compare=compare), {"pay.to": Text()}, {"pay.to": Exact()}),
        (lambda text: ActionMatch(text=text), "exact", "loose"),
        (lambda most: Arbiter(chat_model(most)), 20, 30),
        (lambda most: ChatEntailment(chat_model(most)), 20, 30),
        (lambda most: ChatJudge(chat_model(most)), 20, 30),
        (lambda most: ModelAgent("a", chat_model(most)), 20, 30),
        (with_strategy, Debate(most=8), Debate(most=9)),
        (with_strategy, "debate", "resample"),
    ],
)
def test_another_argument_is_another_graph(create, one, another):
    assert fingerprint(create(one)) == fingerprint(create(one))
    assert fingerprint(create(one)) != fingerprint(create(another))


@pytest.mark.parametrize("name", ["default_headers", "model_kwargs"])
def test_a_rotated_key_in_a_header_is_no_other_model(name):
    def model(key, user):
        return ChatOpenAI(model="gpt-5", api_key=KEY, **{name: {"X-Api-Key": key, "user": user}})

    assert fingerprint(model("sk-0123456789", "a")) == fingerprint(model("sk-9876543210", "a"))
    assert fingerprint(model("sk-0123456789", "a")) != fingerprint(model("sk-0123456789", "b"))
