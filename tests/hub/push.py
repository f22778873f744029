"""Push a checkpoint, an adapter, and a pipeline with its datastore; return the commits and the pipeline's answers."""

import os

import datasets
import httpx2
from huggingface_hub.errors import HfHubHTTPError
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer, pipeline

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    KNNClassifier,
    KNNClassifierTrainer,
    KNNClassifierTrainingArguments,
    segment_documents,
)


def arguments(arguments_class, folder):
    """One step, whose checkpoint is pushed under the name of the folder."""
    return arguments_class(
        folder,
        max_steps=1,
        per_device_train_batch_size=4,
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        push_to_hub=True,
        hub_model_id=f"me/{folder}",
    )


def control(**settings):
    httpx2.post(f"{os.environ['HF_ENDPOINT']}/control", json=settings).raise_for_status()


def train(folder, model, tokenizer, texts):
    args = arguments(ContrastiveTrainingArguments, folder)
    documents = segment_documents(datasets.Dataset.from_dict({"text": texts}), tokenizer)
    trainer = ContrastiveTrainer(model, args, documents, data_collator=DataCollatorForDocSplit(tokenizer, 64))
    trainer.train()
    trainer.push_to_hub()


def train_classifier(texts, labels):
    examples = datasets.Dataset.from_dict({"text": texts, "label": labels}).class_encode_column("label")
    args = arguments(KNNClassifierTrainingArguments, "trained")
    model = KNNClassifier.from_encoder("me/checkpoint", id2label=dict(enumerate(examples.features["label"].names)))
    trainer = KNNClassifierTrainer(model, args, examples, processing_class=AutoTokenizer.from_pretrained("tiny"))
    trainer.train()
    trainer.build_datastore(show_progress=False)
    trainer.push_to_hub()


def main(texts, labels):
    tokenizer = AutoTokenizer.from_pretrained("tiny")
    train("checkpoint", AutoModelForDocSplit.from_pretrained("tiny", pooling="mean"), tokenizer, texts)
    base = AutoModelForDocSplit.from_pretrained("me/checkpoint")
    train("adapter", get_peft_model(base, LoraConfig(r=2, target_modules="all-linear")), tokenizer, texts)

    pipe = pipeline("docsplit-knn", model="me/checkpoint")
    ids = pipe.add_examples(texts[:24], labels[:24])
    pipe.add_documents(texts[24:40])
    pipe.fit(show_progress=False)
    pipe.save_pretrained("first")
    made = {"first": {"commit": pipe.push_to_hub("classifier").oid}}
    made["first"]["answers"] = pipe(texts[:6], top_k=None)
    pipe.push_to_hub("secret", private=True)
    made["datastore"] = pipe.datastore.push_to_hub("trained", "A datastore alone").oid
    train_classifier(texts[:18], labels[:18])  # in the place of that datastore

    pipe.remove_examples(ids[12:])
    pipe.datastore.remove_documents(pipe.datastore.documents.ids)
    pipe.fit(show_progress=False)
    pipe.save_pretrained("second")
    control(refuse_commits=1, cut={"PUT": 1})  # the first fails the push, and huggingface_hub repeats the second
    try:
        pipe.push_to_hub("classifier")
    except HfHubHTTPError as error:
        made["refused"] = str(error)
    made["second"] = {
        "commit": pipe.push_to_hub("classifier").oid,
        "answers": pipe(texts[:6], top_k=None, return_neighbors=4),
    }
    return made
