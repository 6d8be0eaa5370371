"""The entry point of Kedro's plugin mechanism: the command ``deep-interest`` as ``kedro deep-interest``."""

from kedro.framework.cli.utils import LazyGroup

commands = LazyGroup(
    name="deep-interest", lazy_subcommands={"deep-interest": "deep_interest.commands.main.cli"}
)
