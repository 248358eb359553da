from dataclasses import replace

import pytest

from coe_agents import ModelAgent, NormalizedMatch, ask, create_coe_graph, sentences, short_answers
from coe_agents.backends import ChatTransformers
from coe_agents.graph import GraphOptions
from coe_agents.policy.guarantee import differences
from coe_agents.presets import agents_of
from coe_agents.prompts import ANSWER_ALONE
from coe_agents.testing import ScriptedAgent
from coe_agents.tinyworld import model_folder
from tests.doubles import CountingModel
from tests.policy.test_calibrated import CALIBRATION
from tests.policy.test_guarantee import SAME

PARIS = ["Paris", "It is Paris.", "paris.", "The answer is Paris."]


def graph(*agents, **arguments):
    return create_coe_graph(agents, **arguments).compile()


def prompts(model):
    return [[message.text for message in call["messages"]] for call in model.calls]


def test_the_instruction_is_added_to_an_agents_own_prompt_where_words_are_asked_for():
    model = CountingModel()
    asked = graph(
        ModelAgent("a", model, n_samples=1, system_prompt="Be kind."), answers=short_answers()
    )
    asked.invoke({"question": "Capital of France?"})
    assert prompts(model)[-1] == [f"Be kind.\n\n{ANSWER_ALONE}", "Capital of France?"]
    decision = asked.invoke({"question": "Is it Paris?", "choices": ["yes", "no"]})["decision"]
    assert prompts(model)[-1] == ["Be kind.", "Is it Paris?"]
    assert decision["answers"] is None


@pytest.mark.parametrize(
    ("instruction", "sent"), [(None, [ANSWER_ALONE]), ("", []), ("One word.", ["One word."])]
)
def test_another_instruction_is_sent_or_none_and_a_calibration_notices_it(instruction, sent):
    model = CountingModel()
    answers = short_answers(instruction=instruction)
    graph(ModelAgent("a", model, n_samples=1), answers=answers).invoke(
        {"question": "Capital of France?"}
    )
    assert prompts(model) == [[*sent, "Capital of France?"]]
    group = replace(SAME, answers=answers.recorded)
    noticed = (
        []
        if instruction is None
        else [f"the preset of answers, {answers.recorded}, differs from short at calib"]
    )
    assert [
        each[:-6] for each in differences(replace(CALIBRATION, answers="short"), group)
    ] == noticed


def test_a_preset_comes_with_its_clusterer():
    with pytest.raises(TypeError, match='"answers" comes with its own "clusterer"'):
        graph(ScriptedAgent("a", PARIS), answers=short_answers(), clusterer=NormalizedMatch())
    with pytest.raises(TypeError, match='"answers" comes with its own "canonicalize"'):
        graph(ScriptedAgent("a", PARIS), options=GraphOptions(canonicalize=None))
    with pytest.raises(TypeError, match='"judge" of sentences must have the method "predict"'):
        sentences(object())
    assert sentences("openai:gpt-5-mini").clusterer.model.model == "openai:gpt-5-mini"
    with pytest.raises(TypeError, match='a chat model, or "provider:model"'):
        sentences("microsoft/deberta-large-mnli")


def test_sentences_that_are_compared_word_for_word_are_said_to_be():
    said = ["Paris is the capital.", "The capital is called Paris.", "It would be Paris, surely."]
    decision = ask(
        "Capital of France?", [ScriptedAgent("a", said[:2]), ScriptedAgent("b", said[2:])]
    )
    assert decision.action == "abstain"
    assert "use --answers sentences, answers=sentences(judge) in Python, or " in decision.reason
    decision = ask(
        "Capital of France?", [ScriptedAgent("a", ["Paris", "Lyon"]), ScriptedAgent("b", ["Metz"])]
    )
    assert "sentences(judge)" not in decision.reason


def test_models_of_tinyworld_are_told_what_works_there_and_not_to_judge():
    class Tiny(ScriptedAgent):
        is_of_tinyworld = True

    folder = str(model_folder("tiny-llama"))
    for model in ("tinyworld:tiny-llama", ChatTransformers(folder)):
        assert ModelAgent("a", model).is_of_tinyworld
    for model in ("openai:gpt-5-mini", f"transformers:{folder}-of-mine"):
        assert not ModelAgent("a", model).is_of_tinyworld

    said = ["Paris is the capital.", "The capital is called Paris.", "It would be Paris, surely."]
    alike = [Tiny("a", said[:2]), Tiny("b", said[2:])]
    decision = ask("Capital of France?", alike)
    assert "clusterer=tinyworld_clusterer() in Python" in decision.reason
    assert "sentences(judge)" not in decision.reason
    mixed = [Tiny("a", said[:2]), ScriptedAgent("b", said[2:])]
    decision = ask("Capital of France?", mixed)
    assert "sentences(judge)" in decision.reason


def test_a_model_that_is_named_twice_is_said_to_be_one():
    once = ["tinyworld:tiny-llama", "tinyworld:tiny-qwen2"]
    assert len(agents_of(once, where="here")) == 2
    said = "tinyworld:tiny-llama is named more than once: that is one model"
    with pytest.warns(UserWarning, match=said):
        agents = agents_of([*once, once[0]], where="here")
    assert [agent.name for agent in agents] == ["tiny-llama", "tiny-qwen2", "tiny-llama-2"]
