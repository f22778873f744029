"""Our defaults beside the papers' words: a default that moves away from them fails here."""

import dataclasses
import inspect

import pytest

from docsplit_hf import (
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    DocumentEncoder,
    KNNClassifierTrainingArguments,
)
from docsplit_hf.apps.cli.pretrain_arguments import DataArguments, run_arguments
from docsplit_hf.apps.cli.train import RunArguments as ClassificationArguments
from docsplit_hf.encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from experiments.papers_options import PAPERS, PaperSettings
from experiments.protocols import perceptron

VIEWS = {field.name: field.default for field in dataclasses.fields(DataCollatorForDocSplit)}["views"]
POOLING = inspect.signature(DocumentEncoder).parameters["pooling"].default
SHOTS = {"FakeNews": 10, "arXiv": 10, "20News": 5, "NYT": 5, "BBCNews": 5}


def of(*kinds):
    """The value of an argument in the library, and in the command."""
    return lambda name: [getattr(kind("unused", use_cpu=True), name) for kind in kinds]


pretraining = of(ContrastiveTrainingArguments, run_arguments("info_nce"))
fine_tuning = of(KNNClassifierTrainingArguments, ClassificationArguments)
evaluation = PaperSettings()
preset = PaperSettings(**{name: value for name, value in PAPERS.items() if name != "protocol"})
classifier = KNNClassifierConfig()

SETTINGS = [
    # the paper's words; where they stand; our default in the library and in the command; what it must be
    ("contrastive loss (with temperature τ = 0.05)", "DocSplit 4.1", pretraining("temperature"), [0.05] * 2),
    ("MLM loss (with weight= 0.1)", "DocSplit 4.1", pretraining("mlm_weight"), [0.1] * 2),
    ("a learning rate of 5e-5", "DocSplit 4.1", pretraining("learning_rate"), [5e-5] * 2),
    ("DocSplit_bert uses a batch size of 36", "DocSplit 4.1", pretraining("per_device_train_batch_size"), [36] * 2),
    ("optimized by AdamW", "SimDE 3.1", [name.split("_")[0] for name in pretraining("optim")], ["adamw"] * 2),
    ("in 1 epoch", "SimDE 3.1", pretraining("num_train_epochs"), [1] * 2),
    ("sim(h1, h2) is the cosine similarity", "SimDE 2.1", pretraining("similarity"), ["cosine"] * 2),
    ("[CLS] as the representation of the input", "SimDE 2.1", [POOLING, classifier.pooling], ["cls"] * 2),
    ("each sentence is randomly assigned to either", "DocSplit 2.2",
     [VIEWS, DataArguments("documents.jsonl").views], ["docsplit"] * 2),
    ("fine-tune the last MLP layer", "DocSplit A.1", [evaluation.probe, preset.probe], ["mlp"] * 2),
    ("the learning rate for fine-tuning is 3e-4", "DocSplit A.1", perceptron.LEARNING_RATE, 3e-4),
    ("the batch size is 8", "DocSplit A.1", perceptron.BATCH_SIZE, 8),
    ("512 tokens", "DocSplit A.1", [evaluation.max_length, preset.max_length], [512] * 2),
    ("10 ... FakeNewsCorpus and arXiv, 5 for the other three", "DocSplit A.1",
     [{name: settings.shots_of(name) for name in SHOTS} for settings in (evaluation, preset)], [SHOTS] * 2),
    ("Other settings are the same as the standard", "DocSplit A.1", preset.few_shot_probe, "mlp"),
    ("repeat every experiment 10 times", "DocSplit A.1",
     [evaluation.repeats, preset.repeats, preset.seeds], [10] * 3),
    ("20News: a median of 153 words", "SimDE table 1", preset.newsgroups, "body"),
    ("retrieve 64 nearest neighbours", "Decoupled 3.1", classifier.k, 64),
    ("the temperature T is set as 10", "Decoupled 3.1", classifier.knn_temperature, 10),
    ("a separate representation r_i to decouple the retrieval", "Decoupled 2.2", classifier.decouple, True),
    ("the hyper-parameter β is set as 0.5", "Decoupled 3.1", fine_tuning("triplet_weight"), [0.5] * 2),
    ("Training Epochs 3", "Decoupled table 3", fine_tuning("num_train_epochs"), [3] * 2),
    ("Learning Rate 2E-05 (MacBERT)", "Decoupled table 3", fine_tuning("learning_rate"), [2e-5] * 2),
    ("Batch Size 32 (RoBERTa)", "Decoupled table 3", fine_tuning("per_device_train_batch_size"), [32] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("words", "section", "ours", "papers"), SETTINGS, ids=[words for words, *_ in SETTINGS])
def test_the_default_is_the_papers(words, section, ours, papers):
    assert ours == papers, f"{section}: {words}"
