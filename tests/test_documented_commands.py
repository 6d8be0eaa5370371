"""Every command in the documentation, the configuration and `deploy/` works, or at least resolves.

Long commands are not run: their programs, options, arguments, pipelines and parameters are resolved as a run would.
`end_to_end/test_documented_commands_run.py` executes the commands that read results. Other tests in `end_to_end/` run
`ingest`, `samples`, datasets, single models, `tune`, `tuned`, `retrain`, `score` and `deploy/nightly.sh`; `test_deploy.py`
covers the schedulers.
"""

import re
import subprocess
from collections.abc import Callable, Sequence

import pytest
from support import command_resolution as resolution
from support.command_resolution import UnresolvedError
from support.documented_commands import Command, commands_of_page, documented_commands

RESOLVERS: dict[str, Callable[[Sequence[str]], None]] = {
    "kedro": resolution.resolve_kedro,
    "deep-interest": resolution.resolve_deep_interest,
    "make": resolution.resolve_make,
    "python": resolution.resolve_python,
    "pytest": resolution.resolve_pytest,
    "docker": resolution.resolve_docker,
    "torchrun": resolution.resolve_torchrun,
    "deploy/nightly.sh": resolution.resolve_nightly,
}
OTHER_PROGRAMS = {
    "crontab",
    "curl",
    "echo",
    "mlflow",
    "optuna-dashboard",
    "pip",
    "pre-commit",
    "sha256sum",
    "source",
    "systemctl",
    "tar",
}
RUN_OPTIONS = ("--env", "--params", "--pipelines", "--tags", "--namespaces", "--runner")
READERS_NAMES = {
    "my_shop": "own",  # the dataset that docs/own-data.md adds
    "radio": "simulated",  # the dataset that CONTRIBUTING.md adds
    "<dataset>": "simulated",
    "<model>": "din",
    "PIPELINE": "simulated",
    "NAME": "amazon_beauty",
}


def resolve(command: Command, previous: Sequence[str] = ()) -> None:
    """Resolve a command; options without a program are those of ``kedro run`` or of the previous command."""
    pattern = re.compile("|".join(map(re.escape, READERS_NAMES)))
    words = [pattern.sub(lambda match: READERS_NAMES[match[0]], expand(word)) for word in command.words]
    resolution.resolve_variables(command.variables)
    if words[0].startswith("--"):
        is_run = words[0].partition("=")[0] in RUN_OPTIONS
        words = ["kedro", "run", *words] if is_run else [*previous, *words]
    program, *arguments = words
    if program.endswith(".py"):
        resolution.resolve_script(program, arguments)
    elif program not in OTHER_PROGRAMS:
        RESOLVERS[program](arguments)


def expand(word: str) -> str:
    """Expand a command substitution as the shell does."""
    if "$(" not in word:
        return word
    return subprocess.run(
        ["bash", "-c", f'printf %s "{word}"'], check=True, capture_output=True, text=True
    ).stdout


def first_words(words: Sequence[str]) -> Sequence[str]:
    """Return the program and its script or subcommand."""
    return words[: 2 if words[0] in ("python", "deep-interest") else 1]


@pytest.mark.slow
def test_every_documented_command_resolves():
    """Takes 4 s of processor time: Kedro's own validation of the parameters of each command."""
    failures, previous, seen = [], {}, set()
    for command in documented_commands():
        key = (command.words, command.variables)
        if not command.words[0].startswith("--"):
            previous[command.file] = first_words(command.words)
        elif command.words[0].partition("=")[0] not in RUN_OPTIONS:
            key += (command.file,)
        if key in seen:
            continue
        seen.add(key)
        try:
            resolve(command, previous.get(command.file, ()))
        except (Exception, SystemExit) as error:
            failures.append(f"{command}: {type(error).__name__}: {error}")
    assert len(seen) > 100
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "kedro run --pipelines=simulated.dinn",
        "kedro run --pipeline-names=simulated",
        "kedro run --env=small",
        "kedro run --params=training.learning_rate=0.1",
        "kedro run --params=trainings.seeds=1",
        "kedro run --params=datasets.simulated.models=din",
        "kedro run --pipelines=simulated --tags=dinn",
        "kedro run --pipelines=simulated --namespaces=models.attentive",
        "kedro registry ls",
        "deep-interest registries list",
        "deep-interest registry promote simulated.din",
        "deep-interest registry rollback simulated.din v1",
        "deep-interest registry list simulated.none",
        "deep-interest explain simulated.din --users 1",
        "deep-interest download amazon_tools",
        "make tests",
        "make viz DATASET=simulated",
        "make viz DATASETS=nothing",
        "python benchmarks/trains.py",
        "python benchmarks/train.py --model din",
        "kills.py --number 40",
        "pytest tests/none.py",
        "docker run --rm deep-interest --pipelines=retrain.simulated.none",
        "deploy/nightly.sh amazon_beauty.din",
        "DEEP_INTEREST_ENGIN=plain kedro run",
        "DEEP_INTEREST_PIPELINES=simulated.none kedro viz run",
    ],
)
def test_a_command_that_does_not_exist_is_found(line):
    (command,) = commands_of_page(f"`{line}`", "page.md")
    with pytest.raises((Exception, SystemExit)) as error:
        resolve(command)
    assert not isinstance(error.value, KeyError | AttributeError | TypeError)


def test_commands_of_a_page_are_found_in_order():
    page = """Run `make lint`, or `kedro run` with
`--params="training.seeds=1
2"`:

```
FIRST=1 kedro run --params=a=1,\\
b='2 3'   # comment
deep-interest check x; echo $?
```

```csv
python,kedro run
```

```
kedro = an equation
```

   ```bash
   make docs | cat
   ```
"""
    found = [(command.words, command.variables) for command in commands_of_page(page, "page.md")]
    assert found[:7] == [
        (("make", "lint"), ()),
        (("kedro", "run"), ()),
        (("--params=training.seeds=1 2",), ()),
        (("kedro", "run", "--params=a=1,b=2 3"), (("FIRST", "1"),)),
        (("deep-interest", "check", "x"), ()),
        (("echo", "$?"), ()),
        (("kedro", "=", "an", "equation"), ()),
    ]
    assert found[7:] == [(("make", "docs"), ()), (("cat",), ())]


def test_an_unknown_program_is_found():
    (command,) = commands_of_page("```bash\nwget example.org\n```", "page.md")
    with pytest.raises(KeyError, match="wget"):
        resolve(command)


def test_unresolved_names_what_is_missing():
    with pytest.raises(UnresolvedError, match=r"--pipelines: simulated\.dinn does not exist"):
        resolution.resolve_kedro(["run", "--pipelines=simulated.dinn"])
