"""A headless Chromium of the tests' own, driven over a pipe by the DevTools protocol: no port, no driver."""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_PATIENCE = 300.0
_CONTROLS = [
    "button",
    "slider",
    "checkbox",
    "textbox",
    "searchbox",
    "combobox",
    "meter",
    "table",
    "image",
    "region",
]


def program() -> str | None:
    """Returns Chromium's path; None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(
        program() is None, reason="Chromium is not here. On Debian: apt-get install chromium"
    ),
]


class Page:
    """One tab. `told` holds what it logged: errors, and breaches of its policy; `asked` all addresses it asked for."""

    def __init__(self, pipe: "_Pipe", *, width: int = 1280, height: int = 900) -> None:
        self._pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = pipe.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        self.told: list[str] = []
        self.asked: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        result = self._pipe.call(method, session=self._session, **parameters)
        self._hear()
        return result

    def open(self, place: Path | str) -> None:
        self.call(
            "Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri()
        )
        self.wait("document.documentElement?.dataset.ready")

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page; it may be a promise."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(f"{script}: {done['exceptionDetails']['exception']['description']}")
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Returns once an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}: not in {_PATIENCE} s; the page told {self.told}")
            time.sleep(0.02)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def controls(self) -> list[tuple[str, str]]:
        """Returns role and name of everything that can be used or read as one, as a screen reader has it."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node["name"]["value"].strip())
            for node in nodes
            if not node["ignored"] and node["role"]["value"] in _CONTROLS
        ]

    def assert_fits(self, width: int) -> list[tuple[str, str]]:
        """Asserts that nothing is wider than the screen, and that every control has a name; returns the controls."""
        assert self.run("document.documentElement.scrollWidth") <= width
        controls = self.controls()
        assert [role for role, name in controls if not name] == []
        return controls

    def _hear(self) -> None:
        for event in [
            event for event in self._pipe.events if event.get("sessionId") == self._session
        ]:
            self._pipe.events.remove(event)
            told = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    details = told["exceptionDetails"]
                    self.told.append(
                        details.get("exception", {}).get("description", details["text"])
                    )
                case "Log.entryAdded":
                    self.told.append(told["entry"]["text"])
                case "Page.javascriptDialogOpening":
                    self.told.append(f"dialog: {told['message']}")
                case "Network.requestWillBeSent":
                    self.asked.append(told["request"]["url"])


class _Pipe:
    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._buffer = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, *, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters, "sessionId": session}
        os.write(
            self._writing,
            json.dumps({k: v for k, v in message.items() if v is not None}).encode() + b"\0",
        )
        while (reply := self._next(method)).get("id") != self._last:
            self.events.append(reply)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return dict(reply["result"])

    def _next(self, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._reading], [], [], _PATIENCE)[0]:
                raise TimeoutError(f"{method}: no reply in {_PATIENCE} s")
            read = os.read(self._reading, 1 << 20)
            if not read:
                raise RuntimeError(f"{method}: Chromium has ended")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def running_chromium() -> Iterator[_Pipe]:
    """Yields the pipe to a new browser with an empty profile, which ends with the block."""
    path = program()
    if path is None:
        raise FileNotFoundError("Chromium is not here. On Debian: apt-get install chromium")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="coe-chromium-", ignore_cleanup_errors=True) as profile:
        command = [path, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(  # DevTools reads from 3 and writes to 4
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield _Pipe(ours_in, ours_out)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # its own group: the browser and its children
            browser.wait()
            os.close(ours_in)
            os.close(ours_out)
