"""Creates folders and environments for sessions, and starts sessions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from compared.catalog import DRIVERS, ENTRIES, Entry, Ground, Launch
from compared.session import Session


def new_ground(folder: Path, interpreter: Path, server: Path) -> Ground:
    """Creates the folders of a ground below `folder`."""
    home, scratch = folder / "planted" / "home", folder / "scratch"
    home.mkdir(parents=True)
    scratch.mkdir()
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(scratch)}
    return Ground(interpreter, server, scratch, home, environment)


def ground_of(request: dict[str, Any]) -> Ground:
    return new_ground(Path(request["folder"]), Path(request["interpreter"]), Path(request["server"]))


def entry_of(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.name == name)


def launch_of(entry: Entry, ground: Ground) -> Launch:
    """Installs a peer if it is not installed yet. Returns how to start it."""
    if entry.name not in ground.launches:
        ground.launches[entry.name] = entry.set_up(ground)
    return ground.launches[entry.name]


def launched(entry: Entry, ground: Ground) -> Session:
    """Starts a peer's driver."""
    launch = launch_of(entry, ground)
    driver = DRIVERS / launch.driver
    program = "node" if driver.suffix == ".mjs" else str(launch.interpreter or ground.interpreter)
    configuration = launch.configuration
    if "environment" in configuration:
        configuration = configuration | {"environment": {**ground.environment, **configuration["environment"]}}
    environment = {**ground.environment, **launch.environment}
    argv = [program, str(driver), json.dumps(configuration)]
    return Session(argv, environment, ground.scratch, ground.scratch.parent / "driver.log")
