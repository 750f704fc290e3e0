"""The controller process."""

from iris_fed.server.serve import run

__all__ = ["run"]
