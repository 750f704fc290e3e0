"""`iris-fed keys ...`: the keys by which a cluster is known to its peers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iris_fed.cli.options import Json, examples
from iris_fed.cli.settings_file import ConfigFile, load, pick_config
from iris_fed.errors import ConfigError

if TYPE_CHECKING:
    from iris_fed.config.settings import Settings

app = typer.Typer(help="Make, show and rotate this cluster's keys. Works on local files.", no_args_is_help=True)

WHAT_BREAKS = (
    "keys were replaced: until peers list the new public key they refuse this cluster; user tokens count no more; "
    "jobs that are at a peer now are not recognised as this cluster's after a loss of its database"
)
_DIRECTORY = Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write; made when absent.")]
_FILE = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A key in PEM, of a peer for example.", show_default=False)
]


@app.command("init", epilog=examples("iris-fed keys init hub"))
def init(
    directory: _DIRECTORY = Path(),
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace keys that exist: peers and users must all be served anew."),
    ] = False,
) -> None:
    """Make a signing key and a nonce key, readable by their owner only, and print the public key.

    `iris-fed init` does the same and writes a configuration too.
    """
    from iris_fed.cli.key_files import make_keys
    from iris_fed.cli.setup import NONCE_KEY, SIGNING_KEY
    from iris_fed.cli.terminal import say

    there = any((directory / name).exists() for name in (SIGNING_KEY, NONCE_KEY))
    public_key = make_keys(directory, force)
    if there:
        say(WHAT_BREAKS)
    say(f"wrote {directory / SIGNING_KEY} and {directory / NONCE_KEY}: auth.signing_key and auth.nonce_key")
    _print_key(public_key)


@app.command("show", epilog=examples("iris-fed keys show", "iris-fed keys show hub.pub"))
def show(file: _FILE = None, config: ConfigFile = None, json: Json = False) -> None:
    """Print the public key that peers need, and its fingerprint, by which they can tell it is the right one.

    Of FILE, either half of a key; else of the configuration's signing key.
    """
    from iris_fed.cli.key_files import fingerprint, public_of
    from iris_fed.cli.terminal import print_json

    public_key = public_of(file) if file is not None else _public_key(load(pick_config(config)))
    if json:
        print_json({"publicKey": public_key, "fingerprint": fingerprint(public_key)})
    else:
        _print_key(public_key)


@app.command("rotate", epilog=examples("iris-fed keys rotate", "iris-fed keys rotate --activate"))
def rotate(
    config: ConfigFile = None,
    activate: Annotated[
        bool, typer.Option("--activate", help="Second step: put the prepared key in place of the old one.")
    ] = False,
) -> None:
    """Follow the signing key with a new one, in two steps, and without a moment in which peers refuse.

    First: prepares the new key and prints its public half, for the peers to list beside the old one. Then, with
    --activate: takes it into use; user tokens that the old one signed go on counting.
    """
    from iris_fed.cli.key_files import activate_next, prepare_next
    from iris_fed.cli.terminal import say

    path = pick_config(config)
    settings = load(path)
    signing_key = _signing_key_file(settings)
    name = settings.cluster.name
    if not activate:
        public_key = prepare_next(signing_key)
        say(f"1. every peer of {name} adds this key to its auth.federation_peers.{name}.public_keys and restarts")
        say(f"2. here: iris-fed keys rotate --activate --config {path}")
        _print_key(public_key)
        return
    done = activate_next(signing_key, path, load)
    if done.configured:
        say(f"{path} lists {done.reference} in auth.previous_signing_keys, for user tokens that it signed")
    else:
        say(f"{path} was left alone: add {done.reference} to its auth.previous_signing_keys")
    say("3. restart this controller, then `iris-fed peer check` each peer")
    say(f"4. every peer removes {done.previous.name} (the old key) from {name}'s public_keys")
    say(f"5. after auth.user_token_days ({settings.auth.user_token_days:g}) the entry here can go too")
    _print_key(done.public_key)


def _print_key(public_key: str) -> None:
    """The key alone on stdout, so that it can go to a file."""
    from iris_fed.cli.key_files import fingerprint
    from iris_fed.cli.terminal import say

    print(public_key, end="", flush=True)
    say(f"fingerprint {fingerprint(public_key)}")


def _public_key(settings: "Settings") -> str:
    import os

    from iris_fed.cli.key_files import public_pem
    from iris_fed.config.references import read_secret

    what = "auth.signing_key"
    return public_pem(read_secret(_reference(settings), os.environ, what), what)


def _signing_key_file(settings: "Settings") -> Path:
    reference = _reference(settings)
    if not reference.startswith("file:"):
        raise ConfigError("auth.signing_key is no file, so it is rotated where it is kept; `keys show` tells its half")
    return Path(reference.removeprefix("file:"))


def _reference(settings: Any) -> str:
    reference: str | None = settings.auth.signing_key
    if reference is None:
        raise ConfigError("auth.signing_key is not set; `iris-fed keys init` makes one")
    return reference
