"""`coe-agents ask` with a configuration that names tools: the group proposes calls, and nothing runs them."""

import json

import pytest

from tests.cli.command import run
from tests.cli.test_sample import AGENT, proposing
from tests.servers import answering

CODE = '''
def pay(amount: float):
    """Pays."""
    raise AssertionError("a proposal is never run")


TOOLS = [pay]
'''


@pytest.mark.parametrize(
    ("amounts", "returncode", "head"), [((5, 5.0), 0, "→ pay(amount=5)"), ((5, 900), 3, "→ No answer: it is a tie.")]
)
def test_the_group_proposes_calls_of_the_named_tools(tmp_path, amounts, returncode, head):
    module = f"tools_{returncode}"
    (tmp_path / f"{module}.py").write_text(CODE)
    said = dict(zip("ab", amounts, strict=True))
    replies = {name: [json.dumps({"amount": amount})] * 2 for name, amount in said.items()}
    with (
        answering(lambda body: proposing(*replies["a"])) as one,
        answering(lambda body: proposing(*replies["b"])) as two,
    ):
        agents = [
            AGENT.format(name=name, url=server.url, more="") for name, server in zip("ab", (one, two), strict=True)
        ]
        file = tmp_path / "coe.toml"
        rest = '[clusterer]\nkind = "normalized"\n[policy]\nkind = "threshold"\nmax_coe = 0.1\n'
        file.write_text("".join(agents) + rest + f'[graph]\ntools = "{module}:TOOLS"\n')
        done = run("ask", "Pay 5", "--config", str(file))
        assert one.requests[0]["tools"][0]["function"]["name"] == "pay"
        printed = json.loads(run("ask", "Pay 5", "--config", str(file), "--json").stdout)
        shown = run("config", "check", str(file))
    assert done.returncode == returncode, done.stderr
    assert head in done.stdout
    assert f"tools = {module}:TOOLS (from {tmp_path / module}.py)" in " ".join(shown.stdout.split())
    if returncode == 0:
        assert (printed["answer_kind"], printed["calls"][0]["args"]) == ("call", {"amount": 5})
    else:
        assert "They disagree about `amount` of `pay`: 5 (a) or 900 (b)." in " ".join(done.stdout.split())
        assert printed["calls"] is None
