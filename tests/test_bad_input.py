"""Bad input, case by case: what is done, and what the user is told."""

import copy

import peft
import pytest
from datasets import Dataset, IterableDataset
from transformers import BertConfig, BertForMaskedLM

from docsplit_hf import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    DocumentEncoder,
    load_documents,
    load_package_documentation,
    segment_documents,
)

GOOD = "One sentence. And another."


class Case:
    """What the cases act on: a model, a tokenizer, documents, a folder."""

    def __init__(self, model, tokenizer, documents, folder):
        self.model, self.tokenizer, self.documents, self.folder = model, tokenizer, documents, folder

    def segment(self, texts, column="text", **options):
        rows = Dataset.from_dict({column: texts, "id": list(range(len(texts)))})
        return segment_documents(rows, self.tokenizer, **options)

    def segment_stream(self, texts):
        rows = IterableDataset.from_generator(lambda: iter([{"text": text} for text in texts]))
        return segment_documents(rows, self.tokenizer)

    def train(self, documents=None, max_length=64, mlm_probability=0.15, model=None, **arguments):
        arguments = {"per_device_train_batch_size": 4, "max_steps": 2, **arguments}
        args = ContrastiveTrainingArguments(str(self.folder / "run"), use_cpu=True, disable_tqdm=True, **arguments)
        collator = DataCollatorForDocSplit(self.tokenizer, max_length, mlm_probability)
        trainer = ContrastiveTrainer(model or self.model, args, documents or self.documents, data_collator=collator)
        return trainer.train()

    def without(self, *tokens):
        tokenizer = copy.deepcopy(self.tokenizer)
        for token in tokens:
            setattr(tokenizer, token, None)
        return tokenizer


ERRORS = {
    # data
    "an empty data set": (lambda c: c.segment([]), ValueError, "data set is empty"),
    "an empty stream": (lambda c: c.segment_stream([]), ValueError, "data set is empty"),
    "a column that does not exist": (
        lambda c: c.segment([GOOD], column="body"), ValueError, r"no column 'text'.*\['body', 'id'\]",
    ),
    "a column of numbers": (lambda c: c.segment([1, 2]), ValueError, "'text' holds .*int64.*not strings"),
    "nothing usable": (
        lambda c: c.segment([None, " ", "One."]), ValueError, "None of the 3 documents .*1 single sentence.*halves",
    ),
    "an unknown choice for single sentences": (
        lambda c: c.segment([GOOD], single_sentence="keep"), ValueError, "must be one of .*'keep'",
    ),
    "a folder without texts": (lambda c: load_documents(str(c.folder)), FileNotFoundError, "holds no text or document"),
    "a package that is not installed": (
        lambda c: load_package_documentation(("no_such_package",)), ModuleNotFoundError, "no_such_package",
    ),
    # collator
    "a half that is entirely cut": (
        lambda c: DataCollatorForDocSplit(c.tokenizer, max_length=2), ValueError, "every half would .* at least 3",
    ),
    "MLM without a mask token": (
        lambda c: DataCollatorForDocSplit(c.without("mask_token")), ValueError, "no mask token.*mlm_probability=0",
    ),
    "no padding token": (lambda c: DataCollatorForDocSplit(c.without("pad_token")), ValueError, "no padding token"),
    "masking everything": (lambda c: DataCollatorForDocSplit(c.tokenizer, mlm_probability=1), ValueError, "got 1"),
    "an empty batch": (lambda c: DataCollatorForDocSplit(c.tokenizer)([]), ValueError, "at least one document"),
    # model
    "max_length above the positions": (
        lambda c: c.train(max_length=65), ValueError, "max_length=65 is more than the 64 positions",
    ),
    "weights of float16": (lambda c: c.train(model=c.model.half()), ValueError, r'of float16.*dtype="float32"'),
    "a model without the contrastive forward": (
        lambda c: c.train(model=BertForMaskedLM(BertConfig(vocab_size=300, hidden_size=12))),
        ValueError, "AutoModelForDocSplit",
    ),
    "a tokenizer that is larger than the model": (
        lambda c: (c.tokenizer.add_tokens([f"new{i}" for i in range(9)]), c.train()),
        ValueError, "resize_token_embeddings",
    ),
    "LoRA on weights that are stored nowhere": (
        lambda c: c.train(model=peft.get_peft_model(c.model, peft.LoraConfig(target_modules="all-linear"))),
        ValueError, "LoRA needs a base model that is saved",
    ),
    "an encoder followed by layers of sentence-transformers": (
        lambda c: (
            (c.folder / "modules.json").write_text('[{"type": "sentence_transformers.models.LSTM", "path": "2_LSTM"}]'),
            c.model.config.__dict__.pop("docsplit"),
            c.model.save_pretrained(c.folder),
            DocumentEncoder.from_pretrained(str(c.folder)),
        ),
        ValueError, "'LSTM'",
    ),
    # arguments
    "a chunk of no documents": (lambda c: c.train(forward_chunk_size=0), ValueError, "at least 1 document, got 0"),
    "pushing the Trainer's pickles": (
        lambda c: c.train(push_to_hub=True, hub_strategy="every_save"), ValueError, "hub_strategy must be 'end'",
    ),
    "temperature 0": (lambda c: c.train(temperature=0.0), ValueError, "temperature must be above 0, got 0.0"),
    "a negative MLM weight": (lambda c: c.train(mlm_weight=-0.1), ValueError, "mlm_weight must be 0"),
    "a batch of one document": (lambda c: c.train(per_device_train_batch_size=1), ValueError, "has no negatives"),
    "fewer documents than a batch": (
        lambda c: c.train(per_device_train_batch_size=100), ValueError, "48 documents do not fill one batch of 100",
    ),
    "documents that were not segmented": (
        lambda c: c.train(Dataset.from_dict({"text": [GOOD] * 9})), ValueError, r"\['text'\].*segment_documents",
    ),
    "a stream without an end": (
        lambda c: c.train(c.documents.to_iterable_dataset(), max_steps=-1), ValueError, "max_steps",
    ),
    "MLM weight without masked tokens": (lambda c: c.train(mlm_probability=0), ValueError, "do not fit"),
    "masked tokens without MLM weight": (lambda c: c.train(mlm_weight=0.0), ValueError, "do not fit"),
}  # fmt: skip


@pytest.mark.parametrize("action, error, message", ERRORS.values(), ids=ERRORS)
def test_errors_name_the_value_and_the_next_step(action, error, message, tiny_model, tokenizer, documents, tmp_path):
    with pytest.raises(error, match=message):
        action(Case(tiny_model, copy.deepcopy(tokenizer), documents, tmp_path))


def test_non_strings_in_a_stream_are_dropped_and_counted(tiny_model, tokenizer, documents, tmp_path, caplog):
    stream = Case(tiny_model, tokenizer, documents, tmp_path).segment_stream([1, None, GOOD, b"x"] * 25)
    assert len(list(stream)) == 25
    assert "Dropped 75: 75 not a string" in caplog.text
