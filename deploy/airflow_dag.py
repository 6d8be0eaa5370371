"""A night as an Airflow 3 DAG: retrain, then score with what serves.

A run is one task: its lock, its exit status and its one step of confirmation belong to one process. ``nothing new`` (10) and
``refused`` (11) end well, and scoring follows; bad data (12), a second run (13) and faults fail the task.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

PROJECT = "/srv/deep-interest"
ROW = "simulated.din"

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
        bash_command=f".venv/bin/kedro run --pipelines=retrain.{ROW}; code=$?; [ $code -eq 10 ] || [ $code -eq 11 ] || exit $code",
        cwd=PROJECT,
    )
    score = BashOperator(
        task_id="score", bash_command=f".venv/bin/kedro run --pipelines=score.{ROW}", cwd=PROJECT
    )
    retrain >> score
