"""Writes what is installed as an SBOM in the format of CycloneDX: ``python tools/sbom.py FILE``."""

from __future__ import annotations

import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def component(package: Distribution) -> dict[str, Any]:
    """Describe one package: its name, version, address and licence."""
    name = package.metadata["Name"].lower().replace("_", "-")
    described: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": package.version,
        "purl": f"pkg:pypi/{name}@{package.version}",
    }
    licence = package.metadata.json.get("license_expression") or package.metadata.json.get(
        "license"
    )
    if isinstance(licence, str) and "\n" not in licence:
        described["licenses"] = [{"license": {"name": licence}}]
    return described


def bill() -> dict[str, Any]:
    """List every package that is installed, by name."""
    found = {each["purl"]: each for each in map(component, distributions())}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": [found[address] for address in sorted(found)],
    }


def main() -> None:
    """Write the list to the file that is named."""
    Path(sys.argv[1]).write_text(json.dumps(bill(), indent=2) + "\n")


if __name__ == "__main__":
    main()
