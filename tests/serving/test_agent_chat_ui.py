"""Agent Chat UI itself, in Chromium. Collected only where COE_AGENT_CHAT_UI names a folder in which it was built:

git clone https://github.com/langchain-ai/agent-chat-ui FOLDER && cd FOLDER
pnpm install && NEXT_PUBLIC_API_URL=http://127.0.0.1:2024 pnpm exec next build
"""

import json
import os
import signal
import subprocess
import time

import httpx
import pytest

from tests.chromium import Page, running_chromium
from tests.client_table import seen
from tests.ports import reserved_port

pytestmark = [pytest.mark.slow, pytest.mark.clients]
CLIENT, PATIENCE = "Agent Chat UI in Chromium", 300
AUSTRALIA, BOOKING = "What is the capital of Australia?", "Book Canberra, Australia."


class Chat(Page):
    """A page of Agent Chat UI."""

    url, server = "", ""

    def begin(self, graph):
        """Opens a new thread."""
        self.told.clear()
        self.call("Page.navigate", url=f"{self.url}/?apiUrl={self.server}&assistantId={graph}")
        self.wait("document.querySelector('form textarea')")
        self.wait("Object.keys(document.querySelector('form')).some(key => key.startsWith('__reactProps'))")

    def rest(self):
        """Waits until no run is in flight, and the thread's state has been read: that resets the form."""
        self.wait("[...document.querySelectorAll('button')].some(one => one.innerText.trim() === 'Send')")
        time.sleep(1)

    def say(self, text):
        self.rest()
        self.run("document.querySelector('form textarea[placeholder^=Type]').focus()")
        self.call("Input.insertText", text=text)
        self.wait(f"document.querySelector('form textarea[placeholder^=Type]').value === {json.dumps(text)}")
        self.press("Enter", 13)

    def write(self, label, text):
        """Replaces what a field of the form holds."""
        self.rest()
        find = f"[...document.querySelectorAll('p')].find(p => p.innerText === {json.dumps(label)})"
        self.run(f"(field => {{ field.focus(); field.select() }})({find}.parentElement.querySelector('textarea'))")
        self.call("Input.insertText", text=text)

    def click(self, label):
        button = f"[...document.querySelectorAll('button')].find(one => one.innerText.trim() === {json.dumps(label)})"
        self.wait(button)
        self.rest()
        self.run(f"{button}.click()")

    def reject(self, reason):
        """Rejects for a reason; without one, this button approves."""
        self.write("Reason", reason)
        self.see("Currently selected: Reject")
        self.click("Submit rejection")

    def see(self, text):
        """Waits until the page shows a text, in a field or outside."""
        fields = "[...document.querySelectorAll('textarea')].map(field => field.value).join('\\n')"
        self.wait(f"(document.body.innerText + {fields}).includes({json.dumps(text)})")


@pytest.fixture(scope="module")
def address(server):
    with reserved_port() as port:
        command = ["npx", "next", "start", "--hostname", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(
            command,
            cwd=os.environ["COE_AGENT_CHAT_UI"],
            env={**os.environ, "NEXT_TELEMETRY_DISABLED": "1"},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            end, url = time.monotonic() + PATIENCE, f"http://127.0.0.1:{port}"
            while not answers(url):
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.2)
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def answers(url):
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def chat(server, address):
    with running_chromium() as pipe:
        page = Chat(pipe)
        page.url, page.server = address, server[0]
        yield page
        assert not page.told, page.told


def test_an_escalation_is_decided_by_its_buttons(chat):
    chat.begin("escalation_to_person")
    chat.say(AUSTRALIA)
    chat.see("1. The capital of Australia is Canberra. (")
    chat.click("Approve")
    chat.see("Response submitted successfully.")
    chat.wait("!document.body.innerText.includes('Submit rejection')")
    chat.see("The capital of Australia is Canberra.")
    seen(CLIENT, '`escalation_to_person`: "Approve"', "the form lists the candidates; the first one is the answer")

    chat.begin("escalation_to_person")
    chat.say(AUSTRALIA)
    chat.see("1. The capital of Australia is Canberra. (")
    chat.write("Answer", "It is Canberra, since 1913.")
    chat.click("Submit")
    chat.wait("!document.body.innerText.includes('Submit rejection')")
    chat.see("It is Canberra, since 1913.")
    seen(CLIENT, "`escalation_to_person`: an edited answer", "it is the answer")

    chat.begin("escalation_to_person")
    chat.say(AUSTRALIA)
    chat.see("1. The capital of Australia is Canberra. (")
    chat.write("Candidates", "2. Sydney")
    chat.click("Submit")
    chat.see('only "answer" can be edited')
    chat.reject("nobody knows")
    chat.see('a person rejected all 4 answers ("nobody knows")')
    seen(CLIENT, "`escalation_to_person`: edited candidates, then a rejection", "asked again; then the refusal")


def test_a_tool_call_is_decided_by_its_buttons(chat):
    chat.begin("gated_tools_agent")
    chat.say(BOOKING)
    chat.click("Approve")
    chat.see("Booked: Canberra, Australia.")
    seen(CLIENT, '`gated_tools_agent`: "Approve"', "the tool runs")

    chat.begin("gated_tools_agent")
    chat.say(BOOKING)
    chat.see("Submit rejection")
    chat.reject("too far")
    chat.see("book_flight was not run: a person rejected it: too far")
    seen(
        CLIENT, '`gated_tools_agent`: "Submit rejection" with a reason', "the tool does not run; the agent is told why"
    )


def test_a_message_is_typed_instead(chat):
    chat.begin("gated_tools_agent")
    chat.say(BOOKING)
    chat.see("Submit rejection")
    chat.say("approve")
    chat.see("book_flight was not run: the user wrote another message instead of deciding on it.")
    chat.see("The group withholds an answer")
    chat.say(BOOKING)
    chat.click("Approve")
    chat.see("Booked: Canberra, Australia.")
    seen(CLIENT, '`gated_tools_agent`: "approve" typed', "the call is closed as not run; the thread goes on")

    chat.begin("gated_tools_agent")
    chat.say(BOOKING)
    chat.click("Mark as Resolved")
    chat.wait("!document.body.innerText.includes('Submit rejection')")
    chat.say("What is the capital of France?")
    chat.see("Paris, I believe.")
    seen(CLIENT, '`gated_tools_agent`: "Mark as Resolved", then a question', "the tool does not run; answered")
