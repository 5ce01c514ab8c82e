"""Start the annotation server and stop it again.

Streamlit runs in a process of its own: that process imports the page and the store, and nothing of the
command line's. The study travels in an environment variable, for a command line is shown to everybody on the
machine.
"""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import os
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from annotation_app import wording
from annotation_app.pages.session import STUDY_VARIABLE
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.stopping import like_ctrl_c
from guard_eval.store import Store
from guard_eval.study.folder import Study

PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"
"""uvicorn's own: whose X-Forwarded-For it believes. By default it believes every local process."""

START_SECONDS = 60.0
STOP_SECONDS = 10.0

_SERVER = Path(__file__).resolve().with_name("application.py")

OPTIONS: dict[str, str] = {
    # Streamlit calls home, and asks the internet for its own address, unless these forbid it.
    "browser.gatherUsageStats": "false",
    "logger.hideWelcomeMessage": "true",
    # rich would print an exception past the filter of server/logs.py, with its message.
    "logger.enableRich": "false",
    "server.fileWatcherType": "none",
    "server.runOnSave": "false",
    # Nothing about an error, a file or the app's inside reaches a rater.
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "minimal",
    "client.showSidebarNavigation": "false",
    "ui.hideTopBar": "true",
    "server.enableXsrfProtection": "true",
    "server.enableCORS": "true",
    # In MB, of what a stranger may send at once; application.py sets the other limit.
    "server.maxMessageSize": "1",
    # middleware.py compares addresses without a prefix.
    "server.baseUrlPath": "",
    # A full garbage collection after every click costs more than the click; see application.py.
    "runner.postScriptGC": "false",
    "runner.magicEnabled": "false",
    "theme.light.primaryColor": "#1f6f6b",
    "theme.dark.primaryColor": "#1f7f7a",
}
"""How Streamlit is run. The theme has a light and a dark side; each browser takes the one it prefers."""


def serve(
    study_folder: Path,
    *,
    port: int = 8501,
    address: str = "127.0.0.1",
    headless: bool = True,
    on_ready: Callable[[str], None] | None = None,
    proxy: str | None = None,
) -> int:
    """Serve the annotation app of a study until it is stopped (Ctrl-C, SIGTERM), and return its exit code.

    Args:
        study_folder: The study's folder; its pairs must have been drawn.
        port: Where to listen; 0 takes any free port.
        address: The address to listen on; `0.0.0.0` is every network.
        headless: Whether to leave the owner's own browser alone.
        on_ready: Called once with the app's address when it answers.
        proxy: Addresses or networks of reverse proxies, with commas: only these are believed what they say in
            X-Forwarded-For about a rater's address, and in X-Forwarded-Host of the page's address.

    Raises:
        MissingExtraError: Streamlit, or what the study needs of it, is not installed.
        StudyError: The study, its wording or its database cannot be used, the port is taken, the address is
            none of this machine's, `proxy` is no address, or the server does not start.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise MissingExtraError("annotate", "streamlit")
    folder = study_folder.resolve()
    study = Study.open(folder)
    check_readiness(study)
    trusted = _proxies(proxy)
    Store.open(study.database, study_hash=study.hash).close()
    port = _free(address, port)
    with like_ctrl_c():
        command = _command(port, address, headless=headless)
        process = subprocess.Popen(command, env=_environment(folder, trusted))  # noqa: S603 (our own interpreter)
        try:
            _wait_until_ready(process, port, address)
            if on_ready is not None:
                on_ready(_url(address, port))
            return process.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            _stop(process)


def _command(port: int, address: str, *, headless: bool) -> list[str]:
    options = {
        **OPTIONS,
        "server.port": str(port),
        "server.address": address,
        "server.headless": str(headless).lower(),
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    # -P: the working directory is where Streamlit reads its settings, never a place to import from.
    return [sys.executable, "-P", "-m", "streamlit", "run", str(_SERVER), *flags]


def _environment(folder: Path, trusted: str = "") -> dict[str, str]:
    packages = [str(_SERVER.parents[2]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        STUDY_VARIABLE: str(folder),
        PROXIES_VARIABLE: trusted,
        # The server finds the packages where this process found them, installed or not.
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
    }


def _proxies(given: str | None) -> str:
    """Return the proxies' addresses as uvicorn takes them."""
    named = [part.strip() for part in (given or "").split(",") if part.strip()]
    for part in named:
        try:
            ipaddress.ip_network(part, strict=False)
        except ValueError:
            raise StudyError(
                f"the proxy {part!r} is no address or network; write where it connects from, as 127.0.0.1"
            ) from None
    return ",".join(named)


