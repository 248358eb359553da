"""What pytest collects of the package: modules with doctests, and none that would be imported for nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Omits a module without an example: to import it, and to look through it, takes seconds for all of them."""
    found = yield
    is_package = file_path.relative_to(Path(__file__).parent).parts[0] == "coe_agents"
    if is_package and ">>>" not in file_path.read_text(encoding="utf-8"):
        return []
    return found
