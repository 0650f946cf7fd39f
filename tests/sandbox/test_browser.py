"""The browser as a sandbox: a page is kept to its site, what breaks is a failure, and nothing stays behind."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentbench.core.errors import Failure
from agentbench.sandbox import browser as module
from agentbench.sandbox.browser import Browser
from agentbench.sandbox.chromium import processes, sweep

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HTML = """<!doctype html><html lang="en"><title>Home</title><body style="height: 4000px">
<a id="out" href="http://example.invalid/away">away</a> <a id="in" href="{site}next">next</a>
<button id="script" onclick="document.title = 'changed'" type="button">script</button></body></html>"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = HTML.format(site="/site/").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/site/"
        server.shutdown()
        thread.join()


def waits_for(holds: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


def mark_of(browser: Browser) -> str:
    engine = browser._engine
    assert engine is not None
    return engine._mark


def leftovers() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("playwright*"))


def test_a_page_is_kept_to_its_site_and_runs_no_script(site: str) -> None:
    before = leftovers()
    browser = Browser()
    page = browser.open(site)
    assert page.goto(site)
    page.click("#out")
    assert page.evaluate("location.href") == site
    assert not page.goto("file:///etc/passwd") and not page.goto(site.replace("/site/", "/other/"))
    assert page.blocked == ["http://example.invalid/away", "file:///etc/passwd", site.replace("/site/", "/other/")]
    page.evaluate("document.querySelector('#script').click()")
    assert page.evaluate("document.title") == "Home"
    page.click("#in")
    assert page.evaluate("location.pathname") == "/site/next"
    assert page.back() and not page.back()
    page.scroll(300)
    assert page.evaluate("window.scrollY") == 300
    names = [(element.role, element.name, element.id) for element in page.tree()]
    assert ("link", "away", "out") in names and ("button", "script", "script") in names
    assert page.screenshot().startswith(b"\x89PNG")
    mark = mark_of(browser)
    assert processes(mark)
    page.close()
    browser.close()
    browser.close()
    assert waits_for(lambda: not processes(mark))
    assert leftovers() <= before


def test_a_crash_is_a_failure_and_the_next_browser_is_another(site: str) -> None:
    broken = Browser()
    page = broken.open(site, patience=20)
    page.goto(site)
    mark = mark_of(broken)
    for pid in processes(mark):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(Failure) as caught:
        page.evaluate("1")
    assert caught.value.cause == "sandbox"
    assert waits_for(lambda: broken.broken)
    second = Browser()
    assert mark_of(second) != mark
    other = second.open(site)
    assert other.goto(site)
    page.close()
    broken.close()
    assert other.evaluate("document.title") == "Home"
    other.close()
    second.close()
    assert not processes(mark)


def test_a_browser_that_hangs_is_given_up_in_time_and_killed(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 2.0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    browser = Browser()
    page = browser.open(site, patience=2)
    page.goto(site)
    mark = mark_of(browser)
    for pid in processes(mark):
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Failure) as caught:
        page.goto(f"{site}again")
    assert caught.value.cause == "timeout"
    page.close()
    browser.close()
    assert waits_for(lambda: not processes(mark))
    assert waits_for(lambda: not list(tmp_path.iterdir())), list(tmp_path.iterdir())


def test_a_way_off_the_site_by_dots_is_refused_and_breaks_nothing(site: str) -> None:
    browser = Browser()
    page = browser.open(site)
    assert page.goto(site)
    assert not page.goto(f"{site}../other/")
    assert page.blocked == [site.replace("/site/", "/other/")]
    assert page.evaluate("location.href") == site
    page.close()
    browser.close()


HOLD = """
import sys, time
from agentbench.sandbox.browser import Browser
browser = Browser()
page = browser.open(sys.argv[1])
page.goto(sys.argv[1])
print(browser._engine._mark, flush=True)
time.sleep(600)
"""


def test_nothing_stays_when_the_client_is_killed(site: str, tmp_path: Path) -> None:
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-P", "-c", HOLD, site]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        mark = client.stdout.readline().strip()
        assert processes(mark)
        client.kill()
    assert waits_for(lambda: not processes(mark))
    assert waits_for(lambda: not list(tmp_path.glob("playwright*")))


def test_what_is_missing_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.missing() is None
    monkeypatch.setenv(module.VARIABLE, "/nowhere/chromium")
    assert module.missing() == "AGENTBENCH_CHROMIUM names /nowhere/chromium, which is no program"
    monkeypatch.delenv(module.VARIABLE)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "apt-get install chromium" in str(module.missing())
    monkeypatch.setattr(module, "PACKAGES", ("no_such_package",))
    assert "pip install -e '.[browser]'" in str(module.missing())


@pytest.mark.parametrize("hidden", ["", "."])
def test_sockets_at_which_nobody_listens_are_swept(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as home:  # A socket's path is short.
        monkeypatch.setenv("TMPDIR", home)
        open_ends = []
        for name in ("org.chromium.dead", "org.chromium.live", "org.chromium.young", "another.dead"):
            folder = Path(home) / (hidden + name)
            folder.mkdir()
            end = socket.socket(socket.AF_UNIX)
            end.bind(str(folder / "SingletonSocket"))
            if name.endswith("live"):
                end.listen()
            open_ends.append(end)
            if not name.endswith("young"):
                os.utime(folder, (0, 0))
        swept = sweep()
        for end in open_ends:
            end.close()
        assert swept == [Path(home) / f"{hidden}org.chromium.dead"]
        assert not swept[0].exists() and len(list(Path(home).iterdir())) == 3
