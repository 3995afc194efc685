"""The console in headless Chromium: open pages, find elements by their text, wait for conditions, take pictures."""

import base64
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

WITHIN_S: Final = 60.0
"""Far more than any awaited condition takes."""
VENDOR: Final = Path(__file__).parent / "vendor"
DESKTOP: Final = (1280, 900)
PHONE: Final = (360, 740)
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # Chromium's own needs a user other than root; the pages are the broker's
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
)
_SERIOUS: Final = ("serious", "critical")


class OpenConsole:
    """Browser with the console of one broker."""

    def __init__(self, pictures: Path) -> None:
        options = ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in _FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.base = ""
        self._pictures = pictures
        self.show_as(DESKTOP, "light")

    def close(self) -> None:
        self.driver.quit()

    def leave(self) -> None:
        """Leave the page, which asks its broker again and again."""
        self.driver.get("about:blank")

    def show_as(self, size: tuple[int, int], scheme: str) -> None:
        """Set the size of the window and the preferred colours, `light` or `dark`."""
        preferred = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self._command("Emulation.setEmulatedMedia", features=preferred)
        width, height = size
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
        )

    def open(self, address: str, route: str = "#/") -> None:
        """Load the console of the broker at `address` (HOST:PORT) and wait until its page has content."""
        self.driver.get("about:blank")  # a new hash alone would not load the page again
        self.driver.get_log("browser")
        self.base = f"http://{address}"
        self.driver.get(f"{self.base}/console/{route}")
        self.until(self.is_loaded, "the page is loaded")

    def log_in(self, address: str, user: str, password: str) -> None:
        """Give the browser the login for a broker: it sends it from then on, as after its own dialog."""
        self.driver.get(f"http://{quote(user)}:{quote(password)}@{address}/console/api/session")
        self.driver.get_log("browser")

    def ask(self, path: str) -> Any:
        """Return the JSON that the broker returns to this page for a path."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "fetch(arguments[0], {headers: {'X-Raftlog-Console': '1'}}).then((answer) => answer.json()).then(done)",
            path,
        )

    def go(self, route: str) -> None:
        """Follow a link to another page of the console."""
        self.driver.execute_script("location.hash = arguments[0]", route.lstrip("#"))

    def is_loaded(self) -> bool:
        return bool(
            self.driver.execute_script(
                "return Boolean(document.querySelector('h1') && !document.querySelector('.loading'))"
            )
        )

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a true result and return it; elements that the page replaces meanwhile are looked for again."""
        wait = WebDriverWait(self.driver, WITHIN_S, poll_frequency=0.05)
        try:
            return wait.until(lambda _: condition(), what)
        except Exception as error:
            self.picture("failed")
            raise AssertionError(f"{what}: it did not come to pass; the page:\n{self.text():.4000}") from error

    def text(self) -> str:
        """Return the visible text."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def until_text(self, *texts: str) -> None:
        for text in texts:
            self.until(lambda text=text: text in self.text(), f"the page shows {text!r}")

    def find(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def rows(self) -> list[str]:
        """Return the text of each row of the page's tables."""
        found = self.driver.execute_script(
            "return [...document.querySelectorAll('tbody tr')].map((row) => row.innerText)"
        )
        return [" ".join(row.split()) for row in found]

    def _find_named(self, css: str, name: str) -> WebElement | None:
        element: WebElement | None = self.driver.execute_script(
            "const scope = document.querySelector('dialog[open]') ?? document;"
            "const clean = (text) => (text ?? '').replace(/\\s+/g, ' ').trim();"
            "const all = [...scope.querySelectorAll(arguments[0])];"
            "const name = (each) => clean((each.querySelector(':scope > span:first-child') ?? each).textContent);"
            "return all.find((each) => name(each) === arguments[1])"
            " ?? all.find((each) => clean(each.textContent).startsWith(arguments[1]))",
            css,
            name,
        )
        return element

    def button(self, name: str) -> WebElement:
        """Return the button or link whose text begins with `name`, in the open dialog if there is one."""
        found: WebElement = self.until(lambda: self._find_named("button, a, summary", name), f"a button {name!r}")
        return found

    def has_button(self, name: str) -> bool:
        return self._find_named("button", name) is not None

    def click(self, name: str) -> None:
        self.driver.execute_script("arguments[0].click()", self.button(name))

    def field(self, label: str) -> WebElement:
        """Return the input of a label, in the open dialog if there is one."""

        def find() -> WebElement | None:
            element = self._find_named("label", label)
            return element and element.find_element(By.CSS_SELECTOR, "input, select, textarea")

        found: WebElement = self.until(find, f"a field {label!r}")
        return found

    def fill(self, label: str, text: str) -> None:
        element = self.field(label)
        element.clear()
        element.send_keys(text)

    def choose(self, label: str, option: str) -> None:
        Select(self.field(label)).select_by_visible_text(option)

    def hash(self) -> str:
        return str(self.driver.execute_script("return location.hash"))

    def set_clock(self, ahead_ms: int) -> Iterator[None]:
        """Set the browser's clock ahead for the pages loaded from now on; the next step resets it."""
        script = f"{{ const real = Date.now.bind(Date); Date.now = () => real() + {ahead_ms}; }}"
        added = self._command("Page.addScriptToEvaluateOnNewDocument", source=script)
        yield
        self._command("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])

    # checks

    def check_requests(self) -> None:
        """Assert that the page asked only its own broker."""
        names = self.driver.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
        assert names
        assert [name for name in names if not name.startswith(f"{self.base}/")] == []

    def list_problems(self) -> list[str]:
        """Return errors of scripts and of the content security policy since the last call."""
        return [
            each["message"]
            for each in self.driver.get_log("browser")
            if each["level"] == "SEVERE" and "Failed to load resource" not in each["message"]
        ]

    def check_access(self) -> None:
        """Assert that axe-core has no serious finding on this page."""
        if not self.driver.execute_script("return typeof window.axe === 'object'"):
            self.driver.execute_script(_read_axe())
        result = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then(done, (error) => done({error: String(error)}))"
        )
        assert "error" not in result, result
        found = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:5]])
            for each in result["violations"]
            if each["impact"] in _SERIOUS
        ]
        assert found == [], json.dumps(found, indent=1)

    def check_width(self) -> None:
        """Assert that the page fits the window: no scrolling to the side."""
        wide, window = self.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page."""
        width, height = self.driver.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 3000), "scale": 1}
        content = self._command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        (self._pictures / f"{quote(name, safe='')}.png").write_bytes(base64.b64decode(content))

    def _command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)


@functools.cache
def _read_axe() -> str:
    return (VENDOR / "axe.min.js").read_text()
