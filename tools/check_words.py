"""Find words of the project's old vocabulary: `make lint` fails where one comes back.

    python tools/check_words.py            # all tracked text files
    python tools/check_words.py FILE …

Words are looked for in prose and in identifiers (``forward_rights`` contains ``rights``). One line per finding: file, line,
word, and what to write instead.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPLACEMENTS = {
    r"rooms?": "workspace, scratch buffer",
    r"rights": "packed weights",
    r"panels_of": "pack",
    r"places_of": "positions",
    r"crews?": "thread pool",
    r"hand(?:s|ed|ing)?_in": "accumulate",
    r"bends?": "slope",
    r"steered": "attention-gated",
    r"tell(?:s|ing)?|told": "the verb that says what happens: report, print, separate, sync",
    r"goods": "items",
    r"anew": "again",
    r"beside": "next to, with",
    r"as it is|as they are": "unchanged",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more)[a-z]+": "is not a, has no",
    r"mend(?:s|ed|ing)?": "correct, repair",
    r"whoever": "anyone who",
    r"stands?": "is, be",
    r"lies? (?:in|below|under)": "is in",
    r"by turns": "alternating",
    r"holds? 0": "includes 0",
    r"goes on where": "resumes",
    r"pictures?": "plot, chart",
}
"""Patterns, matched as whole words in any case, and what to write instead."""

ALLOWED = {
    r"tell(?:s|ing)?|told": r"study\.tell\(",  # method of Optuna
    r"goods": r"goods_|_goods|without goods|goods:|`goods`|\"goods\"|[Gg]oods features?",  # DIN's Table 4; the old configuration key
    r"pictures?": r"<picture|</picture",
}
"""Lines in which a word is allowed, by pattern."""

SUFFIXES = {".py", ".md", ".yml", ".yaml", ".toml", ".ipynb", ".css", ".js", ""}
_SELF = Path(__file__).name
_PATTERNS = {word: re.compile(rf"(?<![A-Za-z]){word}(?![A-Za-z])", re.IGNORECASE) for word in REPLACEMENTS}


def findings(path: Path) -> Iterator[str]:
    """Yield one line per word of the old vocabulary in a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith('"image/png": "'):  # a saved output of a notebook
            continue
        for word, pattern in _PATTERNS.items():
            match = pattern.search(line)
            if match and not (word in ALLOWED and re.search(ALLOWED[word], line)):
                yield f"{path}:{number}: {match[0]!r}; write: {REPLACEMENTS[word]}"


def tracked_files() -> list[Path]:
    """Return the text files under version control."""
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    files = [Path(name) for name in names.split("\0") if name]
    return [
        file
        for file in files
        if file.suffix in SUFFIXES and file.name not in (_SELF, "LICENSE") and file.is_file()
    ]


def main(arguments: list[str]) -> int:
    """Check files and return the exit code: 1 if there are findings."""
    files = [Path(name) for name in arguments] or tracked_files()
    lines = [line for file in files for line in findings(file)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
