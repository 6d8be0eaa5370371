"""Airflow 3 DAG of one night: retrain, then score with the version in production.

Retraining is a single task, because one process holds its lock, sets its exit code and commits its result. Exit codes
10 (no new days) and 11 (refused) count as success, and scoring follows. Bad data (12), another active run (13) and
failures (1) fail the task.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

PROJECT = "/srv/deep-interest"
MODEL = "simulated.din"

with DAG(
    dag_id="deep_interest_retrain",
    schedule="20 3 * * *",
    start_date=datetime(2024, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    retrain = BashOperator(
        task_id="retrain",
        bash_command=(
            f".venv/bin/kedro run --pipelines=retrain.{MODEL}; "
            "code=$?; [ $code -eq 10 ] || [ $code -eq 11 ] || exit $code"
        ),
        cwd=PROJECT,
    )
    score = BashOperator(
        task_id="score", bash_command=f".venv/bin/kedro run --pipelines=score.{MODEL}", cwd=PROJECT
    )
    retrain >> score
