"""Small real things that many tests use: documents, a tokenizer trained on them, a BERT of 30,000 parameters.

The libraries are imported where they are used: the process that hands tests out to others imports this file, too, and
before it has done so none begins.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from .end_to_end.forked import finish_script, start_script, start_server

# What a browser does by itself in the background is none of the page's doing.
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
LONG = ("tests/apps/page", "tests/distributed", "tests/end_to_end", "tests/hub", "tests/test_")
LONG += ("tests/encoding", "docs", "README")
LONG += ("tests/apps/server", "tests/reading/files")
# Files for one worker, since they share something: a server, a browser, Gradio, records, embeddings of the same texts.
TOGETHER = (
    ("tests/apps/server",),
    ("tests/figures",),
    ("tests/apps/page", "tests/test_private_doors", "tests/test_site"),
    ("docs/", "README", "CONTRIBUTING", "tests/test_notebooks"),
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SUBJECTS = "river engine garden orchestra court harbour kitchen glacier market library stadium forest".split()
VERBS = "feeds moves opens shapes follows carries warms divides measures covers".split()
OBJECTS = "valley table crowd archive coast recipe verdict melody bridge harvest goal winter".split()

# A machine that is busy is no failure. A few examples for each change, and many where there is time: new ones, but in
# continuous integration the same ones each time.
hypothesis.settings.register_profile("few", deadline=None, max_examples=15)
hypothesis.settings.register_profile(
    "many", deadline=None, max_examples=200, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("few")


def pytest_collection_modifyitems(items):
    """Files of few and long tests come first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(trylast=True)  # after the fixtures of the file have ended
def pytest_runtest_teardown(item, nextitem):
    """Leave what a file has imported out of garbage collection, too, as the libraries are."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item):
    """Skip tests with the marker cuda where there is no GPU."""
    if item.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("There is no CUDA GPU here.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """As ``--dist loadfile`` does, but for the files that share something."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((files[0] for files in TOGETHER if nodeid.startswith(files)), super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Leave the libraries out of garbage collection: it takes half a second, and each run of a Trainer asks for two."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


def make_text(number: int, sentences: int = 6) -> str:
    """A document about a subject or two, the same for the same number."""
    rng = np.random.default_rng(number)
    subject, other = rng.choice(SUBJECTS, 2, replace=False)
    lines = [
        f"The {rng.choice([subject, other])} {rng.choice(VERBS)} the {rng.choice(OBJECTS)} of number {number}."
        for _ in range(sentences)
    ]
    return " ".join(lines)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The process that scripts are forked from."""
    start_server(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="session")
def run_script(server, tmp_path_factory):
    """Run a script in a process of its own, forked, and give what it printed; a failure shows its end."""

    def run(script, *arguments, code=0, folder=".", **environment):
        log = tmp_path_factory.mktemp("script") / "log"
        return finish_script(start_script(script, *arguments, log=log, folder=folder, **environment), log, code)

    return run


@pytest.fixture(scope="session")
def texts():
    return [make_text(number, sentences=4 + number % 5) for number in range(48)]


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer of these texts' words; training breaks ties at random, so its vocabulary is kept beside this file."""
    from transformers import BertTokenizer

    return BertTokenizer(vocab=str(Path(__file__).parent / "vocabulary.txt"))


@pytest.fixture(scope="session")
def documents(texts, tokenizer):
    from datasets import Dataset

    from docsplit_hf import segment_documents

    return segment_documents(Dataset.from_dict({"text": texts}), tokenizer)


@pytest.fixture
def collator(tokenizer):
    from docsplit_hf import DataCollatorForDocSplit

    return DataCollatorForDocSplit(tokenizer, max_length=64)


@pytest.fixture
def transformers_log(caplog):
    """What transformers logs, which it keeps from other loggers' handlers."""
    import transformers

    transformers.logging.enable_propagation()
    yield caplog
    transformers.logging.disable_propagation()


@pytest.fixture(scope="session")
def nlp():
    """A pipeline of spaCy with parts of speech and lemmas by lists of words: those of the texts, and "small"."""
    import spacy  # takes seconds, and few tests need it

    pipeline = spacy.blank("en")
    rules = pipeline.add_pipe("attribute_ruler")
    for noun in {*SUBJECTS, *OBJECTS, "number"}:
        rules.add([[{"LOWER": {"IN": [noun, f"{noun}s"]}}]], {"POS": "NOUN", "LEMMA": noun})
    for verb in VERBS:
        rules.add([[{"LOWER": {"IN": [verb, verb[:-1]]}}]], {"POS": "VERB", "LEMMA": verb[:-1]})
    rules.add([[{"LOWER": "small"}]], {"POS": "ADJ", "LEMMA": "small"})
    return pipeline


@pytest.fixture(scope="session")
def tagger(nlp):
    """The tagger that this pipeline is."""
    from experiments.taggers.spacy_tagger import spacy_tagger

    return spacy_tagger(nlp)