def _free(address: str, port: int) -> int:
    """Return `port`, or any free one for 0, after binding it once as the server will."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            if os.name != "nt":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            return int(probe.getsockname()[1])
    except OverflowError:
        raise StudyError(f"port {port} does not exist; choose one from 1024 to 65535") from None
    except PermissionError:
        raise StudyError(f"port {port} is reserved to the system; choose one from 1024 to 65535") from None
    except socket.gaierror:
        raise StudyError(f"{address!r} is no address; use 127.0.0.1, or 0.0.0.0 for every network") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise StudyError(
                f"{address!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for every network"
            ) from None
        raise StudyError(
            f"port {port} on {address} is taken: perhaps the app is running already; stop that program, or "
            f"choose another port, such as --port {port + 1}"
        ) from None


def _url(address: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)  # noqa: S104
    return f"http://{host}:{port}"


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, address: str) -> None:
    health = f"{_url(address, port)}/_stcore/health"
    deadline = time.monotonic() + START_SECONDS
    # A proxy set for the outside world has no business between a program and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StudyError(
                f"the annotation server stopped at once (code {process.returncode}); its own message is above"
            )
        try:
            with opener.open(health, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise StudyError(
        f"the annotation server did not answer on {_url(address, port)} within {START_SECONDS:.0f} s"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let the server end by itself (Ctrl-C reaches it too), then ask, then make it."""
    for ask in (process.terminate, process.kill):
        if process.poll() is not None:
            return
        ask()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue


PROVIDER_KEYS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
"""What Streamlit's secrets.toml must say of the provider, in its table `[auth]`."""


def check_readiness(study: Study) -> None:
    """Check that the study's wording can be shown and that its raters can sign in as it says.

    Raises:
        StudyError: The wording has errors, or the secrets.toml for `oidc = true` is missing or incomplete.
        MissingExtraError: `oidc = true`, and Authlib is not installed.
    """
    wording.of_study(study)
    if study.settings.annotation.recruitment.oidc:
        if importlib.util.find_spec("authlib") is None:
            raise MissingExtraError("oidc", "authlib")
        _check_provider([Path.home(), Path.cwd()])


def _check_provider(homes: list[Path]) -> None:
    """Check that the places in which Streamlit searches have all it needs together; a later place counts."""
    places = [home / ".streamlit" / "secrets.toml" for home in homes]
    found = [place for place in places if place.is_file()]
    if not found:
        raise StudyError(
            "annotation.recruitment.oidc = true needs the provider's data in Streamlit's secrets.toml; write "
            f"[auth] with {', '.join(PROVIDER_KEYS)} into {places[-1]}"
        )
    settings: dict[str, object] = {}
    for place in found:
        try:
            table = tomllib.loads(place.read_text(encoding="utf-8")).get("auth", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            # Never its content: these are secrets.
            raise StudyError(f"cannot read {place} as TOML: {type(error).__name__}; fix it") from None
        settings |= table if isinstance(table, dict) else {}
    missing = [key for key in PROVIDER_KEYS if not settings.get(key)]
    if missing:
        raise StudyError(f"{found[-1]} lacks, in its table [auth]: {', '.join(missing)}; add what is missing")
