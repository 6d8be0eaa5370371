"""Two machines, simulated by network namespaces with their own addresses: ``torchrun`` on two nodes."""

import contextlib
import json
import os
import signal
import subprocess

import numpy as np
import pytest
from support.machines import ADDRESSES, INTERFACE, connected_machines, on_machine
from support.ranks import SCRIPT, TORCHRUN, trained, variables, written

pytestmark = pytest.mark.cluster
SETTINGS = {
    "models": {"din": {"training": {"mba": 0.05}}}, "training": {"learning_rate": 0.01, "batch_size": 16, "epochs": 2},
    "checkpoint_seconds": 0,
}  # fmt: skip


@pytest.fixture
def machines():
    yield from connected_machines()


def launch(name, address, folder, settings):
    """Start ``torchrun`` for one rank on a machine; the first machine has the rendezvous."""
    command = [
        *on_machine(name, *TORCHRUN), "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d",
        "--rdzv-id=test", f"--rdzv-endpoint={ADDRESSES[0]}:29431", f"--rdzv-conf=is_host={address == ADDRESSES[0]}",
        f"--local-addr={address}", str(SCRIPT), str(folder), json.dumps(settings),
    ]  # fmt: skip
    log = (folder / f"{address}.log").open("w")
    environment = variables(GLOO_SOCKET_IFNAME=INTERFACE)
    return subprocess.Popen(
        command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )


@contextlib.contextmanager
def launched(names, folder, settings):
    nodes = [launch(name, address, folder, settings) for name, address in zip(names, ADDRESSES, strict=True)]
    try:
        yield nodes
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()


def logs(folder):
    return "\n".join((folder / f"{address}.log").read_text() for address in ADDRESSES)


def assert_as_on_one_machine(tmp_path):
    expected = trained(tmp_path / "one_machine", SETTINGS, ranks=2)["din"]
    found = written(tmp_path, "din")
    for name in expected.keys() - {"losses"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_two_machines_train_as_two_ranks_on_one(tmp_path, machines):
    with launched(machines, tmp_path, SETTINGS) as nodes:
        codes = [node.wait(240) for node in nodes]
    assert codes == [0, 0], logs(tmp_path)
    assert_as_on_one_machine(tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_killed_on_one_of_two_machines_does_not_change_the_result(tmp_path, machines, rank):
    kill = {"rank": rank, "step": 9, "mark": str(tmp_path / "killed")}
    with launched(machines, tmp_path, SETTINGS | {"kill": kill}) as nodes:
        codes = [node.wait(300) for node in nodes]
    assert codes == [0, 0], logs(tmp_path)
    assert (tmp_path / "killed").exists()
    assert_as_on_one_machine(tmp_path)
