"""KNNClassifier: an encoder with a classification head and, decoupled from it, a retrieval head.

This file is saved with the weights, together with the files that it imports from its own folder, so that the model also
loads without docsplit_hf.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.utils import ModelOutput

from .configuration_knn_classifier import KNNClassifierConfig
from .run_encoder import check_pooling, describe_projection, make_projection, max_positions, pool, run_encoder

MULTI_LABEL = "multi_label_classification"
PROBLEM_TYPES = (None, "single_label_classification", MULTI_LABEL)


@dataclass
class KNNClassifierOutput(ModelOutput):
    """Output of a ``KNNClassifier``."""

    loss: torch.Tensor | None = None  # cross entropy, binary for several labels per text: a scalar; None without labels
    logits: torch.Tensor | None = None  # (B, C), before the softmax or sigmoid; C is 0 without a classification head
    retrieval_embeddings: torch.Tensor | None = None  # (B, R), float32: the queries of the neighbor search


class KNNClassifier(PreTrainedModel):
    """A classifier with decoupled representations (Liang et al. 2023, section 2).

    The encoder's states are pooled to h. The classification head reads h, and the retrieval embedding is
    ``r = MLP(h)``, so that training for similarity does not disturb the representation that is classified::

        P_CLS(y | s) = softmax(W h)                                     (equation 1)
        r = W2 gelu(W1 h), or h itself with ``decouple=False``          (section 2.2)

    The paper leaves open the depth, width and activation of the MLP. Here it has one hidden layer of h's width with
    GELU. The paper writes equation 1 with an unnamed activation around W h; here it has none, since most activations
    would bound the logits. With ``classifier_activation="tanh"`` the head is ``softmax(W tanh(V h))``, the stock head
    of RoBERTa. Dropout comes before V and before W.

    Without labels in the configuration (``num_labels=0``) there is no classification head, and texts are classified by
    their neighbors alone.

    Args:
        config: The configuration.

    Raises:
        ValueError: If the problem type is regression, the pooling or the activation does not exist, or the encoder has
            a decoder.

    Example:

        >>> from transformers import BertConfig
        >>> encoder_config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> model = KNNClassifier(KNNClassifierConfig(encoder_config=encoder_config, num_labels=3)).eval()
        >>> output = model(torch.tensor([[1, 2, 3]]))
        >>> output.logits.shape, output.retrieval_embeddings.shape
        (torch.Size([1, 3]), torch.Size([1, 8]))
    """

    config_class = KNNClassifierConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    # Private names of transformers 5.23, set in all of its models: there is no public way to let the encoder choose its
    # own attention.
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: KNNClassifierConfig) -> None:
        super().__init__(config)
        if config.problem_type not in PROBLEM_TYPES:
            raise ValueError(f"problem_type must be one of {PROBLEM_TYPES}, got {config.problem_type!r}.")
        check_pooling(config.pooling)
        check_pooling(config.retrieval_pooling or config.pooling)
        if config.encoder_config.is_encoder_decoder:
            raise ValueError(f"{config.encoder_config.model_type} has a decoder: take an encoder.")
        # In the dtype of the heads, regardless of the dtype in the encoder's configuration.
        self.encoder = AutoModel.from_config(config.encoder_config, dtype=torch.get_default_dtype())
        if "add_pooling_layer" in inspect.signature(type(self.encoder).__init__).parameters:
            self.encoder.pooler = None  # it is not used, so it is neither trained nor saved
        self.max_positions = max_positions(self.encoder)  # found once, as it takes a walk over all modules
        self.dropout = nn.Dropout(_classifier_dropout(config))
        self.classifier = _classification_head(config) if config.num_labels else None
        self.projection = None
        if config.projection is not None:
            self.projection = make_projection(config.projection, config.hidden_size)
        self.retrieval_head = None
        if config.decouple:
            self.retrieval_head = nn.Sequential(
                nn.Linear(config.hidden_size, config.hidden_size),
                nn.GELU(),
                nn.Linear(config.hidden_size, config.retrieval_size),
            )
        self.post_init()

    @classmethod
    def from_encoder(
        cls,
        name: str | None = None,
        num_labels: int | None = None,
        id2label: Mapping[int, str] | None = None,
        revision: str | None = None,
        dtype: torch.dtype | str = "float32",
        prompt_name: str | None = None,
        **config_arguments: Any,
    ) -> KNNClassifier:
        """Put new heads, with random weights, on a DocSplit checkpoint, a LoRA adapter of one, or any other encoder.

        Pooling, maximum length and prompt are the checkpoint's own; without a pooling, the first token is used.

        Args:
            name: A model on the Hub or a folder. None: the checkpoint that ships, ``"docsplit-small-en"``.
            num_labels: The number of labels; 0 for no classification head. None: the number in ``id2label``.
            id2label: The name of each label.
            revision: The branch, tag or commit on the Hub.
            dtype: Type of the weights in memory.
            prompt_name: As for ``DocumentEncoder.from_pretrained``.
            **config_arguments: Further arguments of ``KNNClassifierConfig``.

        Returns:
            The classifier.

        Raises:
            ValueError: If ``num_labels`` and ``id2label`` do not agree, or neither is given, or the encoder has dense
                layers after its pooling and ``decouple`` is true.
            OSError: If the encoder does not exist.
        """
        try:
            from docsplit_hf.encoding.document_encoder import DocumentEncoder
        except ImportError as error:
            raise ImportError(
                "from_encoder needs docsplit_hf, which is not installed: in a clone of it, pip install -e ."
            ) from error
        loaded = DocumentEncoder.from_pretrained(
            name,
            pooling=config_arguments.get("pooling"),
            max_length=config_arguments.get("max_length"),
            device="cpu",
            dtype=dtype,
            revision=revision,
            packing="off",  # only its weights are used
            prompt=config_arguments.get("prompt"),
            prompt_name=prompt_name,
        )
        if loaded.projection is not None and config_arguments.get("decouple", True):
            raise ValueError(
                f"{name} sends its embeddings through dense layers, and decouple=True learns layers of its own: pass "
                "decouple=False to keep them, or KNNClassifier.around(DocumentEncoder.from_pretrained(...).model, ...) "
                "to leave them out."
            )
        settings = {
            "pooling": loaded.pooling,
            "max_length": loaded.max_length,
            "prompt": loaded.prompt,
            "include_prompt": loaded.include_prompt,
        }
        return cls.around(
            loaded.model, num_labels, id2label, projection=loaded.projection, **settings | config_arguments
        )

    @classmethod
    def around(
        cls,
        encoder: PreTrainedModel,
        num_labels: int | None = None,
        id2label: Mapping[int, str] | None = None,
        projection: nn.Sequential | None = None,
        **config_arguments: Any,
    ) -> KNNClassifier:
        """Put new heads, with random weights, on a loaded encoder, which becomes a part of the model.

        Args:
            encoder: The encoder, without a head.
            num_labels, id2label, **config_arguments: As in ``from_encoder``.
            projection: The dense layers after its pooling. None: there are none.

        Returns:
            The classifier.

        Raises:
            ValueError: If ``num_labels`` and ``id2label`` do not agree, or neither is given.
        """
        names = None
        if id2label is not None:
            names = {int(number): str(label) for number, label in id2label.items()}
        count = num_labels
        if num_labels is None and names is not None:
            count = len(names)
        if count is None or (names is not None and sorted(names) != list(range(count))):
            raise ValueError(
                f"num_labels={num_labels} and id2label={id2label} do not give a number of labels: pass one of them, or "
                "id2label with the numbers from 0 to num_labels - 1."
            )
        if count == 0:
            names = {}
        if projection is not None:
            config_arguments["projection"] = describe_projection(projection)
        encoder_config = copy.deepcopy(encoder.config)
        if Path(encoder_config.name_or_path).exists():
            # Saved classifiers may be shared, and a path on this machine means nothing elsewhere.
            encoder_config.name_or_path = Path(encoder_config.name_or_path).name
        if names is None:
            config = KNNClassifierConfig(encoder_config=encoder_config, num_labels=count, **config_arguments)
        else:
            numbers = {label: number for number, label in names.items()}
            config = KNNClassifierConfig(
                encoder_config=encoder_config, id2label=names, label2id=numbers, **config_arguments
            )
        model = cls(config)
        own = model.encoder.state_dict()
        model.encoder.load_state_dict({key: value for key, value in encoder.state_dict().items() if key in own})
        for parameter in model.parameters():  # not the buffers: rotary frequencies stay in float32
            parameter.data = parameter.data.to(encoder.dtype)
        if projection is not None:
            model.projection.load_state_dict(projection.state_dict())
        return model.to(encoder.device)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **encoder_arguments: Any,
    ) -> KNNClassifierOutput:
        """Classify texts, and embed them for retrieval, in one forward pass.

        Args:
            input_ids: ``(B, L)``, padded on the right.
            attention_mask: ``(B, L)``, 1 for tokens. None: all are tokens.
            token_type_ids: ``(B, L)``, the number of each token's text in a pair; ignored if the encoder has none.
            labels: ``(B,)`` numbers, or ``(B, C)`` of 0 and 1 for several labels per text. None: no loss.
            **encoder_arguments: Further arguments of the encoder.

        Returns:
            ``logits``, ``(B, C)``; ``retrieval_embeddings``, ``(B, R)`` float32; and ``loss``, a scalar, if labels are
            given.

        Raises:
            ValueError: If labels are given and there is no classification head.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if token_type_ids is not None and "token_type_ids" in inspect.signature(self.encoder.forward).parameters:
            encoder_arguments["token_type_ids"] = token_type_ids
        states = run_encoder(self.encoder, input_ids, attention_mask, **encoder_arguments).last_hidden_state
        output = self.read_states(states, attention_mask)
        if labels is not None:
            output.loss = classification_loss(output.logits, labels, self.config.problem_type)
        return output

    def read_states(
        self, states: torch.Tensor, attention_mask: torch.Tensor, first_pooled: int = 0
    ) -> KNNClassifierOutput:
        """Compute logits and retrieval embeddings from last hidden states.

        Args:
            states: ``(B, L, H)``.
            attention_mask: ``(B, L)``, 1 for tokens.
            first_pooled: The first token of each row that is pooled.

        Returns:
            ``logits``, ``(B, C)``, and ``retrieval_embeddings``, ``(B, R)`` float32.
        """
        hidden = pool(states, attention_mask, self.config.pooling, first_pooled)
        logits = hidden.new_zeros(len(hidden), 0)
        if self.classifier is not None:
            logits = self.classifier(self.dropout(hidden))
        embeddings = hidden
        retrieval_pooling = self.config.retrieval_pooling or self.config.pooling
        if retrieval_pooling != self.config.pooling:
            embeddings = pool(states, attention_mask, retrieval_pooling, first_pooled)
        if self.projection is not None:
            embeddings = self.projection(embeddings.to(next(self.projection.parameters()).dtype))
        if self.retrieval_head is not None:
            embeddings = self.retrieval_head(embeddings)
        embeddings = embeddings[:, : self.config.truncate_dim].float()
        if self.config.normalize:
            embeddings = nn.functional.normalize(embeddings)
        return KNNClassifierOutput(logits=logits, retrieval_embeddings=embeddings)


