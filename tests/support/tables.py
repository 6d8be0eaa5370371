"""Small declared tables as CSV files, and their reader with defaults."""

from pathlib import Path

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

IMPRESSIONS = "user,item,time,label,place\n1,10,100,0,top\n2,11,90000,1,side\n"
VISITS = "user,item,time\n1,10,50\n2,11,60\n"
ITEMS = "item,category\n10,a\n11,b\n"
DECLARATION = {
    "behaviors": {"files": "visits.csv"},
    "items": {"files": "items.csv"},
    "impressions": {"files": "impressions.csv"},
}
FEATURES = FeatureColumns(context=("place",))


def write(folder: Path, **files: str) -> None:
    """Write each ``name=text`` as ``name.csv``, in addition to the default tables."""
    contents = {"visits": VISITS, "items": ITEMS, "impressions": IMPRESSIONS} | files
    for name, text in contents.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")


def read(
    folder: Path, features: FeatureColumns = FEATURES, *, skip: bool = False, **changes: object
) -> CanonicalTables:
    """Read the tables in ``folder`` with ``changes`` to the default declaration."""
    source = Source.model_validate(DECLARATION | changes)
    return read_tables(folder, source, features, on_bad_line="skip" if skip else "error")


def declare_impressions(**options: object) -> dict[str, object]:
    """Return a declaration of the impressions with ``options``, as keyword arguments of `read`."""
    return {"impressions": {"files": "impressions.csv"} | options}
