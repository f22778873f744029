"""All ways of computing the loss of a wide batch give the same loss, and what does not fit is recorded as such."""

import json
import subprocess
import sys

import pytest

from benchmarks.speed import wide_batches
from benchmarks.speed.memory import MEBIBYTE
from benchmarks.speed.wide_batches import BLOCKS, MATRIX, RIVAL, Run, loss_and_gradients

from ...end_to_end.forked import LONGEST, start_script


def test_all_ways_compute_the_same_loss():
    runs = [Run(100, MATRIX, None), Run(100, BLOCKS, 32), Run(100, RIVAL, 16)]
    losses = [loss_and_gradients(run, dimensions=8)().item() for run in runs]
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-5) and losses[0] > 1


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is the memory of a process limited")
def test_processes_measure_what_fits_into_their_memory(server, tmp_path, monkeypatch, capsys):
    """Of 16,384 documents the matrix alone has 1 GiB. The processes are forked after the imports."""

    def run(command, **options):
        log = tmp_path / "log"
        log.write_text("")
        process = start_script(wide_batches.__file__, *command[3:], log=log)
        process.join(LONGEST)
        return subprocess.CompletedProcess(command, process.exitcode, log.read_text(), log.read_text())

    monkeypatch.setattr(wide_batches.subprocess, "run", run)
    file = tmp_path / "records.jsonl"
    options = "--dry_run --documents 16384 --block_size 2048 --mini_batches --most_gibibytes 2".split()
    monkeypatch.setattr(sys, "argv", ["wide_batches.py", *options, f"--record={file}"])
    wide_batches.main()
    matrix, blocks = (json.loads(line) for line in file.read_text().splitlines())
    assert matrix["way"] == MATRIX and matrix["peaks"] == matrix["seconds"] == matrix["losses"] == []
    assert "| 16,384 | one matrix | does not fit |" in capsys.readouterr().out
    [peak] = blocks["peaks"]
    assert blocks["way"] == BLOCKS and peak < 512 * MEBIBYTE and blocks["seconds"][0] > 0 and blocks["losses"][0] > 1
