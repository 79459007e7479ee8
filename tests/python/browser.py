"""Opens pages in Debian's Chromium, which `tools/fetch_chromium.sh` unpacks.

The browser is driven by its DevTools protocol: messages in JSON, each ended by a zero byte, through
two pipes.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".cache" / "chromium"
FETCH_SECONDS, ANSWER_SECONDS = 350, 60
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-pipe", "--hide-scrollbars", "--disable-background-networking"),
)
Json = dict[str, Any]


def fetch() -> tuple[Path | None, str]:
    """Return the path of the browser; or None, and why it cannot be fetched."""
    done = subprocess.run(
        [ROOT / "tools" / "fetch_chromium.sh"],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        return None, done.stderr.strip()[-400:]
    return Path(done.stdout.strip()), ""


class Page:
    """A page in a browser, with what it wrote to the console."""

    def __init__(self, to: int, answers: int) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._to, self._answers = to, answers
        self._number, self._session, self._rest = 0, "", b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(self, url: str, width: int, height: int, scheme: str) -> None:
        """Load a page in a window of this size, in the colour scheme "light" or "dark"."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call("Page.navigate", url=url)
        self._await("Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        """Run JavaScript in the page and return its value."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def call(self, method: str, **parameters: Any) -> Json:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: Json = answer["result"]
                return result

    def _await(self, event: str) -> None:
        while self._receive().get("method") != event:
            pass

    def _receive(self) -> Json:
        while b"\0" not in self._rest:
            more = os.read(self._answers, 1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: Json = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.console.append(json.dumps(parameters))
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message


def _high_pipe() -> tuple[int, int]:
    """Make a pipe whose descriptors are none of those that the browser reads and writes."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]


@contextlib.contextmanager
def open_browser(program: Path, folder: Path) -> Iterator[Page]:
    """Start the browser, with its files in `folder`, and end it with all of its processes."""
    fonts = folder / "fonts.conf"
    fonts.write_text(
        "<fontconfig>"
        f"<dir>/usr/share/fonts</dir><dir>{UNPACKED}/usr/share/fonts</dir>"
        f"<cachedir>{folder}/fonts</cachedir>"
        "<match target='pattern'><edit name='family' mode='append_last'>"
        "<string>DejaVu Sans</string></edit></match></fontconfig>"
    )
    libraries = UNPACKED / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'pulseaudio'}",
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(folder),
    }
    (commands, to), (answers, results) = _high_pipe(), _high_pipe()
    # The browser reads commands from descriptor 3 and writes answers to 4.
    plumbing = f'exec 3<&{commands} 4>&{results} {commands}<&- {results}>&-; exec "$@"'
    words = [str(program), *FLAGS, f"--user-data-dir={folder / 'profile'}"]
    with (folder / "browser.log").open("w") as log:
        browser = subprocess.Popen(
            ["bash", "-c", plumbing, "browser", *words],
            pass_fds=(commands, results),
            stdout=log,
            stderr=log,
            env=environment,
        )
    os.close(commands)
    os.close(results)
    try:
        page = Page(to, answers)
        yield page
        page._session = ""
        page.call("Browser.close")
    except EOFError:
        raise AssertionError((folder / "browser.log").read_text()[-2000:]) from None
    finally:
        os.close(to)
        os.close(answers)
        try:
            browser.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
