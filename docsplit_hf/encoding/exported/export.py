"""Export the model of a classifier to ONNX: encoder, pooling and heads in one graph."""

from __future__ import annotations

import logging
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ...arrays.probe import PROBE_TEXTS
from ...content_hash import cache_folder, sha256_of_file
from ...extras import check_extra
from ...reading.characters import replace_lone_surrogates
from ...storage.classifier_folder import EXPORTED, TEXTS, UNFINISHED_EXPORT
from ...storage.datastore_files import load_snapshot
from ...storage.inside_folder import refuse_links
from ...storage.texts_as_json import source_of_texts, write_texts
from ..backends.instructions import int8_overflows
from ..backends.openvino.engine import example_inputs, input_names
from .embedder import DESCRIPTION, GRAPH, PRECISIONS, TRUSTED, ExportedEmbedder, ExportedModel, encoder_files

if TYPE_CHECKING:
    from ..chunking import ChunkSettings
    from ..classifier_embedder import ClassifierEmbedder
    from ..portable.modeling_knn_classifier import KNNClassifier

logger = logging.getLogger(__name__)

OPSET = 18
# Norm of the difference from torch, relative to the norm, above which an export is refused.
TOLERANCE = {"float32": 1e-4, "int8": 0.15}


class _Graph(nn.Module):
    """From the inputs by position, as tracing requires, to retrieval embeddings and logits."""

    def __init__(self, model: KNNClassifier, names: Sequence[str], first_pooled: int) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.first_pooled = first_pooled

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = dict(zip(self.names, values, strict=True))
        states = self.model.encoder(**inputs).last_hidden_state
        output = self.model.read_states(states, inputs["attention_mask"], self.first_pooled)
        if not self.model.config.num_labels:
            return (output.retrieval_embeddings,)
        return output.retrieval_embeddings, output.logits


def export_classifier(embedder: ClassifierEmbedder, folder: str | Path, precision: str = "float32") -> Path:
    """Write a classifier's model as a graph of ONNX, and its texts as JSON, and trust the graph on this machine.

    Args:
        embedder: The embedder of the classifier, ``pipe.embedder``.
        folder: The folder that the classifier was saved to, or loaded from.
        precision: ``"float32"``, equal to torch within rounding; or ``"int8"``: a quarter of the size.

    Returns:
        The folder of the graph, ``FOLDER/exported``.

    Raises:
        ValueError: If the model cannot be exported, or the graph computes other embeddings than torch.
        ModuleNotFoundError: If onnx or onnxruntime is not installed.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    check_extra("onnx", "An export")
    config = embedder.model.config
    if embedder.tokenizer is None or not embedder.tokenizer.is_fast:
        raise ValueError("Only tokenizers with a tokenizer.json can be exported: this one has none.")
    target = Path(folder) / EXPORTED
    if target.is_symlink() or target.exists():
        refuse_links(target)
    names = input_names(embedder.model.encoder)
    settings = embedder.chunk_settings()
    with tempfile.TemporaryDirectory(dir=folder, prefix=UNFINISHED_EXPORT) as name:
        made = Path(name, EXPORTED)
        made.mkdir()
        _write_graph(embedder, names, settings, made / GRAPH, precision)
        texts_of = source_of_texts(Path(folder))
        write_texts(made / TEXTS, load_snapshot(folder, None, None, memory_map=True))
        described = ExportedModel(
            sha256=sha256_of_file(made / GRAPH),
            precision=precision,
            inputs=tuple(names),
            dimension=config.retrieval_size,
            num_labels=config.num_labels,
            max_length=embedder.max_length,
            long_documents=embedder.long_documents,
            passage_length=config.passage_length,
            prompt=config.prompt,
            include_prompt=config.include_prompt,
            pad_token_id=embedder.tokenizer.pad_token_id or 0,
            unk_token_id=embedder.tokenizer.unk_token_id,
            saved_with=encoder_files(Path(folder)),
            texts_sha256=sha256_of_file(made / TEXTS),
            texts_of=texts_of,
        )
        described.write(made)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    trusted = cache_folder(TRUSTED)
    trusted.mkdir(parents=True, exist_ok=True)
    (trusted / described.sha256).touch()
    try:
        _check(embedder, Path(folder), precision)
    except ValueError:
        (target / DESCRIPTION).unlink()
        raise
    return target


def _write_graph(
    embedder: ClassifierEmbedder, names: Sequence[str], settings: ChunkSettings, path: Path, precision: str
) -> None:
    """Trace the model, and write its graph."""
    model = embedder.model.eval()
    example = tuple(values.to(model.device) for values in example_inputs(model.encoder).values())
    graph = _Graph(model, names, settings.first_pooled).eval()
    outputs = ["retrieval_embeddings", "logits"] if model.config.num_labels else ["retrieval_embeddings"]
    axes = {name: {0: "texts", 1: "tokens"} for name in names} | {name: {0: "texts"} for name in outputs}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # Tracing warns of many things; instead, the result is compared with torch's afterwards.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph,
                example,
                str(path),
                dynamo=False,
                input_names=list(names),
                output_names=outputs,
                dynamic_axes=axes,
                opset_version=OPSET,
            )
    except Exception as error:  # the encoder's own code runs, and may raise anything
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"{type(model.encoder).__name__} cannot be exported to ONNX ({reason}).") from error
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        exact = path.with_suffix(".float32")
        path.rename(exact)
        # A scale for each channel: with one for each matrix, embeddings turn by 15 degrees instead of 5. Seven bits of
        # the weights where sums of products would overflow.
        quantize_dynamic(exact, path, per_channel=True, weight_type=QuantType.QInt8, reduce_range=int8_overflows())
        exact.unlink()


def _check(embedder: ClassifierEmbedder, folder: Path, precision: str) -> None:
    """Raise ValueError if tokens or embeddings differ from those of torch."""
    exported = ExportedEmbedder(folder)
    texts = [replace_lone_surrogates(text) for text in PROBE_TEXTS]
    if exported.tokenizer(texts)["input_ids"] != embedder.tokenizer(texts)["input_ids"]:
        raise ValueError(
            f"{folder / 'tokenizer.json'} gives other tokens than {type(embedder.tokenizer).__name__}: it cannot be "
            "exported."
        )
    probe = embedder.probe()[: len(PROBE_TEXTS)]
    difference = np.linalg.norm(exported.probe() - probe) / np.linalg.norm(probe)
    if not difference <= TOLERANCE[precision]:  # NaN is refused, too
        raise ValueError(f"The exported model's embeddings differ from torch's by {difference:.2g} of their norm.")
    logger.info("The exported model's embeddings differ from torch's by %.1g of their norm.", difference)
