"""The README inside of the wheel: the same text, without what only the repository can show.

A package index shows the README beside no other file. Pictures and links to files of the repository
would be broken there, so pictures are left out and links become plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IN_REPOSITORY = r"\((?!https?:|mailto:|#)[^)]+\)"


class ReadmeHook(MetadataHookInterface):
    """Hands the README to the metadata when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text that the package index shows."""
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": standing_alone(text)}


def standing_alone(readme: str) -> str:
    """Return the README without pictures and links that lead into the repository."""
    without_pictures = re.sub(rf"!\[[^\]]*\]{IN_REPOSITORY}\n*", "", readme)
    return re.sub(rf"\[([^\]]*)\]{IN_REPOSITORY}", r"\1", without_pictures)
