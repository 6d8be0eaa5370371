"""The catalog: kedro-datasets with checks, on a local data folder."""

from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl

from deep_interest.datasets.checked import with_checks
from deep_interest.errors import InputError
from deep_interest.messages.configuration import Configuration


class CatalogHooks:
    """Give the entries that runs write atomic saves and checksums, in runs, notebooks and Kedro-Viz alike."""

    @hook_impl(trylast=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Replace the types of the catalog's entries, after the other hooks have checked the configuration.

        Raises:
            InputError: the data folder is a URL.
        """
        loader: Any = context.config_loader
        data = str(loader["globals"]["data"])
        if "://" in data:
            raise InputError(
                f"globals.yml: data: found {data}; locks, unfinished models and arrays need a local folder. Keep data local, and "
                "give single entries of the catalog (results, tables, checkpoints, scores, raw files) a filepath of their own that "
                f"begins with {data.partition('://')[0]}:// (docs/catalog.md, Object storage)"
            )
        loader["catalog"] = with_checks(Configuration(loader).catalog())
