"""Ed25519 keys as PEM text."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from iris_fed.errors import ConfigError


def private_key_from_pem(pem: str, what: str) -> Ed25519PrivateKey:
    """Raises ConfigError, naming `what`, unless it is an Ed25519 private key."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{what}: not an Ed25519 private key in PEM; `iris-fed init` makes one")
    return key


def public_key_from_pem(pem: str, what: str) -> Ed25519PublicKey:
    """Raises ConfigError, naming `what`, unless it is an Ed25519 public key (SubjectPublicKeyInfo)."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{what}: not an Ed25519 public key in PEM (SubjectPublicKeyInfo)")
    return key
