"""`iris-fed init`: a first configuration with its keys."""

import os
from pathlib import Path
from typing import Annotated

import typer

from iris_fed.errors import AlreadyExists, ConfigError

CONFIG_FILE = "iris-fed.yaml"
SIGNING_KEY = "signing-key.pem"
NONCE_KEY = "nonce.key"
_DIRECTORY = Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write; made when absent.")]
_NAME = Annotated[str, typer.Option("--name", metavar="NAME", help="The cluster's name: a-z, 0-9 and inner '-'.")]

TEMPLATE = """\
# The configuration of one controller. Every setting: docs/configuration.md.
# Check it with `iris-fed config check {config}`.

cluster:
  name: {name}              # identity of this cluster; cannot be changed later

state_dir: state            # database, outputs, admin token; relative to this file

listen:
  host: 127.0.0.1           # beyond loopback: docs/security.md
  port: 8478                # 0 = any free port; the URL is written to state/controller.url

backends:
  - id: local               # runs tasks as processes of this machine
    # cpu: 8                # cores to hand out; absent = all
    # memory: 32GB          # absent = what the machine has
    # devices: {{h100: 8}}    # accelerators of this machine, by lower-case variant
    # attributes: {{region: eu-west4}}
    # shared_uid: accept    # or run_as: needed with several users or federation_peers, see docs/security.md

auth:
  signing_key: file:{signing_key}   # proves to peers who this cluster is
  nonce_key: file:{nonce_key}             # marks handed-off jobs as ours; back it up with the database
  # Clusters that may hand jobs to this one, with the public key that their `iris-fed init` printed:
  # federation_peers:
  #   other-lab:
  #     public_keys:
  #       - |
  #         -----BEGIN PUBLIC KEY-----
  #         ...
  #         -----END PUBLIC KEY-----

# Clusters that this one may hand jobs to. They must list this cluster's public key.
# peers:
#   - name: other-lab
#     address: https://other-lab.example.org
"""


def init(directory: _DIRECTORY = Path(), name: _NAME = "my-lab") -> None:
    """Write a commented configuration and this cluster's keys; nothing that exists is overwritten."""
    from iris_fed.errors import InvalidArgument
    from iris_fed.model.ids import check_cluster_name

    try:
        check_cluster_name(name, "--name")
    except InvalidArgument as error:
        from iris_fed.cli.parse import UsageError

        raise UsageError(error.message) from error
    public_key = write_first_configuration(directory, name)
    config = directory / CONFIG_FILE
    print(f"wrote {config}, {directory / SIGNING_KEY} and {directory / NONCE_KEY}\n")
    print(f"This cluster's public key, for the `auth.federation_peers.{name}` of its peers:\n\n{public_key}")
    print(f"Next: iris-fed serve --config {config}")
    print(f"then: iris-fed context add {name} --state-dir {directory / 'state'}")


def write_first_configuration(directory: Path, name: str) -> str:
    """Write the three files and return the public key (PEM).

    Raises AlreadyExists when one of them exists, ConfigError when the directory cannot be written.
    """
    private, public = new_key_pair()
    template = TEMPLATE.format(name=name, config=CONFIG_FILE, signing_key=SIGNING_KEY, nonce_key=NONCE_KEY)
    contents = (
        (SIGNING_KEY, private, 0o600),
        (NONCE_KEY, os.urandom(32).hex() + "\n", 0o600),
        (CONFIG_FILE, template, 0o644),
    )
    present = [directory / file for file, _, _ in contents if (directory / file).exists()]
    if present:
        raise AlreadyExists(f"{present[0]} exists and is not overwritten")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, content, mode in contents:
            write_new(directory / file, content, mode)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    return public


def new_key_pair() -> tuple[str, str]:
    """A fresh Ed25519 key: private (PKCS 8) and public (SubjectPublicKeyInfo), both PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def write_new(path: Path, content: str, mode: int) -> None:
    """Create `path` with exactly `mode`; never readable by more, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
