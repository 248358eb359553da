import pytest

from coe_agents.rounds import Diversify
from tests.rounds.contexts import context

QUESTION = "Who wrote {x}, and when?"  # braces are only text


def test_the_wordings_take_turns_and_all_agents_get_the_same():
    diversify = Diversify(variants=["{question} Be brief.", "Think. {question}"])
    plans = [diversify(context(question=QUESTION, round=number)) for number in (1, 2, 3)]
    texts = [[overrides["messages"][-1]["content"] for overrides in plan.overrides.values()] for plan in plans]
    brief, think = f"{QUESTION} Be brief.", f"Think. {QUESTION}"
    assert texts == [[brief, brief], [think, think], [brief, brief]]
    assert not any(plan.replaces or plan.shows_answers for plan in plans)


def test_a_temperature_alone_leaves_the_question_as_it_is():
    assert Diversify(temperature=1.5, variants=())(context()).overrides == {name: {"temperature": 1.5} for name in "ab"}


@pytest.mark.parametrize("options", [{"temperature": -1}, {"temperature": float("nan")}, {"variants": ["Be brief."]}])
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ValueError, match="of Diversify must"):
        Diversify(**options)
