import json
import re
import shlex
from contextlib import contextmanager

import pytest

from coe_agents import _ring
from coe_agents.testing import ScriptedAgent
from tests.chromium import NEEDS_CHROMIUM, Page
from tests.rooms import needs
from tests.serve.groups import create_group, group_of
from tests.serve.live import serving

pytestmark = NEEDS_CHROMIUM

HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\">",
    "</script><script>document.title='hacked'</script>",
    "\u202etxt.exe\u2066 \u200fright to left",
    "w" * 100_000,
    "first\n\nsecond\r\nthird" + "\n" * 500 + "last",
    'quoted"; CoE 0.100 is at most 9',
    "__proto__",
    "\ud800 \x00\x1b[31m\x9b",
)
CONTROLS = "\u202e\u2066\u200f\x00\x1b\x9b"
BERN = (["Bern"] * 4, ["Bern"] * 4, ["Bern", "Bern", "Bern", "Basel"])
CAPITALS = (["Canberra"] * 3, ["Canberra"] * 3, ["Sydney"] * 3)


@contextmanager
def opened(pipe, group, *, is_quiet=True, **options):
    """Opens the page of a group; in the end no error was logged, no policy breached, and only its server asked."""
    with serving(group) as address:
        tab = Page(pipe, **options)
        tab.open(f"{address}/")
        yield tab
        assert not is_quiet or tab.told == []
        assert not is_quiet or {
            asked for asked in tab.asked if not asked.startswith(f"{address}/")
        } <= {"data:,"}


def ask(tab, question="Which?"):
    tab.run(
        "document.querySelector('#question').value = ''; document.querySelector('#question').focus()"
    )
    tab.call("Input.insertText", text=question)
    tab.press("Enter", 13)
    tab.wait("document.querySelector('#verdict').dataset.kind !== 'running'")


def seen(tab, selector):
    """Returns what a reader sees of an element, on one line."""
    return " ".join(tab.run(f"document.querySelector({json.dumps(selector)}).innerText").split())


def everything(tab, selector):
    return tab.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.innerText)"
    )


def move(tab, value):
    """Moves the slider of the threshold by the keyboard's event."""
    tab.run(
        f"(() => {{ const slider = document.querySelector('#limit-coe'); slider.value = {value};"
        "slider.dispatchEvent(new Event('input', {bubbles: true})) })()"
    )


def test_an_answer_is_first_then_who_said_it_and_the_numbers_last(pipe):
    with opened(pipe, create_group(*BERN)) as tab:
        assert "The gate decides." in seen(tab, "#intro")
        ask(tab, "What is the capital of Switzerland?")
        assert tab.run("document.querySelector('#intro').hidden")
        assert seen(tab, "#tag") == "ANSWER"
        assert seen(tab, "#verdict-title") == "Bern"
        assert seen(tab, "#asked") == "What is the capital of Switzerland?"
        assert (
            seen(tab, "#why")
            == 'Two of three agents say "Bern", c is split between "Bern" and "Basel".'
        )
        first, second = everything(tab, ".meaning")
        assert (
            re.sub(r"\s+", " ", first)
            == "A Bern 92 % of the group, and its answer a 100 % b 100 % c 75 %"
        )
        assert re.sub(r"\s+", " ", second) == "B Basel 8 % of the group c 25 %"
        numbers = seen(tab, "#figures")
        # U_A = H(3/4, 1/4) / 3 = 0.1874; CoE = H(11/12, 1/12) = 0.2868
        assert "CoE 0.287 is at most 0.6 nats." in numbers
        assert "doubt within agents 0.187 nats" in numbers
        parts = json.dumps(["verdict", "said", "gate", "numbers"])
        order = tab.run(
            f"{parts}.map((id) => document.getElementById(id).getBoundingClientRect().top)"
        )
        assert order == sorted(order)


@pytest.mark.parametrize(
    ("said", "title", "why"),
    [
        ((["x"], ["y"]), "It is a tie", "the leading answers tie"),
        (
            (["I don't know."],) * 3,
            "They decline to answer",
            "the leading answer declines to answer",
        ),
    ],
)
def test_what_no_threshold_answers(pipe, said, title, why):
    with opened(pipe, create_group(*said)) as tab:
        ask(tab)
        assert seen(tab, "#verdict-title") == title
        move(tab, 1.2)
        assert seen(tab, "#would") == f"No threshold makes the gate answer this question: {why}."
        assert everything(tab, "#session tbody td")[-1] == "✕ withholds"
        assert said[0][0] in everything(tab, "#session tbody td")[1]  # what was withheld


