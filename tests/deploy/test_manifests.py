"""Container file, compose file and Kubernetes manifests: schemas, agreement, and a cluster from them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from raftlog.cluster_secret import create_secret
from raftlog.testing import BrokerProcess, process_start
from raftlog.testing.http import ask
from raftlog.testing.ports import reserve_port
from tests.waiting import block_until

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = ("1.28", "1.37")
UID = 10001
SECONDS_MAX = 180.0
Settings = dict[str, str]


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "raftlog.yaml").read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if each["kind"] == kind]
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def settings_of_compose() -> list[Settings]:
    return [each["environment"] for name, each in compose()["services"].items() if name != "secret"]


def settings_of_kubernetes() -> list[Settings]:
    """Return the variables of each pod, with what Kubernetes would put in."""
    spec = of_kind("StatefulSet")["spec"]
    rows = spec["template"]["spec"]["containers"][0]["env"]
    found = []
    for index in range(spec["replicas"]):
        fields = {
            "metadata.name": f"raftlog-{index}",
            "metadata.labels['apps.kubernetes.io/pod-index']": str(index),
            "spec.nodeName": f"node-{index}",
        }
        values: Settings = {}
        for row in rows:
            value = row["value"] if "value" in row else fields[row["valueFrom"]["fieldRef"]["fieldPath"]]
            values[row["name"]] = re.sub(r"\$\((\w+)\)", lambda found, values=values: values[found[1]], value)
        found.append({name: value for name, value in values.items() if name.startswith("RAFTLOG_")})
    return found


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_match_the_schemas_of_kubernetes(version: str) -> None:
    assert {each["kind"] for each in manifests()} == {"Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet"}
    for each in manifests():
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_notice_errors() -> None:
    wrong = of_kind("StatefulSet")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[0], strict=True)


def test_all_parts_of_the_manifests_select_the_same_pods() -> None:
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in manifests() if each["kind"] == "Service"]
    selectors += [of_kind(kind)["spec"]["selector"]["matchLabels"] for kind in ("StatefulSet", "PodDisruptionBudget")]
    selectors.append(of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert selectors == [labels] * len(selectors)
    assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    headless = next(
        each for each in manifests() if each["kind"] == "Service" and each["spec"].get("clusterIP") == "None"
    )
    assert headless["metadata"]["name"] == of_kind("StatefulSet")["spec"]["serviceName"]
    assert headless["spec"]["publishNotReadyAddresses"]


def test_pods_are_probed_drained_and_confined() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/status/ready"
    wait = re.match(r"timeout (\d+) .*raftlog cluster health", container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert wait is not None
    assert pod["terminationGracePeriodSeconds"] > int(wait[1]) + 5
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == UID
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_a_pod_stops_when_the_cluster_is_healthy_and_at_the_end_of_its_wait(tmp_path: Path) -> None:
    command = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"][
        "command"
    ]
    stub = tmp_path / "raftlog"
    for body, seconds in (("exit 0", "120"), ("exec sleep 1000", "1")):
        stub.write_text(f"#!/bin/sh\n{body}\n")
        stub.chmod(0o755)
        bounded = [each.replace("timeout 120", f"timeout {seconds}") for each in command]
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        assert subprocess.run(bounded, env=env, timeout=SECONDS_MAX, check=False).returncode == 0


def test_the_image_runs_without_root_and_has_all_sources() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert f"USER {UID}:{UID}" in text
    assert "HEALTHCHECK" in text
    root = DEPLOY.parent
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE))
    links = {path.name for path in (root / "raftlog").iterdir() if path.is_symlink()}
    assert copied == links | {"raftlog"}
    for name in re.findall(r"^COPY (pyproject.*) \./$", text, re.MULTILINE)[0].split():
        assert (root / name).exists()
    services = compose()["services"].values()
    assert all(each["read_only"] and each["user"] == f"{UID}:{UID}" for each in services)


def test_the_secret_of_the_compose_file_is_created_once_for_the_user_of_the_brokers(tmp_path: Path) -> None:
    services = compose()["services"]
    service = services.pop("secret")
    *command, path = [each.replace("$$", "$") for each in service["entrypoint"]]
    (folder,) = {each.partition(":")[2] for each in service["volumes"]}
    assert Path(path).parent == Path(folder)
    assert f" {folder}\n" in (DEPLOY / "Containerfile").read_text(), "the image has the folder, with its owner"
    for each in services.values():
        assert each["environment"]["RAFTLOG_CLUSTER_SECRET_FILE"] == path
        assert f"secret:{folder}:ro" in each["volumes"]
        assert each["depends_on"] == {"secret": {"condition": "service_completed_successfully"}}
    program = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    created = tmp_path / "cluster.secret"
    contents = []
    for _ in range(2):
        subprocess.run([*command, str(created)], env=os.environ | program, check=True, capture_output=True)
        contents.append(created.read_bytes())
    assert contents[0] == contents[1]
    assert created.stat().st_mode & 0o777 == 0o600


def test_the_health_check_of_the_image_works(tmp_path: Path) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    code = re.search(r'CMD \["python", "-c", "(.+)"\]', text)
    assert code is not None
    assert "127.0.0.1:8082/v1/status/ready" in code[1]
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        port = broker.address.rpartition(":")[2]
        for expected in (0, 1):
            command = [sys.executable, "-c", code[1].replace("8082", port)]
            assert subprocess.run(command, check=False, capture_output=True).returncode == expected
            broker.kill()


@pytest.mark.parametrize("settings", [settings_of_compose(), settings_of_kubernetes()], ids=["compose", "kubernetes"])
def test_the_settings_form_a_cluster(settings: list[Settings], tmp_path: Path) -> None:
    """Three brokers with these variables, on ports of loopback, become ready, and stop cleanly."""
    secret = tmp_path / "cluster.secret"
    create_secret(str(secret))
    processes = []
    try:
        for number, variables in enumerate(place_on_loopback(settings)):
            given = {**variables, "RAFTLOG_CLUSTER_SECRET_FILE": str(secret)}
            given["RAFTLOG_DATA_DIR"] = str(tmp_path / str(number))
            others = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
            log = (tmp_path / f"{number}.log").open("wb")
            with log:
                command = [sys.executable, "-m", "raftlog.cli", "serve"]
                processes.append((given["RAFTLOG_HTTP"], process_start.start(command, env=others | given, stderr=log)))
        for address, process in processes:
            block_until(
                lambda address=address, process=process: process.poll() is not None or is_ready(address),
                within_s=SECONDS_MAX,
            )
            assert process.poll() is None, [path.read_text()[-2000:] for path in tmp_path.glob("*.log")]
        _, health = ask(processes[0][0], "/v1/cluster/health_overview", timeout_s=10)
        assert len(health["all_nodes"]) == 3
        for _, process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for _, process in processes] == [0, 0, 0]
    finally:
        for _, process in processes:
            process.kill()
            process.wait()


def is_ready(address: str) -> bool:
    try:
        return ask(address, "/v1/status/ready", timeout_s=5)[0] == 200
    except Exception:  # noqa: BLE001 - it does not listen yet
        return False


def place_on_loopback(settings: list[Settings]) -> list[Settings]:
    """Return the settings with free ports of loopback in place of addresses, the same for equal addresses."""
    names = ("HTTP", "RPC", "GOSSIP", "KAFKA")
    reserved = [reserve_port() for _ in range(len(names) * len(settings))]
    ports = iter([str(each.getsockname()[1]) for each in reserved])
    for each in reserved:
        each.close()
    known: Settings = {}
    placed = []
    for variables in settings:
        copy = dict(variables)
        for name in names:
            copy[f"RAFTLOG_{name}"] = f"127.0.0.1:{next(ports)}"
            if advertised := variables.get(f"RAFTLOG_ADVERTISE_{name}"):
                known[advertised] = copy[f"RAFTLOG_ADVERTISE_{name}"] = copy[f"RAFTLOG_{name}"]
        placed.append(copy)
    for copy in placed:
        copy["RAFTLOG_SEEDS"] = ",".join(known[seed] for seed in copy["RAFTLOG_SEEDS"].split(","))
    return placed