def classification_loss(
    logits: torch.Tensor, labels: torch.Tensor, problem_type: str | None = None, label_smoothing: float = 0.0
) -> torch.Tensor:
    """The mean cross entropy, or binary cross entropy for several labels per text, a float32 scalar.

    ``logits``: ``(B, C)``; ``labels``: ``(B,)`` numbers, or ``(B, C)`` of 0 and 1, without smoothing.
    """
    if logits.shape[1] == 0:
        raise ValueError("This model has no classification head (num_labels=0): give it labels with from_encoder.")
    if (labels.ndim == 2) != (problem_type == MULTI_LABEL):
        shape = tuple(labels.shape)
        raise ValueError(
            f"Labels {shape} do not fit problem_type={problem_type!r}: {MULTI_LABEL!r} has (B, C), others (B,)."
        )
    if problem_type == MULTI_LABEL:
        return nn.functional.binary_cross_entropy_with_logits(logits.float(), labels.float())
    return nn.functional.cross_entropy(logits.float(), labels, label_smoothing=label_smoothing)


def _classification_head(config: KNNClassifierConfig) -> nn.Module:
    """The classification head: from h, after dropout, to the logits."""
    output_layer = nn.Linear(config.hidden_size, config.num_labels)
    activation = config.classifier_activation
    if activation is None:
        return output_layer
    if activation not in ACT2FN:
        raise ValueError(f"classifier_activation must be one of {sorted(ACT2FN)}, got {activation!r}.")
    dense = nn.Linear(config.hidden_size, config.hidden_size)
    return nn.Sequential(dense, ACT2FN[activation], nn.Dropout(_classifier_dropout(config)), output_layer)


def _classifier_dropout(config: KNNClassifierConfig) -> float:
    """The configuration's dropout, or that of the encoder's own classifier, under any of its names."""
    names = ("classifier_dropout", "seq_classif_dropout", "hidden_dropout_prob", "dropout")
    candidates = [config.classifier_dropout, *(getattr(config.encoder_config, name, None) for name in names)]
    return next((dropout for dropout in candidates if isinstance(dropout, (int, float))), 0.0)


KNNClassifier.register_for_auto_class("AutoModelForSequenceClassification")
