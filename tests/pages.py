"""The pages that people read: their blocks of code, and the commands on them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"api", "commands", "_build"}


def is_written(page):
    """Whether a page was written by hand: the reference is made from the code."""
    return not GENERATED & set(page.relative_to(ROOT).parts)


PAGES = [ROOT / "README.md", *filter(is_written, sorted((ROOT / "docs").rglob("*.md")))]


def page_id(page):
    return str(page.relative_to(ROOT))


def fences(page):
    """(language, text) of every fenced block of a page."""
    pattern = r"^(?P<mark>`{3,}|:{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=mark)$"
    found = re.finditer(pattern, page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [(block["language"].strip(), block["text"]) for block in found]


def examples(page):
    """(code, what it prints) of each block of Python; output is a `text` block that follows."""
    pattern = r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?"
    return re.findall(pattern, page.read_text(), flags=re.DOTALL)


def commands(page):
    """The words of each command on a page: in a block for a shell, indented, or in a sentence."""
    text = page.read_text()
    lines = [block for language, block in fences(page) if language in ("", "sh")]
    lines += re.findall(r"^    ((?:expertload|make|pip|python) .*)$", text, flags=re.MULTILINE)
    inside = re.findall(r"`((?:expertload|make|python -m)\s[^`<]*)`", text)
    lines += [" ".join(one.split()) for one in inside]
    whole = "\n".join(one.replace("\\\n", " ") for one in lines)
    return [words for line in whole.splitlines() if (words := shlex.split(line, comments=True))]
