import math

import pytest
from langchain_core.outputs import Generation

from coe_agents.agents.choice.probability import read_choice, read_first_token

TRUTH = ("True", "False")


def listed(top, drawn=None):
    """A generation whose first token was drawn from these, token by probability."""
    entries = [{"token": token, "logprob": math.log(p) if p else -9999.0} for token, p in top.items()]
    first = {"token": drawn[0], "logprob": math.log(drawn[1])} if drawn else entries[0]
    return Generation(text="", generation_info={"logprobs": {"content": [{**first, "top_logprobs": entries}]}})


def test_tokens_count_for_the_choice_that_they_begin_in_any_case_but_case_counts_first():
    top = {"True": 0.4, " True": 0.1, "▁true": 0.05, "Fal": 0.2, "false.": 0.1, "Perhaps": 0.05, "": 0.02}
    top |= {"Truely": 0.03, "Untrue": 0.02, " ": 0.01}
    found = read_first_token(listed(top), TRUTH)
    # True: 0.4 + 0.1 + 0.05; False: 0.2 + 0.1; the rest begins none
    assert found.seen == pytest.approx({"True": 0.55, "False": 0.3})
    assert found.ambiguous == 0
    assert found.probabilities(TRUTH) == pytest.approx({"True": 0.55 / 0.85, "False": 0.3 / 0.85})
    # "no" is the beginning of "north" as written; only "No" is that of "Noon", and "NO" of both
    found = read_first_token(listed({"no": 0.5, "No": 0.3, "NO": 0.2}), ("north", "Noon"))
    assert found.seen == pytest.approx({"north": 0.5, "Noon": 0.3})
    assert found.ambiguous == pytest.approx(0.2)


def test_a_choice_that_is_not_seen_gets_the_most_that_it_can_have_and_what_is_open_is_not_settled():
    # the least listed is 0.004, and 1 - 0.9 - 0.09 - 0.004 = 0.006 is left: at most 0.004
    found = read_first_token(listed({"True": 0.9, "Maybe": 0.09, "Well": 0.004}), TRUTH)
    assert found.unlisted == pytest.approx(0.004)
    assert found.is_settled(TRUTH)  # 0.004 is under 1 % of 0.9
    assert found.probabilities(TRUTH)["False"] == pytest.approx(0.004 / 0.904)
    # 1 - 0.9 - 0.0999 = 0.0001 is left, less than the least listed
    assert read_first_token(listed({"True": 0.9, "Maybe": 0.0999}), TRUTH).unlisted == pytest.approx(0.0001)
    assert not read_first_token(listed({"True": 0.5, "Maybe": 0.3}), TRUTH).is_settled(TRUTH)  # False: up to 0.2
    assert not read_first_token(listed({"Maybe": 0.9, "Well": 0.1}), TRUTH).is_settled(TRUTH)  # neither
    options = ("Option A", "Option B")
    assert not read_first_token(listed({"Option": 1.0}), options).is_settled(options)  # both begin so


def test_the_drawn_token_counts_where_it_is_not_among_the_likeliest():
    found = read_first_token(listed({"True": 0.6, "Maybe": 0.3}, drawn=("False", 0.05)), TRUTH)
    assert found.seen == pytest.approx({"True": 0.6, "False": 0.05})
    within = read_first_token(listed({"True": 0.6, "False": 0.3}, drawn=("False", 0.3)), TRUTH)
    assert within.seen == pytest.approx({"True": 0.6, "False": 0.3})  # once


@pytest.mark.parametrize(
    "info",
    [
        None,
        {"logprobs": None},
        {"logprobs": {"content": [{"token": "True", "logprob": 0.0, "top_logprobs": []}]}},
        {"logprobs": {"content": [{"top_logprobs": [{"token": "True", "logprob": math.nan}]}]}},
        {"logprobs": {"content": [{"top_logprobs": [{"token": "True", "logprob": None}]}]}},
    ],
)
def test_no_list_or_a_broken_one_says_nothing(info):
    assert read_first_token(Generation(text="True", generation_info=info), TRUTH) is None


def test_a_reply_is_read_only_where_it_states_one_choice():
    for reply in ("True", '"True", because it is the capital', "<think>It may be false.</think>True"):
        assert read_choice(reply, TRUTH) == "True"
    for reply in ("", "True or False?", "That is not true.", "True believers think so.", "true-ish"):
        assert read_choice(reply, TRUTH) is None, reply
