"""A small BERT and its trainers on a GPU. Everything is computed on DEVICE, which is the GPU."""

import pytest
import torch
from datasets import Dataset
from transformers import BertConfig

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    segment_documents,
)

from ..conftest import make_text

DEVICE = "cuda"
MAX_LENGTH = 64
SHORT_RUN = {
    "bf16": True,
    "per_device_train_batch_size": 16,
    "max_steps": 4,
    "logging_steps": 1,
    "learning_rate": 1e-3,
    "train_sampling_strategy": "sequential",
    "dataloader_num_workers": 0,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


@pytest.fixture(scope="session")
def many_documents(tokenizer):
    """256 documents, for steps that need memory."""
    texts = [make_text(number, sentences=10) for number in range(256)]
    return segment_documents(Dataset.from_dict({"text": texts}), tokenizer, num_proc=1)


@pytest.fixture
def make_model(tokenizer):
    """Make a BERT of random weights, the same each time, with heads of 32 dimensions, which flash attention takes."""

    def make(dropout=0.0, **sizes):
        torch.manual_seed(0)
        sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 128} | sizes
        config = BertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=MAX_LENGTH,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            **sizes,
        )
        return AutoModelForDocSplit.from_config(config, pooling="mean")

    return make


@pytest.fixture
def make_trainer(make_model, many_documents, tokenizer, tmp_path):
    """Make a trainer in bfloat16, of batches of 16 documents in order."""

    def make(folder="run", dropout=0.0, sizes=None, **arguments):
        args = ContrastiveTrainingArguments(str(tmp_path / folder), use_cpu=DEVICE == "cpu", **(SHORT_RUN | arguments))
        collator = DataCollatorForDocSplit(tokenizer, MAX_LENGTH)
        model = make_model(dropout, **(sizes or {}))
        return ContrastiveTrainer(model, args, many_documents, data_collator=collator)

    return make


@pytest.fixture
def batch(many_documents, tokenizer):
    """A batch of 16 documents on the GPU, with a masked copy."""
    made = DataCollatorForDocSplit(tokenizer, MAX_LENGTH)(list(many_documents.select(range(16))))
    return {name: values.to(DEVICE) for name, values in made.items()}


@pytest.fixture
def limit_memory():
    """Limit what torch may take of the GPU, in bytes; the limit is removed in the end."""

    def limit(size):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))

    torch.cuda.empty_cache()
    yield limit
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()
