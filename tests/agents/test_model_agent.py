import itertools
import traceback
from functools import partial

import pytest
from langchain_core.messages import SystemMessage
from langgraph.errors import GraphInterrupt

from coe_agents import ModelAgent
from coe_agents.agents.requests import chat_models
from coe_agents.errors import AgentConnectionError, ModelLoadError
from tests.doubles import REQUEST, CountingModel


def test_places_and_seeds_are_the_same_in_one_request_and_in_one_each():
    seeds = []
    for per_call in (100, 1):
        model = CountingModel(per_call=per_call)
        reply = ModelAgent("a", model, n_samples=5, seed=1).sample(REQUEST)
        assert [response["index"] for response in reply["responses"]] == [0, 1, 2, 3, 4]
        asked = [
            call["seed"] + i for call in model.calls for i in range(min(call.get("n", 1), per_call))
        ]
        seeds.append(list(dict.fromkeys(asked)))  # a probe for several is not used where one comes
    assert seeds[0] == seeds[1]
    assert len(seeds[0]) == 5


def test_seeds_differ_by_agent_question_and_round_and_are_spaced():
    seeds = set()
    for name, question, round_ in itertools.product("ab", ("Q?", "R?"), (0, 1)):
        model = CountingModel()
        messages = [{"role": "user", "content": question}]
        ModelAgent(name, model, n_samples=2, seed=1).sample(
            {**REQUEST, "messages": messages, "round": round_}
        )
        seeds.add(model.calls[0]["seed"])
    assert len(seeds) == 8
    assert all(seed % 1024 == 0 for seed in seeds)


def test_samples_that_came_before_a_failure_are_kept(caplog):
    reply = ModelAgent("a", CountingModel(per_call=2, fails_at=3), n_samples=5, retries=0).sample(
        REQUEST
    )
    assert len(reply["responses"]) == 4
    assert reply["usage"]["output_tokens"] == 4
    assert 'agent "a" gave 4 of 5 samples: ' in caplog.text
    assert reply["sampling"]["n_received"] == 4
    assert reply["sampling"]["n_requested"] == 5
    assert reply["sampling"]["error"].startswith("AgentConnectionError")
    with pytest.raises(AgentConnectionError, match="lost") as caught:
        ModelAgent("a", CountingModel(fails_at=1), n_samples=5, retries=0).sample(REQUEST)
    assert isinstance(caught.value.__cause__, ConnectionError)


async def test_a_request_is_bounded_and_at_temperature_0_one_response_says_it_all():
    model = CountingModel(per_call=1_000)
    agent = ModelAgent("a", model, n_samples=2)
    assert len((await agent.asample({**REQUEST, "n_samples": 501}))["responses"]) == 500
    assert len(agent.sample({**REQUEST, "n_samples": 9, "temperature": 0})["responses"]) == 1
    with pytest.raises(
        ValueError,
        match='"n_samples" of the request to ModelAgent must be an integer of at least 1',
    ):
        agent.sample({**REQUEST, "n_samples": 0})


@pytest.mark.parametrize(("own", "asked"), [(60, 0.001), (None, 0.001), (0.001, 60)])
def test_the_shorter_time_counts_and_the_error_says_whose_it_is(own, asked):
    deadline = ModelAgent("a", CountingModel(), timeout=own)._deadline(
        {**REQUEST, "timeout": asked}
    )
    assert deadline.seconds == 0.001
    assert deadline.setting == (
        "`timeout` of the agent" if own == 0.001 else "`deadline` of the graph"
    )


def test_there_is_one_system_message():
    model = CountingModel()
    turns = [{"role": "system", "content": "You know Europe."}, *REQUEST["messages"]]
    ModelAgent("a", model, system_prompt="Be brief.").sample({**REQUEST, "messages": turns})
    assert [m.type for m in model.calls[0]["messages"]] == ["system", "human"]
    assert model.calls[0]["messages"][0].content == "Be brief.\n\nYou know Europe."
    ModelAgent("a", model, system_prompt="Be brief.").sample(REQUEST)
    assert model.calls[1]["messages"][0] == SystemMessage("Be brief.")


def test_a_model_is_made_at_the_first_use_and_one_that_cannot_be_made_does_not_tell_its_key(
    monkeypatch,
):
    agent = ModelAgent("a", "mistralai:model")
    with pytest.raises(ImportError, match="mistralai"):
        agent.sample(REQUEST)
    monkeypatch.setattr(
        chat_models, "load_model", partial(chat_models.load_model, api_key="sk-0123456789", n=0)
    )
    agent = ModelAgent("a", "openai:m")
    with pytest.raises(
        ValueError, match="the model cannot be made; the model: n must be"
    ) as caught:
        agent.sample(REQUEST)
    assert "sk-0" not in "".join(
        traceback.format_exception(caught.value)
    )  # pydantic would quote its beginning


@pytest.mark.parametrize("raised", [ModelLoadError("no folder", hint="Get it"), GraphInterrupt(())])
async def test_errors_of_our_own_and_langgraphs_signals_pass_through(raised):
    class Raising(CountingModel):
        def _generate(self, *args, **options):
            raise raised

    with pytest.raises(type(raised)) as caught:
        ModelAgent("a", Raising()).sample(REQUEST)
    assert caught.value is raised
    with pytest.raises(type(raised)):
        await ModelAgent("a", Raising()).asample(REQUEST)


def test_text_lengths_ends_and_emptiness_are_counted():
    class Odd(CountingModel):
        def _generate(self, *args, **options):
            result = super()._generate(*args, **options)
            result.generations[0].message.content = "x" * 30
            result.generations[1].message.content = "  "
            result.generations[2].generation_info = {"finish_reason": "length"}
            return result

    reply = ModelAgent("a", Odd(), n_samples=4, max_response_chars=20).sample(REQUEST)
    sampling = reply["sampling"]
    assert {
        sampling[count] for count in ("n_cut", "n_empty", "n_truncated", "logprobs_missing")
    } == {1}
    assert reply["responses"][0]["text"].startswith("x" * 20 + "… [cut from 30 characters, ")


@pytest.mark.parametrize(
    "options", [{"temperature": 0}, {"n_samples": 0}, {"retries": -1}, {"weight": float("nan")}]
)
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ValueError, match="ModelAgent"):
        ModelAgent("a", CountingModel(), **options)
    with pytest.raises(ValueError, match="must not be empty"):
        ModelAgent(" ", CountingModel())
    for model in (object(), CountingModel().bind(stop=["x"])):
        with pytest.raises(TypeError, match="must be a chat model"):
            ModelAgent("a", model)
