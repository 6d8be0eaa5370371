"""One connection to each engine for all tests; both need the extra ``spark``, and Spark needs Java."""

import pytest

from deep_interest.engines.connections import connect


@pytest.fixture(scope="session")
def duckdb():
    connection = connect("duckdb", {"threads": 2})
    yield connection
    connection.disconnect()


@pytest.fixture(scope="session")
def spark():
    settings = {
        "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": 3,
    }  # fmt: skip
    connection = connect("pyspark", {"master": "local[2]", "settings": settings})
    yield connection
    from pyspark.sql import SparkSession

    SparkSession.active().stop()


@pytest.fixture(params=["duckdb", "spark"])
def connection(request):
    return request.getfixturevalue(request.param)
