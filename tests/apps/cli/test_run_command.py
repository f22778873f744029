"""Command lines: help, errors, JSON, Ctrl-C."""

import json
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from transformers import HfArgumentParser

from docsplit_hf import ContrastiveTrainingArguments, FileOptions, load_documents
from docsplit_hf.apps.cli.run_command import as_typed, parse_arguments, run_script, show_log
from docsplit_hf.training.resuming import checkpoint_to_resume

from ...documents import write_pdf
from ...end_to_end.forked import finish_script, start_script


@dataclass
class RunArguments(ContrastiveTrainingArguments):
    """Arguments of a script."""

    _argument_group_name = "training"

    mine: int = field(default=1, metadata={"help": "An option of the script."})


@dataclass
class FileArguments:
    """Options for reading a file."""

    text_column: str = "text"
    csv_separator: str | None = None
    encoding: str | None = None
    test_size: int = 0
    max_length: int | None = None


@dataclass
class KeptArguments:
    """An option that is on by default."""

    kept: bool = True


def shown(capsys, *command):
    with pytest.raises(SystemExit) as stopped:
        parse_arguments(HfArgumentParser(RunArguments), list(command))
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


def test_help_shows_the_commands_options_and_help_all_the_trainers_too(capsys):
    _, ours, _ = shown(capsys, "--help")
    assert all(f"  --{name} " in ours for name in ("mine", "temperature", "num_train_epochs", "seed", "packing"))
    assert "--adam_beta1" not in ours and "--help_all" in ours and len(ours.splitlines()) < 200
    _, everything, _ = shown(capsys, "--help_all")
    assert "--adam_beta1" in everything and everything.index("--mine") < everything.index("--adam_beta1")
    assert {line.split()[0] for line in ours.splitlines() if line.startswith("  --")} <= set(everything.split())


def test_the_help_of_an_option_that_is_on_names_its_opposite(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(HfArgumentParser(KeptArguments), ["--help"])
    assert "the opposite of --kept" in capsys.readouterr().out


@pytest.mark.parametrize("command, said", [
    (["--min=2", "--temprature=1"], "unrecognized arguments: --temprature=1 (did you mean --temperature?)"),
    (["--max_train_samples", "9"], "unrecognized arguments: --max_train_samples 9 (did you mean --max_steps?)"),
    (["--epochs=3"], "unrecognized arguments: --epochs=3 (did you mean --num_train_epochs?)"),
    (["--tokenizer_name=a"], "unrecognized arguments: --tokenizer_name=a\n"),  # none is near
    (["--seed=1", "new.csv"], "unrecognized arguments: new.csv"),
    (["--temperature=-1"], "temperature must be above 0, got -1.0"),
    (["--mlm_weight=-1"], "error: --mlm_weight must be 0 (no MLM) or above, got -1.0"),
    (["--load_best_model_at_end"], "requires the save and eval strategy to match"),
    (["--seed=x"], "argument --seed: invalid int value: 'x'"),
])  # fmt: skip
def test_wrong_options_are_named_in_one_line(capsys, command, said):
    code, _, printed = shown(capsys, "--use_cpu", *command)
    assert code == 2 and said in printed and len(printed.splitlines()) <= 5


def test_errors_of_docsplit_hf_are_one_line_and_others_keep_their_traceback(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: checkpoint_to_resume("last", tmp_path), "")
    printed = capsys.readouterr().err
    assert stopped.value.code == 2 and "error: There is no complete checkpoint" in printed
    (tmp_path / "old.csv").write_bytes(b"text\ncaf\xe9\n")
    parse_arguments(HfArgumentParser(FileArguments), [])
    with pytest.raises(SystemExit):
        run_script(lambda: load_documents(tmp_path / "old.csv"), "")
    assert "Give its encoding: --encoding cp1252 for many files from Windows" in capsys.readouterr().err
    for slip in (lambda: int("best"), lambda: open(tmp_path / "missing"), lambda: 1 / 0):
        with pytest.raises((ValueError, OSError, ZeroDivisionError)):
            run_script(slip, "")


def test_standard_output_has_only_the_json(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["script", "--json", "--seed=1"])

    def main():
        print("for people")
        return {"argv": sys.argv, "folder": Path("output")}

    run_script(main, "")
    out, err = capsys.readouterr()
    assert json.loads(out) == {"argv": ["script", "--seed=1"], "folder": "output"} and err == "for people\n"


def test_ocr_is_asked_of_each_reader_of_files(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCSPLIT_OCR", "")
    write_pdf(tmp_path / "scan.pdf", [None, None])

    def why():
        with pytest.raises(ValueError, match="scan.pdf") as refused:
            load_documents(tmp_path)
        return str(refused.value)

    assert "scanned, without text" in why()
    monkeypatch.setattr("sys.argv", ["script", "--ocr", "rapidocr", "--seed=1"])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    run_script(lambda: print(sys.argv), "")
    assert sys.argv == ["script", "--seed=1"] and FileOptions().ocr == "rapidocr"
    assert "scanned, without text" not in why()


@pytest.mark.parametrize("said, typed", [
    ("Say it: encoding='cp1252' for much, 'latin-1', ...", "Say it: --encoding cp1252 for much, 'latin-1', ..."),
    ("pass csv_separator=';' (or ',').", "pass --csv_separator ';' (or ',')."),
    (r"csv_separator='\t' or `|`", r"--csv_separator '\t' or `|`"),
    ("set test_size=0. Choose text_column.", "set --test_size 0. Choose --text_column."),
    ("max_length=65 is more than backend='torch' reads", "--max_length 65 is more than backend='torch' reads"),
    ("text_column.csv has no 'text_column', see --text_column", None),
    ("The encoding of the test, texts_column, is 'test_size=3'.", None),
])  # fmt: skip
def test_in_a_shell_an_error_has_options_in_place_of_python_arguments(said, typed):
    parser = HfArgumentParser(FileArguments)
    parse_arguments(parser, [])
    assert as_typed(said) == (said if typed is None else typed)
    assert as_typed(as_typed(said)) == as_typed(said)


SCRIPT = """
import multiprocessing, os, time
from docsplit_hf.apps.cli.run_command import run_script

def work():
    time.sleep(60)

def main():
    os.setsid()
    worker = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    worker.start()
    print("ready", flush=True)
    try:
        worker.join()
    finally:
        raise TimeoutError("what a library makes of it")

run_script(main, "Nothing is lost.")
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_script_with_one_line_and_code_130_and_its_workers_silently(server, tmp_path):
    script = tmp_path / "script.py"
    log = tmp_path / "log"
    script.write_text(SCRIPT)
    process = start_script(script, log=log)
    while not (log.exists() and log.read_text() == "ready\n") and process.is_alive():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # like a terminal
    assert finish_script(process, log, code=130) == "ready\n\nStopped. Nothing is lost.\n"


def test_two_commands_in_a_process_log_each_message_once(capsys, monkeypatch):
    logger = logging.getLogger("docsplit_hf")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.WARNING)
    show_log()
    show_log()
    logger.info("Half of the text was cut off.")
    assert capsys.readouterr().err.count("Half of the text") == 1
