"""Shell commands in documentation and configuration files."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.project import PROJECT

PROGRAMS = (
    "crontab", "deep-interest", "deploy/nightly.sh", "docker", "echo", "kedro", "make", "mlflow", "optuna-dashboard", "pip",
    "pre-commit", "pytest", "python", "sha256sum", "source", "systemctl", "tar",
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=")
_PROGRAM = rf"(?:{'|'.join(map(re.escape, PROGRAMS))}|[a-z_]+\.py)"
_COMMAND = re.compile(rf"(?:{_VARIABLE.pattern}\S*\s+)*{_PROGRAM}(?:\s|$)")
_FENCE = re.compile(r"^[ ]*```(\w*)[^\n]*\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_COMMENT = re.compile(r"^#[ \t]*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """Command of a file.

    Attributes:
        file: file, relative to the project.
        words: program and arguments; an option without a program belongs to the command before it.
        variables: environment variables set for the command.
    """

    file: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {shlex.join(self.words)}"


def documented_commands() -> list[Command]:
    """Return the commands of README, CONTRIBUTING, `docs/`, `deploy/`, the Dockerfile and `conf/`."""
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    others = [PROJECT / "Dockerfile", *sorted((PROJECT / "deploy").iterdir())]
    others += sorted(path for path in (PROJECT / "conf").rglob("*.yml") if "local" not in path.parts)
    return [
        *(command for page in pages for command in commands_of_page(page.read_text("utf-8"), _name(page))),
        *(command for file in others for command in _commands_of_comments(file)),
    ]


def commands_of_page(text: str, file: str) -> Iterator[Command]:
    """Yield the commands in the shell blocks and in the inline code of a Markdown page, in the order of the page."""
    found: list[tuple[int, str]] = []
    for block in _FENCE.finditer(text):
        lines = [line.strip() for line in block[2].replace("\\\n", "").splitlines()]
        is_shell = block[1] in ("bash", "sh", "shell", "console")
        if is_shell or (not block[1] and any(_COMMAND.match(line) for line in lines)):
            found += [(block.start(), line) for line in lines]
    prose = _FENCE.sub(lambda block: " " * len(block[0]), text)
    found += [
        (match.start(), code) for match in _INLINE.finditer(prose) if (code := _inline_command(match[1]))
    ]
    for _, line in sorted(found, key=lambda entry: entry[0]):
        yield from parse(line, file)


def parse(line: str, file: str) -> Iterator[Command]:
    """Yield the commands of a line; comments are dropped."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in (";", "&&", "|", "||"):
            words.append(word)
        elif words:
            count = next((i for i, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
            variables = tuple(
                (name, value) for name, _, value in (word.partition("=") for word in words[:count])
            )
            yield Command(file, tuple(words[count:]), variables)
            words = []


def _inline_command(code: str) -> str | None:
    code = " ".join(code.split())
    is_option = re.match(r"--[a-z]", code)
    return code if is_option or (_COMMAND.match(code) and " " in code) else None


def _commands_of_comments(file: Path) -> Iterator[Command]:
    """Yield the commands in the comments of a file."""
    text = file.read_text("utf-8")
    for match in _COMMENT.finditer(text):
        if _COMMAND.match(match[1]):
            yield from parse(match[1], _name(file))
    comments = "\n".join(match[1] for match in _COMMENT.finditer(text))
    for match in _INLINE.finditer(comments):
        if command := _inline_command(match[1]):
            yield from parse(command, _name(file))


def _name(file: Path) -> str:
    return str(file.relative_to(PROJECT))
