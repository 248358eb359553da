"""No effect that was not vouched for, whole, once: see `gate_machine`."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.middleware.gate_machine import KINDS, GateMachine


@pytest.mark.parametrize("kind", KINDS)
def test_every_effect_was_vouched_for(kind):
    class Machine(GateMachine):
        kinds = (kind,)

    run_state_machine_as_test(Machine, settings=settings(max_examples=5, stateful_step_count=15))
