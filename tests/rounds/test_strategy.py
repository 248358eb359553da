import pytest

from coe_agents.rounds import Debate, Resample, RoundPlan
from coe_agents.rounds.strategies import Strategies
from coe_agents.rounds.strategy import check_plan
from tests.rounds.contexts import context

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def test_a_rephrased_conversation_keeps_all_but_the_last_question_and_its_pictures():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Capital of France?"},
        {"role": "assistant", "content": "Paris"},
        {"role": "user", "content": "And of Germany?"},
    ]
    asked = context(messages=messages)
    assert asked.rephrase("New?") == [*messages[:3], {"role": "user", "content": "New?"}]
    assert messages[3]["content"] == "And of Germany?"  # untouched
    content = [{"type": "text", "text": "What is this?"}, PICTURE]
    asked = context(messages=[{"role": "user", "content": content}])
    assert asked.rephrase("New?")[0]["content"] == [PICTURE, {"type": "text", "text": "New?"}]
    assert (
        context(messages=[{"role": "user", "content": content[:1]}]).rephrase("New?")[0]["content"]
        == "New?"
    )
    # the last text of the user is the question, whatever follows
    messages = [
        {"role": "user", "content": "Q?"},
        {"role": "user", "content": [PICTURE]},
        {"role": "assistant"},
    ]
    assert context(messages=messages).rephrase("New?") == [
        {"role": "user", "content": "New?"},
        *messages[1:],
    ]
    assert context(messages=[]).rephrase("New?") == [{"role": "user", "content": "New?"}]


def test_nonsense_is_a_type_error_that_names_the_strategy():
    for plan, message in (
        (None, "must return a RoundPlan with overrides by agent; got NoneType"),
        (RoundPlan(["a"]), "overrides by agent"),
        (RoundPlan({}), "asks some of a, b; got no agent"),
        (RoundPlan({"z": {}}), "asks some of a, b; got 'z'"),
        (RoundPlan({"a": None}), '"a" overrides among'),
        (RoundPlan({"a": {"n": 1}}), '"a" overrides among messages, n_samples, temperature'),
        (RoundPlan({"a": {"n_samples": 501}}), r'whole "n_samples" in 1\.\.500; got 501'),
        (RoundPlan({"a": {"temperature": float("nan")}}), '"temperature" of at least 0'),
        (RoundPlan({"a": {"messages": ["Q?"]}}), '"messages" with "role" and "content"'),
    ):
        with pytest.raises(TypeError, match=f'the strategy "mine" .*{message}'):
            check_plan(plan, strategy="mine", agents=["a", "b"])


def test_strategies_are_chosen_by_regime_unless_one_is_wanted():
    def mine(asked):
        return RoundPlan({})

    default = Strategies()
    chosen = {
        regime: default.of(regime)[0]
        for regime in ("consensus", "ambiguous", "conflict", "unknown")
    }
    assert chosen == {
        "consensus": "resample",
        "ambiguous": "resample",
        "conflict": "debate",
        "unknown": "debate",
    }
    assert {Strategies(mine).of(regime) for regime in chosen} == {("mine", mine)}
    assert {Strategies("debate").of(regime)[0] for regime in chosen} == {"debate"}
    own = Strategies({"conflict": mine})
    assert own.of("conflict") == ("mine", mine)
    assert own.of("unknown", wanted="mine") == ("mine", mine)
    assert own.of("unknown", wanted="resample")[0] == "resample"
    with pytest.raises(ValueError, match="got 'mine'"):
        default.of("conflict", wanted="mine")


def test_options_that_cannot_work_are_refused():
    for create, options, message in (
        (Resample, {"growth": 0.5}, '"growth" of Resample must'),
        (Resample, {"growth": float("inf")}, '"growth" of Resample must'),
        (Resample, {"most": 501}, '"most" of Resample must'),
        (
            Debate,
            {"prompt": "{question}"},
            r'"prompt" of Debate must contain \{question\} and \{answers\}; got',
        ),
        (Debate, {"prompt": "{answers}"}, '"prompt" of Debate must contain'),
        (
            Strategies,
            {"strategies": {"conflict": "argue"}},
            "must be one of resample, debate, clarify; got 'argue'",
        ),
        (Strategies, {"strategies": {"panic": "debate"}}, "got 'panic'"),
        (Strategies, {"strategies": {"conflict": 3}}, "a name or a callable; got int"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            create(**options)
