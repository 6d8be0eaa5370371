"""Airflow 3 DAG of one night on a cluster: samples on Spark, training on the ranks of torchrun, retraining with its gate, scores.

``samples`` runs the driver of Spark, whose master the catalog of the environment names. ``train`` is one task for each machine of
``TRAINERS``, a queue of Airflow's workers each; the tasks have to run at the same time and meet at ``RENDEZVOUS``. Training and retraining
are independent of one another: retraining takes the days that have arrived, trains a challenger in one process and judges it by its gate.
Exit codes 10 (no new days) and 11 (refused) count as success, as in ``airflow_dag.py``.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

PROJECT = "/srv/deep-interest"
DATASET, MODEL = "simulated", "din"
ENV = "nightly"
TRAINERS = ("default",)  # such as ("trainer-0", "trainer-1")
RANKS = 2  # processes on each machine, one for each core
RENDEZVOUS = "127.0.0.1:29500"  # address of the first trainer

TORCHRUN = (
    f".venv/bin/torchrun --nnodes={len(TRAINERS)} --nproc-per-node={RANKS} --max-restarts=3 "
    f"--rdzv-backend=c10d --rdzv-endpoint={RENDEZVOUS} --rdzv-id=deep_interest -m"
)
RETRAINED = "code=$?; [ $code -eq 10 ] || [ $code -eq 11 ] || exit $code"

with DAG(
    dag_id="deep_interest_cluster",
    schedule="20 3 * * *",
    start_date=datetime(2024, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    samples = BashOperator(
        task_id="samples",
        bash_command=f".venv/bin/kedro run --env={ENV} --pipelines=samples.{DATASET}",
        cwd=PROJECT,
    )
    train = [
        BashOperator(
            task_id=f"train_{number}",
            bash_command=f"{TORCHRUN} kedro run --env={ENV} --pipelines={DATASET}.{MODEL} --namespaces=models,compare",
            cwd=PROJECT,
            queue=queue,
        )
        for number, queue in enumerate(TRAINERS)
    ]
    retrain = BashOperator(
        task_id="retrain",
        bash_command=f".venv/bin/kedro run --pipelines=retrain.{DATASET}.{MODEL}; {RETRAINED}",
        cwd=PROJECT,
    )
    score = BashOperator(
        task_id="score",
        bash_command=f".venv/bin/kedro run --pipelines=score.{DATASET}.{MODEL}",
        cwd=PROJECT,
    )
    samples >> train
    retrain >> score
