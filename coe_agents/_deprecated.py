"""Owns the names of an earlier release: an old name works for one release, with a DeprecationWarning."""

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "coe_agents.evaluation.estimators": "coe_agents.evaluation.scoring.estimators",
    "coe_agents.evaluation.page": "coe_agents.evaluation.html",
}
"""Old and new modules; those inside moved with them."""

NAMES = {
    "coe_agents.distributed": {"Scorer": "coe_agents.evaluation.ScoringSetup"},
    "coe_agents.evaluation": {
        "judged": "coe_agents.evaluation.judge_samples",
        "measured": "coe_agents.evaluation.iter_statistics",
    },
    "coe_agents.experiments": {"Setting": "coe_agents.evaluation.ScoringSetup"},
    "coe_agents.prompts": {"clarified": "coe_agents.prompts.clarify", "quoted": "coe_agents.text.for_prompt"},
    "coe_agents.rounds": {"checked_plan": "coe_agents.rounds.check_plan", "rephrased": "coe_agents.rounds.rephrase"},
    "coe_agents.middleware": {
        "ApprovalReply": "langchain.agents.middleware.human_in_the_loop.HITLResponse",
        "ApprovalRequest": "langchain.agents.middleware.human_in_the_loop.HITLRequest",
    },
}
"""By module, the old name of a thing and where it is now."""


def find_renamed(module: str, name: str) -> Any:
    """Returns what a module called `name` before; as the module's `__getattr__`."""
    new = NAMES.get(module, {}).get(name)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn(f"{module}.{name}", new, stacklevel=4)
    place, _, own = new.rpartition(".")
    return getattr(import_module(place), own)


def install() -> None:
    """Lets old modules be imported by their old paths."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        # first, or a module inside a moved package would be found in its folder, and loaded a second time
        sys.meta_path.insert(0, _MovedModules())


class _MovedModules:
    """Finds a module under its old path; under both paths it is one module."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        for old, new in MODULES.items():
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, self, loader_state=new + fullname.removeprefix(old))  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to the import system, which has an empty module until the code ran."""

    def exec_module(self, module: ModuleType) -> None:
        new: str = module.__spec__.loader_state  # type: ignore[union-attr]
        warn(module.__name__, new, stacklevel=3)
        sys.modules[module.__name__] = import_module(new)


def warn(old: str, new: str, *, stacklevel: int) -> None:
    """Warns that `old` is called `new` now."""
    warnings.warn(f'"{old}" is now "{new}"; the old name is removed in 0.3', DeprecationWarning, stacklevel=stacklevel)
