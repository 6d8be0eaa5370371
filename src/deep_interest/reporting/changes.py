"""The section of the report on what has changed since the last run."""

import html

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.history import compare_runs, gauc_changes
from deep_interest.reporting.html_tables import html_table


def changes_html(results: pd.DataFrame, run: str, description: str, earlier: pd.DataFrame) -> str:
    """Return the GAUC of the models that have changed since an earlier run, largest change first.

    Args:
        results: results table of the report.
        run: id of the earlier run.
        description: its environment and commit.
        earlier: its results table.
    """
    changed = gauc_changes(earlier, results)
    models, known = (set(table["model"]) - {ORACLE} for table in (results, earlier))
    same = len(compare_runs(earlier, results).query("model != @ORACLE")) - len(changed)
    parts = []
    if same:
        parts.append(f"The GAUC of {_count(same)} is the same in four decimals.")
    for text, keys, table in (
        ("New", models - known, results),
        ("No longer in the table", known - models, earlier),
    ):
        if keys:
            parts.append(f"{text}: {', '.join(table.loc[table['model'].isin(keys), 'name'].astype(str))}.")
    sentence = html.escape(" ".join([f"Compared with run {run} ({description}).", *parts]))
    if changed.empty:
        return f"<p>{sentence}</p>"
    rows = [
        [str(row.name), f"{row.before:.4f}", f"{row.after:.4f}", f"{row.change:+.4f}"]
        for row in changed.itertuples(index=False)
    ]
    table = html_table(["Model", "Before", "Now", "Change"], rows, caption="GAUC on the test set")
    return f"<p>{sentence}</p>{table}"


def _count(models: int) -> str:
    return f"{models} models" if models > 1 else "1 model"
