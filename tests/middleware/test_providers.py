"""Votes of one provider are not independent: a council may require several."""

import pytest

from coe_agents import CoECouncil, ModelAgent
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import THREAD, agent
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, says
from tests.middleware.council import AGREE, members

ANN_PAID = [("Ann", 1)]


class Served(ScriptedDriver):
    """A chat model whose class says who provides it."""

    provider: str
    name_of_model: str

    def _get_ls_params(self, stop=None, **options):
        return {"ls_provider": self.provider, "ls_model_name": self.name_of_model}


def served(place, provider, args=ANN):
    """A member whose model is of this provider, and proposes this payment."""
    model = Served(
        script=lambda messages: says(call(**args)), provider=provider, name_of_model=f"m{place}"
    )
    return ModelAgent(f"member{place}", model, n_samples=1, temperature=0.0, retries=0)


def group(*providers):
    return [served(place, provider) for place, provider in enumerate(providers)]


def run(bank, agents, **options):
    """The decision on a payment to Ann."""
    council = CoECouncil(agents, tools=["transfer_money"], **options)
    paying_ann = agent(None, bank, says(call(**ANN)), DONE, middleware=[council])
    state = paying_ann.invoke(PAY, THREAD)
    return state["council"]


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(("providers", "n_asked"), [("xxy", 3), ("xyy", 2), ("xyz", 2)])
def test_votes_of_two_providers_let_a_call_run(providers, n_asked, adaptive, bank):
    decision = run(bank, group(*providers), min_providers=2, adaptive=adaptive)
    assert bank.transfers == ANN_PAID
    assert decision["n_asked"] == (n_asked if adaptive else 3)


@pytest.mark.parametrize(
    ("mode", "adaptive"), [("verify", False), ("verify", True), ("choose", False)]
)
def test_votes_of_one_provider_do_not(mode, adaptive, bank):
    agreeing = [served(0, "x"), served(1, "x")]
    agents = [*agreeing, served(2, "y", BOB)]
    decision = run(bank, agents, min_providers=2, mode=mode, adaptive=adaptive)
    assert bank.transfers == []
    assert decision["cause"] == "providers"
    assert "1 provider" in decision["reason"]


def test_a_call_that_lacks_votes_is_not_withheld_for_its_providers(bank):
    dissenting = [served(place, "x", BOB) for place in range(3)]
    agents = [*dissenting, served(3, "y")]
    decision = run(bank, agents, min_providers=2)
    assert bank.transfers == []
    assert decision["cause"] == "votes"


def test_a_member_without_weight_brings_no_provider(bank):
    idle = served(1, "y")
    idle.weight = 0.0
    with pytest.raises(ValueError, match='"min_providers" of CoECouncil'):
        CoECouncil([served(0, "x"), idle], min_providers=2)
    agents = [served(0, "x"), idle, served(2, "z", BOB)]
    decision = run(bank, agents, min_providers=2, min_votes=1)
    assert bank.transfers == []
    assert decision["cause"] == "providers"


def test_members_whose_provider_is_not_known_count_as_one(bank):
    unknown = members(AGREE, AGREE)
    agents = [*unknown, served(2, "y", BOB)]
    decision = run(bank, agents, min_providers=2)
    assert decision["cause"] == "providers"
