"""Dataset of a table that may be missing."""

import pandas as pd
from kedro_datasets.pandas import CSVDataset

from deep_interest.datasets.checked import Checked


class OptionalCSV(Checked, CSVDataset):
    """``pandas.CSVDataset`` whose file may be missing: then it loads an empty table. The arguments are the same."""

    def load(self) -> pd.DataFrame:
        """Load the table, which has no columns if the file does not exist.

        Raises:
            DatasetError: the file is damaged or was edited.
        """
        return super().load() if self.exists() else pd.DataFrame()
