"""`python -m tools.docs`: what stands below a block is what it prints today."""

import pytest

from tools.docs.__main__ import main

PAGE = """# A page

```python
total = 1
print("in 3.2 s")
total + 1
```

<!--{{ output(hide="[0-9.]+(?= s$)") }}-->
<!--end-->
"""
REFERENCE = """# A page

<!--{{ reference("tools.docs.reference", only="find_definition") }}-->
<!--end-->
"""
ENTRY = """
## `find_definition`

Returns where a name is defined, also if the module imports it from another one of the package.

```python
def find_definition(module: str, name: str) -> Definition: ...
```

[Source](../../tools/docs/reference.py)
"""


@pytest.fixture
def page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert main([str(page)]) == 0
    return page


def test_what_a_block_prints_and_its_last_value_stand_below_it(page):
    assert "-->\n```text\nin … s\n2\n```\n<!--" in page.read_text()
    assert main(["--check", str(page)]) == 0


def test_a_page_that_is_out_of_date_is_shown_with_the_difference(page, capsys):
    stale = page.read_text().replace("total + 1", "total + 2")
    page.write_text(stale)
    assert main(["--check", str(page)]) != 0
    assert "-2\n+3\n" in capsys.readouterr().out
    assert page.read_text() == stale


def test_the_reference_has_the_declaration_the_first_paragraph_and_the_source(page):
    page.write_text(REFERENCE)
    main([str(page)])
    assert ENTRY in page.read_text()
