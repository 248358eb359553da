"""Owns what people rule: the recording of cases, their rulings, and a threshold chosen again on them.

A graph that was built with `on_decision=Recording()` writes a case under the namespace `("coe_agents", "rulings")` of
the store of its `compile(store=...)`: each escalation, with the ruling if a person settled it in the run, and, with an
`audit_rate`, a random share of the group's own answers, on which people rule afterwards. A case holds the question, the
conversation and all responses, so that it can be judged, and used for calibration. That is text of your users: whoever
can read the store can read it. Nothing is recorded unless you ask for it.

`pending_cases` lists the cases that wait for a ruling, `rule` records one, and `coe-agents harvest` writes the ruled
ones as samples. Only audits say something about the risk of what was answered: escalated cases are the harder ones.
"""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.rulings.recorded import pending_cases, rule
    from coe_agents.rulings.recording import Recording
else:
    __getattr__, __dir__ = on_first_use(
        __name__, {"recorded": ("pending_cases", "rule"), "recording": ("Recording",)}
    )

__all__ = ["Recording", "pending_cases", "rule"]
