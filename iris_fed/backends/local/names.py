"""Files of a launcher in its state directory, beside the attempts."""

LOCK = "launcher.lock"
SOCKET = "launcher.sock"
LOG = "launcher.log"
