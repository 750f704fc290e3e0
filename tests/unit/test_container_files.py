"""The image's and compose's files say what this code understands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from iris_fed.config.load import load_settings
from iris_fed.errors import ConfigError

DOCKER = Path(__file__).resolve().parents[2] / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def image_variables() -> dict[str, str]:
    block = re.search(r"^ENV (.*?)(?<!\\)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert block is not None
    return dict(word.partition("=")[::2] for word in shlex.split(block[1].replace("\\\n", " ")))


@pytest.mark.parametrize(("name", "port"), [("hub", 8478), ("lab", 8479)])
def test_each_cluster_of_the_compose_file_has_a_configuration_that_is_understood(name: str, port: int) -> None:
    variables = image_variables() | SERVICES[name].get("environment", {})
    settings = load_settings(DOCKER / "compose" / f"{name}.yaml", variables)
    assert settings.cluster.name == name
    assert (settings.listen.host, settings.listen.port) == ("0.0.0.0", port)
    assert variables["IRIS_FED_CONTROLLER"] == f"http://127.0.0.1:{port}"
    mounted = {volume.split(":")[1]: volume.split(":")[0] for volume in SERVICES[name]["volumes"]}
    assert mounted[variables["IRIS_FED_CONFIG"]] == f"./compose/{name}.yaml"
    assert str(settings.state_dir) in mounted
    assert variables["IRIS_FED_TOKEN_FILE"] == f"{settings.state_dir}/admin.token"


def test_the_image_alone_takes_its_settings_from_variables(tmp_path: Path) -> None:
    file = tmp_path / "iris-fed.yaml"
    file.write_text("{}\n")
    assert "printf '{}\\n' > /etc/iris-fed/iris-fed.yaml" in DOCKERFILE
    own = {"IRIS_FED_CLUSTER__NAME": "lab", "IRIS_FED_AUTH__IAP__SIGNED_HEADER_AUDIENCE": "/projects/1/apps/lab"}
    assert load_settings(file, image_variables() | own).cluster.name == "lab"
    # Beyond loopback it starts for nobody as long as it cannot tell who asks.
    with pytest.raises(ConfigError, match="no way to tell who asks"):
        load_settings(file, image_variables() | {"IRIS_FED_CLUSTER__NAME": "lab"})


def test_the_peer_of_the_compose_file_is_the_other_service_on_the_network_they_share() -> None:
    hub = load_settings(DOCKER / "compose" / "hub.yaml", image_variables())
    (peer,) = hub.peers
    port = SERVICES["lab"]["environment"]["IRIS_FED_LISTEN__PORT"]
    assert (peer.name, peer.address) == ("lab", f"http://127.0.0.1:{port}")
    assert SERVICES["lab"]["network_mode"] == "service:hub"


def test_what_the_compose_file_names_is_there() -> None:
    for name, service in SERVICES.items():
        assert service["image"] == "iris-fed"
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        for other in service.get("depends_on", {}):
            assert other in SERVICES, name
    build = SERVICES["hub-keys"]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).samefile(DOCKER / "Dockerfile")
    for cluster in ("hub", "lab"):
        assert SERVICES[f"{cluster}-keys"]["command"] == [cluster]


def test_the_manifest_for_gke_holds_a_configuration_that_is_understood(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((DOCKER.parent / "docs" / "deploy" / "gke.yaml").read_text()))
    (text,) = [one["data"]["iris-fed.yaml"] for one in documents if one["kind"] == "ConfigMap"]
    file = tmp_path / "iris-fed.yaml"
    file.write_text(text)
    settings = load_settings(file, image_variables())
    assert [peer.name for peer in settings.peers] == ["lab"]
    (pod,) = [one["spec"]["template"]["spec"] for one in documents if one["kind"] == "StatefulSet"]
    (container,) = pod["containers"]
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(settings.state_dir), str(Path(image_variables()["IRIS_FED_CONFIG"]).parent), "/keys"} <= places
    assert settings.shutdown_grace_s < pod["terminationGracePeriodSeconds"]
    assert container["ports"][0]["containerPort"] == settings.listen.port
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE
