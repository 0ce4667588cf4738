"""The files of `deploy/` are what they say: they parse, start commands that exist, not as root, and probe what answers.

Linters look at them as well: yamllint, and where they are installed systemd-analyze, nginx and caddy.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, MemoryJournal
from keyturn.cli.main import parser_of
from tests.needs import missing

yaml: Any = pytest.importorskip("yaml", reason="deployment files are read with PyYAML: pip install pyyaml")
health: Any = pytest.importorskip("keyturn.server.api.health", reason="probes are routes of keyturn[server]")

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
#: What an image, an interpreter and a model's SDK read, beside our own variables.
OTHERS = {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "JOURNAL_URL", "OPENAI_API_KEY"}


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [each for file in files for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in manifests() if each["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    return {name: each["spec"]["template"] for name, each in of_kind("Deployment").items()}


def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]


def image() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage of the Containerfile."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stages: dict[str, list[tuple[str, str]]] = {}
    for line in filter(None, (line.strip() for line in text.splitlines() if not line.startswith("#"))):
        word, rest = line.split(None, 1)
        if word == "FROM":
            made = stages[rest.split(" AS ")[1]] = []
        else:
            made.append((word, rest))
    return stages


def commands() -> Iterator[list[str]]:
    """Every command line of ours, without the name of the program."""
    yield json.loads(dict(image()["keyturn"])["CMD"])
    for service in services().values():
        if service["build" if "build" in service else "image"] == services()["server"].get("build"):
            yield service["command"]
    for pod in pods().values():
        yield from (container["args"] for container in pod["spec"]["containers"])
    for unit in UNITS:
        program, *words = shlex.split(_value(unit, "ExecStart"))
        assert program.endswith("/keyturn")
        yield words


def _value(unit: Path, name: str) -> str:
    return next(line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{name}="))


def test_every_command_of_the_files_is_one_that_keyturn_accepts() -> None:
    found = list(commands())
    assert len(found) == 1 + 3 + 2 + 2
    for name, *words in found:
        given = parser_of(name).parse_args(words)
        assert given.app == "desk:app"
        if name == "serve":
            assert given.no_worker
            assert given.url.startswith("https://")
            assert given.secure
            assert given.proxy, "without it all users share one client address"


def test_nothing_runs_as_root_or_writes_beside_its_volumes() -> None:
    assert dict(image()["keyturn"])["USER"].split(":")[0] == "10001"
    assert dict(image()["pgbouncer"])["USER"] == "postgres"
    assert [word for word, rest in image()["keyturn"] if word == "COPY" and "--from=build" in rest], "two stages"
    for name, service in services().items():
        if "build" in service:
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"]
        if service.get("build") == services()["server"]["build"]:
            assert service["user"] == "10001:10001"
    for pod in pods().values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["automountServiceAccountToken"] is False
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert {"/var/lib/keyturn", "/tmp"} == {mount["mountPath"] for mount in container["volumeMounts"]}
    for unit in UNITS:
        assert _value(unit, "User") == "keyturn"


def test_probes_ask_what_answers_and_a_worker_is_given_its_grace() -> None:
    ways = {f"/v1{route.path}" for route in health.routes.table}
    for name, pod in pods().items():
        [container] = pod["spec"]["containers"]
        words, grace = container["args"], App([], MemoryJournal(), worker=False).grace
        assert pod["spec"]["terminationGracePeriodSeconds"] > grace
        for probe in (container["readinessProbe"], container["livenessProbe"]):
            if "httpGet" in probe:
                assert probe["httpGet"]["path"] in ways
                [host] = [each["value"] for each in probe["httpGet"]["httpHeaders"] if each["name"] == "Host"]
                assert f"--url=https://{host}" in words, "a request for an unknown host is refused"
                assert {"name": probe["httpGet"]["port"], "containerPort": 8321} in container["ports"]
            else:
                port = words[words.index("--health") + 1]
                assert port in probe["exec"]["command"][-1], name
                compile(probe["exec"]["command"][-1], name, "exec")
    for unit in UNITS:
        assert int(_value(unit, "TimeoutStopSec")) > grace
    for service in services().values():
        asked = service.get("healthcheck", {}).get("test", ())
        for word in asked[3:] if "python" in asked else ():
            compile(word, "healthcheck", "exec")
            assert all(way in ways for way in re.findall(r"/v1/[\w/]+", word))


def test_what_a_manifest_names_is_there() -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}
    for name, deployment in of_kind("Deployment").items():
        assert deployment["spec"]["selector"]["matchLabels"] == labels[name]
        assert of_kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == labels[name]
        assert of_kind("PodDisruptionBudget")[name]["spec"]["minAvailable"] < deployment["spec"]["replicas"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert {each["secretRef"]["name"] for each in container["envFrom"]} == set(of_kind("Secret"))
    [scaler] = of_kind("HorizontalPodAutoscaler").values()
    assert scaler["spec"]["scaleTargetRef"]["name"] in labels
    [metric] = scaler["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] in {each.name for each in health.Metrics().registry.collect()}
    policies = of_kind("NetworkPolicy")
    assert policies["keyturn-server-in"]["spec"]["podSelector"]["matchLabels"] == labels["keyturn-server"]
    assert policies["keyturn-in"]["spec"].get("ingress") is None, "nothing else comes in"
    rolling = of_kind("Deployment")["keyturn-worker"]["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}


def test_every_variable_of_the_files_is_one_that_something_reads() -> None:
    known = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "configuration.md").read_text(), re.M)) | OTHERS
    named = set(re.findall(r"\b([A-Z][A-Z_]{3,})=", (DEPLOY / "Containerfile").read_text())) | {"PATH"}
    for service in services().values():
        if service.get("build") == services()["server"]["build"]:
            named |= set(service["environment"])
    named |= set(of_kind("Secret")["keyturn"]["stringData"])
    for unit in UNITS:
        named |= set(re.findall(r"\b([A-Z][A-Z_]{3,})=", unit.read_text()))
    assert named <= known, f"nothing reads {sorted(named - known)}"
    assert {"KEYTURN_SECRET", "KEYTURN_HOME", "JOURNAL_URL"} <= named
    pooler = ConfigParser(interpolation=None)
    pooler.read(DEPLOY / "pgbouncer" / "pgbouncer.ini")
    assert pooler["pgbouncer"]["pool_mode"] == "transaction"
    through = [service for service in services().values() if "@pgbouncer:" in str(service.get("environment"))]
    assert len(through) == 2
    assert all("pooled=1" in service["environment"]["JOURNAL_URL"] for service in through)


@pytest.mark.trial
def test_the_app_that_is_deployed_is_one() -> None:
    words = "import runpy, sys; app = runpy.run_path(sys.argv[1])['app']; print(*app.agents)"
    done = subprocess.run(
        [sys.executable, "-c", words, DEPLOY / "desk.py"],
        env={"JOURNAL_URL": "memory://", "PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["desk"]


def _linted(program: str, *words: str | Path) -> None:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(missing(program))
    _finds_nothing(found, *words)


def _finds_nothing(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_yamllint_finds_nothing() -> None:
    _finds_nothing(sys.executable, "-m", "yamllint", "--strict", "-c", DEPLOY / ".yamllint", DEPLOY)


def test_systemd_finds_nothing_and_the_units_are_confined(tmp_path: Path) -> None:
    for unit in UNITS:
        made = tmp_path / unit.name
        made.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text()))
        _linted("systemd-analyze", "verify", "--man=no", made)
        _linted("systemd-analyze", "security", "--offline=true", "--threshold=50", made)


def test_nginx_accepts_its_site(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip(missing("openssl"))
    pem, key = tmp_path / "inbox.example.pem", tmp_path / "inbox.example.key"
    asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=inbox.example", "-days", "2"]
    subprocess.run([*asked, "-out", pem, "-keyout", key], capture_output=True, check=True)
    site = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/", f"{tmp_path}/")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {site} }}")
    _linted("nginx", "-t", "-q", "-e", tmp_path / "errors", "-p", tmp_path, "-c", tmp_path / "nginx.conf")


def test_both_proxies_stream_and_keep_the_host() -> None:
    site, caddy = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "Caddyfile").read_text()
    for words in ("proxy_buffering off", "proxy_set_header Host $host", "X-Forwarded-For $proxy_add_x_forwarded_for"):
        assert words in site
    assert caddy.count("{") == caddy.count("}")
    assert "flush_interval -1" in caddy


def test_caddy_accepts_its_site() -> None:
    _linted("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
