import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# before torch is imported: on two busy cores one thread is several times faster than two
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
os.environ["LANGSMITH_TRACING"] = "false"

# how long an example takes depends on who shares the machine
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make mutation` runs each test thousands of times, and must find the same on each run
settings.register_profile(
    "mutation", settings.get_profile("unhurried"), max_examples=15, derandomize=True, database=None
)
settings.register_profile(
    "quick", settings.get_profile("unhurried"), max_examples=25
)  # `make test`; .ci/run: 100
settings.register_profile(
    "soak", settings.get_profile("unhurried"), max_examples=2000
)  # `make soak`
settings.load_profile("unhurried")


if os.environ.get("COE_PLAIN") == "1":
    from tests import plain

    plain.install()

# they need an interpreter with inspect_ai, which the second runs the first by: see its first lines
collect_ignore = ["inspect_evaluations.py"]
if not os.environ.get("COE_INSPECT_PYTHON"):
    collect_ignore.append("test_inspect_approver.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that have slow tests, so that no worker is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Looks for doctests in the package alone: tests have none, and modules beside them need not be imported."""
    found = yield
    return [each for each in found if type(each) is pytest.Module]


def build_commands_once(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keeps what typer makes of an application, as long as it has the same commands."""
    built: dict[tuple[Any, ...], Any] = {}

    def get(app: Any) -> Any:
        key = (app, *app.registered_commands)
        if key not in built:
            built[key] = build(app)
        return built[key]

    return get


MADE_ONCE = (
    # with LANGGRAPH_STRICT_MSGPACK each graph that is compiled reads the type hints of all of its state
    ("langgraph._internal._serde", "_safe_get_type_hints", cache),
    # each client would read the certificates of all authorities, and no test speaks with the world
    ("httpcore2", "default_ssl_context", cache),
    ("httpx._transports.default", "create_ssl_context", cache),
    # each call of the command in this process would build all commands, with their options, anew
    ("typer.main", "get_command", build_commands_once),
    ("typer.testing", "_get_command", build_commands_once),
)
"""What takes a noticeable part of the tests' time, and is always the same."""


def pytest_collection_finish() -> None:
    """Collects garbage rarely: visiting all that was imported, again and again, takes a seventh of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    for module, name, once in MADE_ONCE:
        made = getattr(sys.modules.get(module), name, None)
        if made is not None:
            setattr(sys.modules[module], name, once(made))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A skipped test is a failed one where all that tests need is said to be there; an expected failure is not."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and os.environ.get("COE_REQUIRE_ALL_DEPS") == "1"
    ):
        report.outcome = "failed"
        report.longrepr = f"COE_REQUIRE_ALL_DEPS=1 lets no test be skipped: {report.longrepr[-1]}"
    return report


@pytest.fixture(scope="module")
def pipe():
    """The pipe to a browser of the module's own."""
    from tests.chromium import running_chromium

    with running_chromium() as pipe:
        yield pipe


@pytest.fixture
def local_models():
    """Skips the test where no model can run in this process: the lowest versions are tested without torch."""
    pytest.importorskip("transformers")
