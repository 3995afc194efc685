"""Files of the console: exact contents and headers, no path to another file, and vendored modules as recorded."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yarl

from raftlog.api.http.console.page_files import CONTENT_TYPES, PAGES, read_pages

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
VENDOR = PAGES / "vendor"


def vendored() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((VENDOR / "vendored.json").read_text())
    return found


async def test_every_file_is_served_as_it_is_with_its_type_and_the_policy(api) -> None:
    for name, file in read_pages().items():
        async with api.session.get(f"{api.url}/console/{name}") as response:
            assert response.status == 200, name
            assert await response.read() == (PAGES / name).read_bytes(), name
            assert response.headers["Content-Type"] == CONTENT_TYPES[Path(name).suffix], name
            assert response.headers["Content-Security-Policy"] == POLICY
            assert response.headers["X-Content-Type-Options"] == "nosniff"
        tag = {"If-None-Match": f'"other", {file.tag}'}
        async with api.session.get(f"{api.url}/console/{name}", headers=tag) as response:
            assert (response.status, await response.read()) == (304, b""), name
            assert response.headers["Content-Security-Policy"] == POLICY


async def test_a_head_has_no_body(api) -> None:
    async with api.session.head(f"{api.url}/console/vendor/preact.mjs") as response:
        assert response.status == 200
        assert int(response.headers["Content-Length"]) == (VENDOR / "preact.mjs").stat().st_size


async def test_the_path_without_a_slash_leads_to_the_one_with_it(api) -> None:
    async with api.session.get(f"{api.url}/console", allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (307, "console/")


@pytest.mark.parametrize(
    "path",
    [
        "/console/../pyproject.toml",
        "/console/%2e%2e/__init__.py",
        "/console/..%2fpage_files.py",
        "/console/vendor/..%2F..%2Fpage_files.py",
        "/console/vendor/../../page_files.py",
        "/console//etc/passwd",
        "/console/%2Fetc%2Fpasswd",
        "/console/vendor",
        "/console/vendor/",
        "/console/vendor/preact.mjs%00",
        "/console/vendor/LICENSE-preact",
        "/console/%F0%9F%92%A3",
        "/console/page_files.py",
        "/console/vendor/preact.mjs/x",
    ],
)
async def test_no_path_leads_to_another_file(api, path: str) -> None:
    async with api.session.get(yarl.URL(api.url + path, encoded=True)) as response:
        assert response.status == 404, path
        assert (await response.json())["error_code"] == 404


async def test_links_and_hidden_files_of_the_folder_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "pages" / "deep" / "deeper").mkdir(parents=True)
    for name in ("index.html", "notes.md", "deep/app.js", "deep/deeper/far.js"):
        (tmp_path / "pages" / name).write_text("x")
    assert sorted(read_pages(tmp_path / "pages")) == ["deep/app.js", "index.html"]


def test_vendored_modules_are_as_recorded_with_their_licences() -> None:
    rows = vendored()
    listed = {each["file"] for each in rows} | {each["license_file"] for each in rows} | {"vendored.json"}
    assert {path.name for path in VENDOR.iterdir()} == listed
    for each in rows:
        content = (VENDOR / each["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == each["sha256"], each["file"]
        assert (each["sha256"] == each["source_sha256"]) == (not each["changes"]), each["file"]
        assert each["license"] in ("MIT", "Apache-2.0")
        assert len((VENDOR / each["license_file"]).read_text()) > 1_000


def test_no_page_requests_anything_from_another_host() -> None:
    """Comments may name addresses; imports, style sheets and requests may not."""
    for name, file in read_pages().items():
        text = file.body.decode()
        for begin in (
            "from 'http",
            'from "http',
            "import('http",
            'import("http',
            "url(http",
            "fetch('http",
            'fetch("http',
        ):
            assert begin not in text, name
        if name.endswith(".html"):
            assert "http://" not in text, name
            assert "https://" not in text, name
            assert "style=" not in text, name


@pytest.mark.slow
def test_a_wheel_has_the_pages(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(root),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"raftlog/api/http/console/pages/{name}" for name in read_pages()} <= names


async def test_without_the_console_nothing_is_there(start_api) -> None:
    api = await start_api(console="none")
    for path in ("/console", "/console/", "/console/vendor/preact.mjs", "/console/api/session"):
        assert (await api.get(path))[0] == 404, path


async def test_the_pages_need_a_login_where_the_listener_does(start_api) -> None:
    api = await start_api({"authorization": "acl"}, mechanisms=("PLAIN",))
    for path in ("/console/", "/console/vendor/preact.mjs", "/console/api/session"):
        async with api.session.get(api.url + path) as response:
            assert response.status == 401, path
            assert response.headers["WWW-Authenticate"].startswith("Basic ")


async def test_pages_of_other_sites_get_nothing(api) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    status, error = await api.get("/console/vendor/preact.mjs", headers=headers)
    assert (status, error["error_code"]) == (403, 40302)
