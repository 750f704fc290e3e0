"""The configuration: what is accepted, and the sentence for each thing that is not."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from iris_fed.config.load import load_settings
from iris_fed.config.references import read_public_key, read_secret
from iris_fed.config.sections import EDGE_LIMITS, MAX_HANDOFF_EXPIRY_S, LimitSettings, LocalBackendSettings
from iris_fed.config.settings import Settings
from iris_fed.config.show import describe, effective_yaml
from iris_fed.config.units import parse_bytes, parse_millicores
from iris_fed.errors import ConfigError, InvalidArgument
from iris_fed.model import ids, limits

Load = Callable[..., Settings]
HUB = "cluster: {name: hub}\n"
PEM = "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def from_text(text: str, environ: Mapping[str, str] | None = None) -> Settings:
        path = tmp_path / "hub.yaml"
        path.write_text(text)
        return load_settings(path, environ or {})

    return from_text


def refusal(load: Load, text: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, environ)
    return caught.value.message


def test_a_name_alone_gives_a_cluster_with_one_local_backend_and_no_federation(load: Load, tmp_path: Path) -> None:
    settings = load(HUB)
    assert (settings.cluster.name, settings.listen.port, settings.peers) == ("hub", 8478, [])
    assert settings.backends == [LocalBackendSettings()]
    assert settings.state_dir == tmp_path / "state"


def test_an_empty_list_of_backends_hosts_nothing(load: Load) -> None:
    assert load(HUB + "backends: []\n").backends == []


def test_a_backend_is_read_with_its_units(load: Load) -> None:
    backend = load(
        HUB + "backends:\n- {id: gpus, cpu: 1.5, memory: 16GiB, devices: {h100: 8},"
        " attributes: {region: eu, zone: [a, b], preemptible: false}}\n"
    ).backends[0]
    assert isinstance(backend, LocalBackendSettings)
    assert (backend.cpu, backend.memory, backend.devices) == (1_500, 16 * 2**30, {"h100": 8})
    assert backend.attributes == {"region": ("eu",), "zone": ("a", "b"), "preemptible": ("false",)}


def test_variables_lie_over_the_file(load: Load) -> None:
    environ = {"IRIS_FED_LISTEN__PORT": "0", "IRIS_FED_LOG__FORMAT": "json", "PATH": "/bin"}
    settings = load(HUB + "listen: {port: 9, host: localhost}\n", environ)
    assert (settings.listen.port, settings.listen.host, settings.log.format) == (0, "localhost", "json")


def test_a_list_in_a_variable_is_json(load: Load) -> None:
    environ = {"IRIS_FED_BACKENDS": '[{"id": "one", "cpu": "2"}]'}
    assert load(HUB, environ).backends == [LocalBackendSettings.model_validate({"id": "one", "cpu": "2"})]


def test_the_environment_of_the_process_is_not_read_behind_the_callers_back(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_FED_LISTEN__PORT", "1")
    assert load(HUB).listen.port == 8478


def test_the_command_lines_own_variables_are_no_unknown_settings(load: Load) -> None:
    assert load(HUB, {"IRIS_FED_CONTROLLER": "http://127.0.0.1:1"}).cluster.name == "hub"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HUB + "listen:\n  prot: 1\n", ":3: listen.prot: unknown key, did you mean 'port'?"),
        (HUB + "colour: red\n", ":2: colour: unknown key"),
        (
            HUB + "peers:\n- name: lab\n  address: https://lab\n  capabilities: [gpu]\n",
            ":5: peers.0.capabilities: unknown key",
        ),
        ("log: {level: info}\n", "cluster: this setting is required"),
        ("cluster: {name: Hub}\n", "'Hub' is no name"),
        ("cluster: {name: local}\n", "cannot be named 'local'"),
        ("cluster: {name: a.b}\n", "'a.b' is no name"),
        ("cluster: {name: hub, name: lab}\n", ":1: the key 'name' stands here twice"),
        ("cluster: [\n", "not YAML"),
        ("- cluster\n", "must hold keys and values"),
        (HUB + "backends:\n- devices: {4090: 1}\n", ":3: the key '4090' must be text"),
        (HUB + "listen: {host: 0.0.0.0}\n", "'0.0.0.0' is not a loopback address"),
        (HUB + "listen: {port: 70000}\n", ":2: listen.port: input should be less than or equal to 65535"),
        (HUB + "listen: {port: true}\n", "listen.port: should be a number, not true or false"),
        (HUB + "listen: {port: many}\n", "listen.port: input should be a valid integer"),
        (HUB + "shutdown_grace_s: .inf\n", "shutdown_grace_s"),
        (HUB + "shutdown_grace_s: -1\n", "shutdown_grace_s"),
        (HUB + "backends:\n- memory: lots\n", ":3: backends.0.memory: 'lots' is no size"),
        (HUB + "backends:\n- cpu: -1\n", "backends.0.cpu: '-1' is no number of cores"),
        (HUB + "backends:\n- devices: {H100: 1}\n", "'H100' is no device variant"),
        (HUB + "backends:\n- {device_type: cpu, devices: {h100: 1}}\n", "device_type is cpu, but devices are declared"),
        (HUB + "backends:\n- attributes: {device-type: gpu}\n", "'device-type' cannot be an attribute"),
        (HUB + "backends:\n- id: a\n- id: a\n", "backends: the id 'a' is used twice"),
        (HUB + "backends:\n- kind: pbs\n", "backends.0: kind: no engine has this name: local or slurm"),
        (HUB + "backends:\n- kind: slurm\n", "backends.0.shared_dir: this setting is required"),
        (HUB + "backends:\n- {kind: slurm, shared_dir: /s, acounts: [a]}\n", "did you mean 'accounts'?"),
        (HUB + "backends:\n- {kind: slurm, shared_dir: /s, sbatch_args: [--wrap=x]}\n", "'--wrap=x' may not be given"),
        (HUB + "backends:\n- {kind: slurm, shared_dir: /s, run_as: ann}\n", "run_as and a submit_command with {user}"),
        (HUB + "peers: [{name: lab, address: 'http://lab:1'}]\n", "http:// is for loopback only"),
        (HUB + "peers: [{name: lab, address: 'ftp://lab'}]\n", "an address looks like https://host[:port]"),
        (HUB + "peers: [{name: lab, address: 'https://lab:notaport'}]\n", "is no URL"),
        (HUB + "peers: [{name: lab, address: 'https://lab'}]\n", "auth.signing_key: needed because peers are declared"),
        (
            HUB + "peers: [{name: lab, address: 'https://lab'}]\nauth: {signing_key: 'file:k'}\n",
            "auth.nonce_key: needed because peers are declared",
        ),
        (HUB + "auth: {signing_key: 'file:k', nonce_key: 'file:k'}\n", "must not be the signing key"),
        (HUB + "peers: [{name: hub, address: 'https://lab'}]\n", "peers: 'hub' is this cluster itself"),
        (
            HUB + "peers: [{name: a, address: 'https://a'}, {name: a, address: 'https://b'}]\n",
            "peers: 'a' is declared twice",
        ),
        (
            HUB + "peers: [{name: a, address: 'https://a'}, {name: b, address: 'https://a/'}]\n",
            "two peers share the address https://a",
        ),
        (HUB + f"auth: {{federation_peers: {{hub: {{public_keys: ['{PEM[:20]}']}}}}}}\n", "a public key is PEM text"),
        (HUB + "auth: {federation_peers: {hub: {public_keys: ['file:k']}}}\n", "'hub' is this cluster itself"),
        (
            HUB + "auth: {federation_peers: {lab: {}}}\n",
            "auth.federation_peers.lab.public_keys: this setting is required",
        ),
        (HUB + "federation: {heartbeat_timeout_s: 5}\n", "heartbeat_timeout_s must be below heartbeat_interval_s"),
        (HUB + "federation: {handoff_expiry_s: 2000000}\n", "federation.handoff_expiry_s"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper"),
        ("a: &a [*a]\n", "nested deeper"),
    ],
)
def test_a_mistake_in_the_file_is_named_in_one_line(load: Load, text: str, expected: str) -> None:
    message = refusal(load, text)
    assert expected in message
    assert "\n" not in message
    assert "hub.yaml" in message


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"IRIS_FED_LISTEN__PROT": "1"}, "IRIS_FED_LISTEN__PROT: no setting has this name"),
        ({"IRIS_FED_PORT": "1"}, "IRIS_FED_PORT: no setting has this name"),
        ({"IRIS_FED_LISTEN__PORT__X": "1"}, "IRIS_FED_LISTEN__PORT__X: no setting has this name"),
        ({"IRIS_FED_": "1"}, "IRIS_FED_: no setting has this name"),
        ({"IRIS_FED_LISTEN__PORT": "x"}, "IRIS_FED_LISTEN__PORT: listen.port: input should be a valid integer"),
        ({"IRIS_FED_PEERS": "lab"}, "the environment: "),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(load: Load, environ: dict[str, str], expected: str) -> None:
    assert expected in refusal(load, HUB, environ)


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; `iris-fed init` writes one"):
        load_settings(tmp_path / "none.yaml", {})


def test_a_file_that_is_a_directory_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path, {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(tmp_path / "binary", {})


@pytest.mark.parametrize("section", ["signing_key", "nonce_key"])
def test_an_inline_secret_is_refused_without_being_repeated(load: Load, section: str) -> None:
    message = refusal(load, HUB + f"auth: {{{section}: hunter2}}\n")
    assert "never inline" in message
    assert "hunter2" not in message


def test_a_password_in_a_peers_address_is_refused_without_being_repeated(load: Load) -> None:
    message = refusal(load, HUB + "peers: [{name: lab, address: 'https://me:hunter2@lab'}]\n")
    assert "holds no user" in message
    assert "hunter2" not in message


def test_paths_start_at_the_files_folder(load: Load, tmp_path: Path) -> None:
    settings = load(
        HUB
        + "state_dir: var/hub\nauth:\n  signing_key: file:keys/a.pem\n  nonce_key: env:NONCE\n"
        f"  federation_peers: {{lab: {{public_keys: ['file:lab.pem', {PEM!r}]}}}}\n".replace("\\n", "\n\n    ")
    )
    assert settings.state_dir == tmp_path / "var/hub"
    assert settings.auth.signing_key == f"file:{tmp_path}/keys/a.pem"
    assert settings.auth.nonce_key == "env:NONCE"
    assert settings.auth.federation_peers["lab"].public_keys[0] == f"file:{tmp_path}/lab.pem"


def test_a_secret_is_read_from_its_file_or_variable(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    assert read_secret(f"file:{tmp_path}/key", {}, "auth.nonce_key") == "s3cret"
    assert read_secret("env:KEY", {"KEY": " s3cret "}, "auth.nonce_key") == "s3cret"
    assert read_public_key(PEM, "auth") == PEM


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("file:{dir}/none", "auth.nonce_key: cannot read"),
        ("file:{dir}/empty", "empty is empty or not set"),
        ("file:{dir}/big", "over 65536 bytes"),
        ("file:{dir}/binary", "is not text"),
        ("env:NONE", "the variable NONE is empty or not set"),
    ],
)
def test_a_secret_that_cannot_be_read_says_why(tmp_path: Path, reference: str, expected: str) -> None:
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "big").write_bytes(b"x" * 65_537)
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=expected):
        read_secret(reference.format(dir=tmp_path), {}, "auth.nonce_key")


def test_the_effective_configuration_reads_back_as_itself(load: Load) -> None:
    settings = load(HUB + "auth: {signing_key: 'file:/k', nonce_key: 'file:/n'}\nbackends: [{memory: 1GB}]\n")
    assert load(effective_yaml(settings)) == settings


def test_the_effective_configuration_masks_what_may_be_a_secret(load: Load) -> None:
    shown = yaml.safe_load(effective_yaml(load(HUB + "auth: {signing_key: 'env:hunter2'}\n")))
    assert shown["auth"]["signing_key"] == "env:********"


@pytest.mark.parametrize("name", ["hub", "a", "a" * 32, "a-1", "-a", "a-", "A", "a" * 33, "local", "a.b", "", "ü"])
def test_a_cluster_may_be_named_here_as_on_the_wire(load: Load, name: str) -> None:
    try:
        ids.check_cluster_name(name, "cluster.name")
    except InvalidArgument:
        refusal(load, f"cluster: {{name: '{name}'}}\n")
    else:
        assert load(f"cluster: {{name: '{name}'}}\n").cluster.name == name


def test_the_limits_of_requests_are_those_of_the_model() -> None:
    defaults = dataclasses.asdict(limits.Limits())
    assert LimitSettings().model_dump(exclude=set(EDGE_LIMITS)) == defaults


def test_a_handoff_expires_within_half_the_replay_window() -> None:
    assert MAX_HANDOFF_EXPIRY_S * 1_000 == limits.REPLAY_WINDOW_MS / 2


def test_the_page_about_the_configuration_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert page.read_text() == describe()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16GB", 16 * 10**9),
        ("16GiB", 2**34),
        ("16Gi", 2**34),
        ("1.5k", 1_500),
        ("512 MB", 512 * 10**6),
        (7, 7),
        ("0", 0),
    ],
)
def test_a_size_is_read_in_bytes(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1iB", "1e9", "\u0661GB", "nan", True])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "expected"), [("4", 4_000), (0.5, 500), ("500m", 500), (2, 2_000)])
def test_cores_are_read_in_thousandths(text: str | float, expected: int) -> None:
    assert parse_millicores(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "4 cores", "inf", True])
def test_what_is_no_number_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no number of cores"):
        parse_millicores(text)