def test_too_few_agents_are_not_on_the_plane_and_look_certain_nowhere(pipe):
    failing = [ScriptedAgent(name, ConnectionError("refused")) for name in "bc"]
    with opened(pipe, group_of(ScriptedAgent("a", ["Bern"] * 3), *failing)) as tab:
        ask(tab)
        assert seen(tab, "#verdict-title") == "Too few agents answered"
        assert tab.run("document.querySelector('#plane-words').textContent") == (
            "This question is not on the plane: too few agents answered."
        )
        assert tab.run("document.querySelector('.ring')") is None
        assert seen(tab, "#gauge") == ""
        assert everything(tab, "#session tbody td")[0] == "–"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_of_a_model_changes_the_page(pipe, width):
    agents = [
        ScriptedAgent(HOSTILE[0], list(HOSTILE)),
        ScriptedAgent(HOSTILE[1] + "\u202e", [*HOSTILE[::-1], HOSTILE[3]]),
        ScriptedAgent("x" * 3000, RuntimeError(HOSTILE[0] + HOSTILE[2] + "e" * 5000)),
    ]
    with opened(pipe, group_of(*agents, max_coe=float("inf")), width=width) as tab:
        title = tab.run("document.title")
        nodes = tab.run("document.querySelectorAll('script, style, link, img, iframe').length")
        ask(tab, HOSTILE[0])
        tab.run("document.querySelector('#more').click()")
        tab.run("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        tab.run(
            "document.querySelectorAll('.passage + button').forEach((button) => button.click())"
        )
        shown = set(
            tab.run(
                "[...document.querySelectorAll('.meaning h3 .said')].map((said) => said.textContent)"
            )
        )
        assert {HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[5], HOSTILE[6]} <= shown
        assert not set(CONTROLS) & set(tab.run("document.body.textContent"))
        assert tab.run("document.title") == title
        assert (
            tab.run("document.querySelectorAll('script, style, link, img, iframe').length") == nodes
        )
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert (
            tab.run("document.documentElement.scrollHeight") < 20_000
        )  # long answers scroll in themselves
        assert tab.run("Object.prototype.text") is None


def test_what_a_reader_unfolds_stays_so_when_the_connection_ends(pipe):
    with opened(pipe, group_of(ScriptedAgent("a", ["w" * 5000] * 3), max_coe=float("inf"))) as tab:
        tab.run(
            "(() => { const send = fetch; window.fetch = async (...request) => { const reply = await send(...request);"
            "const held = new TransformStream({flush: () => new Promise((end) => { window.end = end; })});"
            "return new Response(reply.body.pipeThrough(held), reply) } })()"
        )
        ask(tab)
        tab.run("document.querySelector('#verdict-title button').click()")
        tab.wait("window.end")
        tab.run("(async () => { end(); await new Promise((done) => setTimeout(done, 100)) })()")
        assert seen(tab, "#verdict-title") == "w" * 5000


MARKDOWN = """Use `first`, not <img src=x onerror=alert(1)> [here](javascript:alert(1)) ![seen](http://127.0.0.1:9/x.png):

```python
first(2)
```

- **one** & [more](https://example.org/?q=1)
"""


def test_markdown_is_built_of_elements_and_nothing_of_it_is_loaded(pipe):
    with opened(pipe, create_group([MARKDOWN], [MARKDOWN])) as tab:
        tab.run(
            "Object.defineProperty(navigator, 'clipboard', "
            "{value: {writeText: async (text) => { window.copied = text }}})"
        )
        ask(tab)
        assert everything(tab, "#answer :is(code, li)") == ["first", "first(2)\n", "one & more"]
        assert "<img src=x onerror=alert(1)> [here](javascript:alert(1)) [picture: seen]" in seen(
            tab, "#answer p"
        )
        links = tab.run("[...document.querySelectorAll('#answer a')].map((link) => link.href)")
        assert links == ["https://example.org/?q=1"]
        tab.run("document.querySelector('#answer .code-block button').click()")
        tab.wait("window.copied === 'first(2)\\n'")
        tab.run("document.querySelector('#tools button').click()")
        tab.wait(f"window.copied === {json.dumps(MARKDOWN.strip())}")


LONG = "a" * 200
LINKS = f"""A [word](https://own.example/1) and <https://own.example/2>, [own.example/3](https://own.example/3),
[https://bank.example](https://evil.example/4), [bank.example/login](https://evil.example/5), [`bank.example`](https://evil.example/6),
[bank．example](https://evil.example/7), [me@bank.example](mailto:you@evil.example), [https://bank.example/](https://bank.example@evil.example/8),
[https://bank.example/](https://bank.example{LONG}@evil.example/9).
"""


def test_a_link_whose_text_is_another_address_shows_its_own(pipe):
    with opened(pipe, create_group([LINKS], [LINKS])) as tab:
        ask(tab)
        texts = everything(tab, "#answer :is(a, span[title])")
        assert [text for text in texts if "evil" not in text] == [
            "word",
            "https://own.example/2",
            "own.example/3",
        ]
        shown = [re.search(r"\[(.*)\]$", text)[1] for text in texts if "evil" in text]
        assert shown == [
            *(f"https://evil.example/{n}" for n in "4567"),
            "mailto:you@evil.example",
            "https://bank.example@evil.example/8",
            f"evil.example: https://bank.example{LONG[:179]}…",
        ]


def test_a_follow_up_is_asked_after_what_was_answered_and_a_reload_keeps_it(pipe):
    agents = [ScriptedAgent(name, ["Bern"]) for name in "ab"]
    with opened(pipe, group_of(*agents)) as tab:
        ask(tab, "What is the capital of Switzerland?")
        tab.run("document.querySelector('#follows').click()")
        ask(tab, "How old is it's 'old town'?")
        assert [message["content"] for message in agents[0].requests[-1]["messages"]] == [
            "What is the capital of Switzerland?",
            "Bern",
            "How old is it's 'old town'?",
        ]
        shown = seen(tab, "#asked")
        assert (
            shown
            == "How old is it's 'old town'? (a follow-up of “What is the capital of Switzerland?”)"
        )
        tab.run("document.querySelector('#code').open = true")
        curl, python, script = everything(tab, "#programs pre")
        assert script.startswith('import OpenAI from "openai";')
        assert compile(python, "shown", "exec")
        command = shlex.split(curl.replace("\\\n", " "))
        assert json.loads(command[-1])["messages"] == [
            {"role": "user", "content": "What is the capital of Switzerland?"},
            {"role": "assistant", "content": "Bern"},
            {"role": "user", "content": "How old is it's 'old town'?"},
        ]
        tab.open(tab.run("location.href"))
        assert (seen(tab, "#asked"), seen(tab, "#verdict-title")) == (shown, "Bern")
        assert len(everything(tab, "#session tbody tr")) == 2


def test_a_short_answer_is_on_two_screens_of_a_phone(pipe):
    with opened(pipe, create_group(*BERN), width=390) as tab:
        ask(tab, "What is the capital of Switzerland?")
        assert tab.run("document.documentElement.scrollHeight") <= 2 * 844


def test_the_policies_of_server_and_page_stop_what_would_get_in(pipe):
    with opened(pipe, create_group(*BERN), is_quiet=False) as tab:
        with pytest.raises(RuntimeError, match="TrustedHTML"):
            tab.run(f"document.body.innerHTML = {json.dumps(HOSTILE[0])}")
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            tab.run("fetch('http://127.0.0.1:9/')")
        tab.run("document.body.setAttribute('style', 'color: red')")
        assert tab.run("document.body.style.color") == ""


def test_a_threshold_says_what_the_gate_would_have_done_and_the_gate_does_it(pipe):
    with opened(pipe, create_group(*BERN)) as tab:
        ask(tab, "First?")
        assert seen(tab, "#would") == (
            "At 0.60 nats the gate answers this question with “Bern”: CoE 0.287 is at most 0.60."
        )
        assert tab.run("document.querySelector('#again').disabled")
        move(tab, 0.2)
        assert (
            seen(tab, "#would")
            == "At 0.20 nats the gate would withhold the answer: CoE 0.287 exceeds 0.20."
        )
        assert everything(tab, "#session tbody td") == ["0.29", "● answered", "✕ withholds"]
        tab.run("document.querySelector('#again').click()")
        tab.wait("document.querySelector('#verdict').dataset.kind === 'abstain'")
        assert "exceeds 0.2" in seen(tab, "#figures")
        assert "the gate answers up to 0.20" in seen(tab, "#gauge")
        assert everything(tab, "#session tbody tr") == [
            "First?\t0.29\t✕ withheld “Bern”\t✕ withholds",
            "First?\t0.29\t● answered\t✕ withholds",
        ]
        assert (
            seen(tab, "#counts")
            == "The gate answered 1 of 2 questions. At 0.20 nats it would answer none."
        )
        tab.run("document.querySelector('#reset').click()")
        assert (
            seen(tab, "#counts") == "The gate answered 1 of 2 questions. At 0.60 nats it answers 2."
        )
        move(tab, 0.9)  # a looser gate is shown, and cannot be asked for
        assert tab.run("document.querySelector('#again').disabled")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_and_every_control_has_a_name(pipe, width):
    with opened(pipe, create_group(*CAPITALS), width=width) as tab:
        ask(tab)
        tab.run("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        assert {role for role, _ in tab.assert_fits(width)} >= {
            "button",
            "slider",
            "textbox",
            "table",
            "image",
        }
        small = tab.run(
            "[...document.querySelectorAll('button, input, textarea, summary')]"
            ".filter((node) => node.checkVisibility())"
            ".map((node) => node.getBoundingClientRect().height).filter((height) => height < 24)"
        )
        assert small == []


@needs("claims")
def test_claims_are_underlined_by_support_and_open_to_show_who_says_what(pipe):
    said = (
        ["Ada was born in London. She wrote programs. Ada <b>died</b> in Rome."],
        ["Ada was born in London. She wrote programs. Her cat purred."],
    )
    with opened(pipe, create_group(*said, answer_judge=_ring.load("claims:Claims")())) as tab:
        ask(tab)
        assert "[...]" in seen(tab, "#answer")
        assert everything(tab, "#answer .claim.keep") == [
            "Ada was born in London.",
            "She wrote programs.",
        ]
        assert "left out, support" in everything(tab, "#claims summary")[2]
        tab.run("document.querySelector('#answer .claim').click()")
        assert "supports it" in everything(tab, "#claims details[open] .who")[0]
        assert (
            tab.run("document.querySelector('#answer .claim').style.getPropertyValue('--support')")
            == "100%"
        )