@pytest.fixture(scope="session")
def make_tiny_config(tokenizer):
    """Makes a config for one model: a model keeps its config, and writes its attention implementation in it."""
    from transformers import BertConfig

    return lambda: BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,  # so that the embeddings of different texts differ by more than rounding
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


@pytest.fixture
def tiny_config(make_tiny_config):
    return make_tiny_config()


@pytest.fixture
def tiny_model(tiny_config):
    import torch

    from docsplit_hf import AutoModelForDocSplit

    torch.manual_seed(0)
    return AutoModelForDocSplit.from_config(tiny_config)


@pytest.fixture
def tiny_checkpoint(tiny_model, tokenizer, tmp_path):
    """A folder with a stock checkpoint of the tiny model, as a starting point of a run."""
    tiny_model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def make_baseline(make_tiny_config, tokenizer, documents, tiny_checkpoint, tmp_path, monkeypatch):
    """Make the trainer of an objective: 35 documents to train on, 13 held out, mean pooling, batches of 8 in order.

    Of distillation the tiny checkpoint is the teacher, and the student as large. The papers' baselines are known, too.
    """
    import torch

    from docsplit_hf import AutoModelForDocSplit, DataCollatorForDocSplit
    from docsplit_hf.pretraining.objectives import OBJECTIVES, get_arguments_class, get_trainer_class
    from docsplit_hf.pretraining.views import VIEWS
    from experiments.baselines.objectives import BASELINES
    from experiments.baselines.views import BASELINE_VIEWS

    for name, trainer in BASELINES.items():
        monkeypatch.setitem(OBJECTIVES, name, trainer)
    for name, views in BASELINE_VIEWS.items():
        monkeypatch.setitem(VIEWS, name, views)

    def make(objective, views="docsplit", views_kwargs=None, dropout=0.0, folder="run", **arguments):
        if objective == "distillation":
            arguments.setdefault("teacher", str(tiny_checkpoint))
        arguments = {
            "per_device_train_batch_size": 8, "report_to": "none", "learning_rate": 1e-3, "logging_steps": 1,
            "save_strategy": "no", "train_sampling_strategy": "sequential", **arguments,
        }  # fmt: skip
        args = get_arguments_class(objective)(str(tmp_path / folder), use_cpu=True, disable_tqdm=True, **arguments)
        config = make_tiny_config()
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        torch.manual_seed(0)
        model = AutoModelForDocSplit.from_config(config, pooling="mean", mlm_head=args.mlm_weight > 0)
        probability = 0.15 if args.mlm_weight > 0 else 0
        collator = DataCollatorForDocSplit(tokenizer, 64, probability, views, views_kwargs=views_kwargs)
        split = documents.train_test_split(test_size=13, seed=0)
        return get_trainer_class(objective)(model, args, split["train"], split["test"], collator)

    return make


@pytest.fixture
def loss_of_steps():
    """Train, and give the logged losses by step."""

    def losses(trainer, resume=None):
        trainer.train(resume)
        return {logs["step"]: logs["loss"] for logs in trainer.state.log_history if "loss" in logs}

    return losses


@pytest.fixture(scope="session")
def exported(make_tiny_config, tokenizer, texts, tmp_path_factory):
    """A checkpoint, a home with its export for OpenVINO in int8, and its log: once for all workers."""
    pytest.importorskip("openvino", reason="The extra openvino is not installed.")
    import torch
    from filelock import FileLock
    from huggingface_hub import constants
    from transformers import BertModel

    from docsplit_hf import DocumentEncoder

    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "openvino"
    with FileLock(f"{folder}.lock"):
        if not (folder / "home").exists():
            torch.manual_seed(0)
            BertModel(make_tiny_config()).save_pretrained(folder / "checkpoint")
            tokenizer.save_pretrained(folder / "checkpoint")
            logger, handler = logging.getLogger("docsplit_hf"), logging.FileHandler(folder / "log")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(constants, "HF_HOME", str(folder / "home"))
                patch.setattr(logger, "level", logging.INFO)
                logger.addHandler(handler)
                DocumentEncoder.from_pretrained(
                    folder / "checkpoint", "mean", precision="int8", calibration_texts=texts[:40]
                )
                logger.removeHandler(handler)
    return folder


@pytest.fixture(scope="session")
def new_browser():
    """Starts Chromium, of whatever package it is, with options of its own."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"there is no browser here, none of {', '.join(BROWSERS)}: install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
    with playwright.sync_playwright() as driver:
        started = []

        def new_browser(*options):
            started.append(driver.chromium.launch(executable_path=found, args=[*QUIET, *options]))
            return started[-1]

        yield new_browser
        for one in started:
            one.close()


@pytest.fixture(scope="session")
def browser(new_browser):
    """One browser for all tests, which open contexts of their own."""
    return new_browser()


@pytest.fixture
def stop_after():
    """A callback that ends a run after a step, as a run that is interrupted there."""
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def __init__(self, step):
            self.step = step

        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step >= self.step

    return Stop
