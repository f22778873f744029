"""A queue of Slurm with a controller and two nodes, all on this machine: a node is lost while it embeds."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import psutil
import pytest
from datatrove.executor.slurm import SlurmPipelineExecutor

from .conftest import DOCUMENTS, wait_until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=10
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=8000
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=8000
PartitionName=cpu Nodes=first,second Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """The daemons of a folder of their own; ``/etc`` is not touched."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("state", "first", "second"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            for free in (one, two, three):
                free.bind(("127.0.0.1", 0))
            ports = [free.getsockname()[1] for free in (one, two, three)]
        configuration = CONFIGURATION.format(host=socket.gethostname(), folder=folder, ports=ports)
        (folder / "slurm.conf").write_text(configuration)
        files = {name: folder / f"munge.{name}" for name in ("key", "sock", "pid", "log", "seed")}
        options = [f"--key-file={files['key']}", f"--socket={files['sock']}", f"--pid-file={files['pid']}"]
        options += [f"--log-file={files['log']}", f"--seed-file={files['seed']}"]
        subprocess.run(["munged", "--force", *options], check=True)
        subprocess.run(["slurmctld"], check=True)
        for node in ("first", "second"):
            subprocess.run(["slurmd", "-N", node], check=True)
        wait_until(lambda: self.states() == {"first": "idle", "second": "idle"}, "both nodes")

    def states(self):
        printed = subprocess.run(["sinfo", "-hN", "-o", "%N %t"], capture_output=True, text=True).stdout
        return dict(line.split() for line in printed.splitlines())

    def processes(self):
        """All processes of this cluster, each with the node on which it is a task."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()  # the stewards of tasks overwrite theirs with a title
                is_steward = process.name() == "slurmstepd" and process.cwd() == str(self.folder)
                if is_steward or environment.get("SLURM_CONF") == os.environ["SLURM_CONF"]:
                    yield process, environment.get("SLURMD_NODENAME")

    def tasks_on(self, node):
        """The numbers of the tasks that run on a node."""
        command = ["squeue", "-h", "-t", "R", "-w", node, "-o", "%K"]
        printed = subprocess.run(command, capture_output=True, text=True).stdout
        return {int(task) for task in printed.split()}

    def kill(self, node, with_tasks):
        """Kill the daemon of a node as a crash does; with its tasks, as a machine that is switched off."""
        os.kill(int((self.folder / f"{node}.pid").read_text()), signal.SIGKILL)
        tasks = [process for process, its_node in self.processes() if its_node == node and with_tasks]
        stewards = {process.parent() for process in tasks if process.parent().name() == "slurmstepd"}
        for process in [*stewards, *tasks]:  # the stewards first: they would report the end of the others
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def stop(self):
        """Kill all processes that are left."""
        for process, _ in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def cluster(tmp_path, engines_environment, monkeypatch):
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'Slurm'}: apt-get install slurm-wlm munge")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm" / "slurm.conf"))
    (tmp_path / "slurm").mkdir()
    tmp_path.chmod(0o755)
    cluster = Cluster(tmp_path / "slurm")
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("with_tasks", [True, False], ids=["a machine", "a daemon"])
def test_a_killed_node_changes_no_byte(cluster, embedding, undisturbed, with_tasks, record):
    """The task of a lost node is queued again after two minutes. A task without its daemon runs to its end."""
    started = time.monotonic()
    SlurmPipelineExecutor(
        embedding.pipeline,
        tasks=embedding.tasks,
        time="00:10:00",
        partition="cpu",
        logging_dir=embedding.logging_dir,
        job_name="embed",
    ).run()
    killed = wait_until(lambda: embedding.begun() & cluster.tasks_on("second"), "a task at work")
    cluster.kill("second", with_tasks)
    assert not killed & embedding.finished()
    wait_until(lambda: cluster.states()["second"].startswith("down"), "the node to be given up")
    if not with_tasks:
        subprocess.run(["slurmd", "-N", "second"], check=True)
    wait_until(lambda: len(embedding.finished()) == embedding.tasks, "all tasks")
    assert not with_tasks or "Requeuing" in (cluster.folder / "slurmctld.log").read_text()
    seconds = round(time.monotonic() - started)
    assert embedding.files() == undisturbed
    slurm = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout.split()[-1]
    lost = "machine" if with_tasks else "daemon"
    record(f"slurm, {lost} killed", slurm=slurm, documents=DOCUMENTS, seconds=seconds, equal=True)
