"""A new classifier of ``docsplit fit``: its pipeline with examples and documents, fitted, measured and saved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from transformers import set_seed

from ...classifier.knn_datastore import KNNDatastore
from ...classifier.model_card import save_classifier_card
from ...classifier.pipeline import KNNClassifierPipeline
from ...encoding.checkpoints.checkpoint import load_tokenizer, open_checkpoint
from ...encoding.classifier_embedder import ClassifierEmbedder, make_embedder
from ...encoding.portable.modeling_knn_classifier import KNNClassifier
from ...encoding.reading_time import ReadingTime
from ...finetuning.metrics_of_parts import evaluate_parts
from ...reading.labels import labels_by_name
from ...registration import register
from .fit_arguments import FitArguments, read_hierarchy


def save_new_classifier(arguments: FitArguments, splits: DatasetDict, documents: Dataset | None) -> dict[str, Any]:
    """Fit experts on a frozen encoder, and save the classifier; return its metrics, and the report of the fit."""
    register()
    set_seed(arguments.seed)
    pipe = new_pipeline(arguments, splits["train"], documents)
    held_out = splits.get("validation")
    report = pipe.fit(
        held_out_texts=held_out,
        held_out_labels=None if held_out is None else labels_by_name(held_out),
        hierarchy=read_hierarchy(arguments.hierarchy),
    )
    print(report)
    embedder = pipe.embedder.with_options(show_progress=True)
    metrics = {
        name: evaluate_parts(embedder, pipe.datastore, splits[name], name)
        for name in ("validation", "test")
        if name in splits
    }
    folder = arguments.output_dir
    pipe.save_pretrained(folder)
    save_classifier_card(folder, folder, pipe.model.config, pipe.datastore, log_history=list(metrics.values()))
    return {**metrics, "fit": asdict(report)}


def new_pipeline(arguments: FitArguments, examples: Dataset, documents: Dataset | None) -> KNNClassifierPipeline:
    """Embed examples and documents, for a classifier without a head."""
    name = open_checkpoint(arguments.model_name_or_path, with_projection=True).path
    settings = {"long_documents": "whole"} | {
        option: getattr(arguments, option)
        for option in ("pooling", "max_length", "long_documents", "passage_length")
        if getattr(arguments, option) is not None
    }
    model = KNNClassifier.from_encoder(name, 0, decouple=False, normalize=True, knn_weight=1.0, **settings)
    accelerator = None if arguments.use_cpu else torch.accelerator.current_accelerator(check_available=True)
    model = model.to(accelerator or "cpu")
    tokenizer = load_tokenizer(name)
    embedder = make_embedder(model, tokenizer, bf16=arguments.bf16)
    choose_reading(embedder, [examples, documents], is_open=arguments.long_documents is None)
    datastore = KNNDatastore.build(model, tokenizer, examples, bf16=arguments.bf16)
    pipe = KNNClassifierPipeline(model, tokenizer, datastore, device=model.device)
    if documents is not None:
        pipe.add_documents(documents, show_progress=True, bf16=arguments.bf16)
    return pipe


def choose_reading(embedder: ClassifierEmbedder, tables: list[Dataset | None], is_open: bool) -> None:
    """Print how long it takes to embed the texts, and read only their beginnings if that takes too long."""
    given = [table for table in tables if table is not None]
    if any("text_pair" in table.column_names for table in given):
        return  # of pairs, the beginnings are read
    reading = ReadingTime.measure(embedder, (text for table in given for text in table["text"]))
    if is_open:
        embedder.model.config.long_documents = reading.choice
    print(reading.describe(embedder.long_documents, is_chosen=is_open), flush=True)
