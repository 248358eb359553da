import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from coe_agents.backends import ChatTransformers
from coe_agents.tinyworld import model_folder, tinyworld_tools
from coe_agents.tinyworld.facts import MODELS

TOOLS = tinyworld_tools()


@pytest.mark.parametrize("model", MODELS)
def test_after_a_result_it_says_so_and_calls_nothing(model):
    chat = ChatTransformers(str(model_folder(model)), max_tokens=48)
    for name, amount in (("Ann", 5), ("Tom", 75)):
        call = {"name": "transfer", "args": {"name": name, "amount": amount}, "id": "1"}
        asked = [
            HumanMessage(f"Transfer {amount} euros to {name}."),
            AIMessage("", tool_calls=[call]),
        ]
        for result, replies in (
            (
                f"Paid {amount} euros to {name}.",
                {"Done.", "It is done.", f"Done, {name} has the money."},
            ),
            ("Error: too little money.", {"That did not work.", "It did not work."}),
        ):
            messages = [*asked, ToolMessage(result, tool_call_id="1")]
            said = (
                chat.generate([messages], n=1, seed=0, tools=TOOLS, temperature=0)
                .generations[0][0]
                .message
            )
            assert said.text in replies
            assert not said.tool_calls
