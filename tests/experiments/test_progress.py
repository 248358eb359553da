import io

from rich.console import Console

from coe_agents.activity import announce
from coe_agents.experiments.progress import progress


def shown(*, terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with progress({"a[b]": (1, 3), "c": (0, 2)}, console=console, every=0.0) as advance:
        for name, failed in (("a[b]", False), ("c", True), ("c", False), ("a[b]", False)):
            advance(name, failed)
    return out.getvalue()


def test_without_a_terminal_lines_count_all_replies_and_failures():
    lines = shown(terminal=False).splitlines()
    assert [line.split(" replies")[0] for line in lines] == ["2 of 5", "3 of 5", "4 of 5", "5 of 5"]
    assert [line.rpartition(", ")[2] for line in lines] == [
        "0 failed",
        "1 failed",
        "1 failed",
        "1 failed",
    ]
    assert "a second" in lines[0]
    assert lines[-1].endswith("0 s left, 1 failed")


def test_a_terminal_has_a_bar_for_each_agent():
    text = shown(terminal=True)
    assert "a[b]" in text
    assert "3/3" in text
    assert "2/2" in text
    assert "1 failed" in text


def test_a_terminal_shows_what_is_done_now():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with announce("loading a\x1b[2Jb"), progress({}, console=console, is_kept=False):
        pass
    assert "loading a\ufffd[2Jb" in out.getvalue()


def test_without_a_terminal_what_is_not_kept_leaves_no_line():
    out = io.StringIO()
    with progress({"a": (0, 1)}, console=Console(file=out), is_kept=False) as advance:
        advance("a", False)
    assert out.getvalue() == ""
