"""`python -m tools.docs`: what stands below a block is what it prints today."""

import re
import sys

import pytest

from tools.docs.__main__ import main

PAGE = """# A page

```python
total = 1
print("printed")
total + 1
```

<!-- [[[cog output() ]]] -->
<!-- [[[end]]] -->
"""


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.md"


def write(page, *options):
    sys.argv[1:] = [*options, str(page)]
    return main()


@pytest.fixture(autouse=True)
def _keep_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["docs"])


def test_what_a_block_prints_and_its_last_value_stand_below_it(page):
    page.write_text(PAGE)
    assert write(page) == 0
    assert "-->\n```text\nprinted\n2\n```\n<!--" in page.read_text()
    assert write(page, "--check") == 0


def test_a_page_that_is_out_of_date_is_shown_with_the_difference(page, capsys):
    page.write_text(PAGE)
    write(page)
    stale = page.read_text().replace("total + 1", "total + 2")
    page.write_text(stale)
    assert write(page, "--check") != 0
    assert "-2\n+3\n" in capsys.readouterr().out
    assert page.read_text() == stale


def test_what_differs_from_run_to_run_is_hidden(page):
    page.write_text(PAGE.replace("output()", 'output(hide="print.*")'))
    write(page)
    assert "…\n2\n" in page.read_text()


def test_the_reference_has_declarations_and_first_paragraphs_and_nothing_private(page):
    block = 'reference("tools.docs.reference", only="Definition find_definition")'
    page.write_text(f"# A\n\n<!-- [[[cog {block} ]]] -->\n<!-- [[[end]]] -->\n")
    write(page)
    assert re.findall(r"^## .*", page.read_text(), re.MULTILINE) == [
        "## `Definition`",
        "## `find_definition`",
    ]
    assert "def find_definition(module: str, name: str) -> Definition: ...\n" in page.read_text()
    assert "(../../tools/docs/reference.py)" in page.read_text()
