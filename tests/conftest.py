import os
from collections.abc import Iterator

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
settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A skipped test is a failed one where all that tests need is said to be there."""
    report = yield
    if report.skipped and os.environ.get("COE_REQUIRE_ALL_DEPS") == "1":
        report.outcome = "failed"
        report.longrepr = f"COE_REQUIRE_ALL_DEPS=1 lets no test be skipped: {report.longrepr[-1]}"
    return report
