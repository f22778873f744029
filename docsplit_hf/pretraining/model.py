"""AutoModelForDocSplit: models of transformers with the forward of a contrastive training step."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING, MODEL_MAPPING
from transformers.utils import ModelOutput

from ..encoding.checkpoints.checkpoint import (
    HUB_ARGUMENTS,
    find_checkpoint,
    leave_unsaved,
    name_in_config,
    open_checkpoint,
    override_config,
)
from ..encoding.portable.run_encoder import check_pooling, pool, run_encoder
from ..storage.atomic_replacement import read_one_save
from .collator import IGNORED_LABEL

Batch = dict[str, torch.Tensor]  # what DataCollatorForDocSplit returns
HEAD = "projection_head"  # the name of the module in the model


@dataclass
class DocSplitOutput(ModelOutput):
    """Output of a DocSplit model: embeddings of the views and the masked-LM loss."""

    embeddings: torch.FloatTensor | None = None  # float32 (2B, H), not normalized; in training after a projection head
    mlm_loss: torch.FloatTensor | None = None  # the mean over masked tokens; 0 if there are none, None without labels


class DocSplitForward:
    """The forward that replaces that of a stock class; see ``AutoModelForDocSplit``."""

    has_head: bool  # whether the stock class has a masked-LM head; without one, the forward takes no ``mlm_labels``

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        mlm_input_ids: torch.Tensor | None = None,
        mlm_labels: torch.Tensor | None = None,
    ) -> DocSplitOutput:
        """Embed all views and predict their masked tokens, in one run of the encoder.

        All arguments are ``(2B, L)``, padded on the right. ``mlm_input_ids``: the masked copy; None: ``input_ids`` are
        masked, and serve both losses. ``mlm_labels``: -100 for tokens that are not predicted; None: no MLM loss.
        """
        views = input_ids.shape[0]
        encoder_mask = attention_mask
        if mlm_labels is not None and mlm_input_ids is not None:
            input_ids = torch.cat([input_ids, mlm_input_ids])
            encoder_mask = attention_mask.repeat(2, 1)
        output = run_encoder(self.base_model, input_ids, encoder_mask)
        hidden_states = output.last_hidden_state
        embeddings = pool(hidden_states[:views], attention_mask, self.config.docsplit["pooling"]).float()
        if self.training and hasattr(self, HEAD):
            embeddings = getattr(self, HEAD)(embeddings)
        if mlm_labels is None:
            return DocSplitOutput(embeddings=embeddings)
        places = (mlm_labels != IGNORED_LABEL).flatten().nonzero().flatten()  # the one wait for a GPU here
        if not len(places):
            places = places.new_zeros(1)  # its label is ignored; DDP needs the head to take part in every step
        labels = mlm_labels.flatten()[places]
        logits = self._head(output, hidden_states[-views:].flatten(0, 1)[places]).float()
        total = nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED_LABEL, reduction="sum")
        return DocSplitOutput(embeddings=embeddings, mlm_loss=total / (labels != IGNORED_LABEL).sum().clamp(min=1))

    @torch.compiler.disable  # a compiled graph would not notice that the encoder's forward is replaced
    def _head(self, output: ModelOutput, hidden_states: torch.Tensor) -> torch.Tensor:
        """Apply the head of the stock class to hidden states ``(M, H)``: logits ``(M, V)``."""
        replaced = copy.copy(output)  # keeps the class: some heads (Longformer's, Luke's) read its other fields
        replaced["last_hidden_state"] = hidden_states[None]
        positions = torch.zeros(1, len(hidden_states), dtype=torch.long, device=hidden_states.device)
        self.base_model.forward = lambda *args, **kwargs: replaced
        try:
            return super().forward(input_ids=positions).logits[0]
        finally:
            del self.base_model.forward


class ProjectionHead(nn.Module):
    """A dense layer and tanh: the MLP of SimCSE (Gao et al. 2021, section 6.3, "MLP (train)").

    It computes in float32 regardless of autocast, like the similarities after it. All processes start with the same
    weights.
    """

    def __init__(self, dimension: int, initializer_range: float = 0.02, seed: int = 0) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, dimension)
        nn.init.normal_(self.dense.weight, 0.0, initializer_range, torch.Generator().manual_seed(seed))
        nn.init.zeros_(self.dense.bias)

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Project embeddings ``(N, H)``: float32 ``(N, H)``."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return torch.tanh(self.dense(embeddings.float()))


def use_projection_head(model: PreTrainedModel, wanted: bool, seed: int = 0) -> ProjectionHead | None:
    """Add a projection head to a model that has none, or remove it; saved models never have it."""
    if not wanted:
        if hasattr(model, HEAD):
            delattr(model, HEAD)
        return None
    if not hasattr(model, HEAD):
        head = ProjectionHead(model.config.hidden_size, getattr(model.config, "initializer_range", 0.02), seed)
        model.add_module(HEAD, head.to(model.device).train(model.training))
        leave_unsaved(model, (f"{HEAD}.{name}" for name in head.state_dict()))
    return getattr(model, HEAD).requires_grad_(True)


def model_inputs(batch: Batch) -> Batch:
    """The arguments of the forward: the views and, with MLM, their masked copy."""
    names = ("input_ids", "attention_mask", "mlm_input_ids", "mlm_labels")
    return {name: batch[name] for name in names if name in batch}


def masked_views(batch: Batch) -> Batch:
    """The arguments of the forward for the masked copy alone."""
    return {"input_ids": batch["mlm_input_ids"]} | {name: batch[name] for name in ("attention_mask", "mlm_labels")}


class AutoModelForDocSplit:
    """Load any encoder as a model for DocSplit pretraining: the stock class with another forward.

    The class of the model is a subclass of the stock masked-LM class (``BertForMaskedLM``, ...) with the same name.
    Therefore PEFT, FSDP, gradient checkpointing, attention backends and ``save_pretrained`` work as for the stock
    class, and ``AutoModel`` and ``AutoModelForMaskedLM`` load the saved model. ``config.docsplit`` has the pooling and
    the maximum length.

    Example:

        >>> from transformers import BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> model = AutoModelForDocSplit.from_config(config, pooling="mean")
        >>> type(model).__name__, model.config.docsplit
        ('BertForMaskedLM', {'pooling': 'mean', 'max_length': None})
    """

    @classmethod
    def from_pretrained(
        cls,
        name: str | None = None,
        pooling: str | None = None,
        mlm_head: bool = True,
        config_overrides: Mapping[str, Any] | None = None,
        dtype: torch.dtype | str = "float32",
        **kwargs: Any,
    ) -> PreTrainedModel:
        """Load a pretrained encoder.

        Args:
            name: A model on the Hub or a folder. None: the checkpoint that ships, ``"docsplit-small-en"``.
            pooling: Pooling of token states into an embedding: ``"cls"``, ``"mean"``, ``"max"`` or ``"last"``. None:
                the pooling in the checkpoint's files (DocSplit's or sentence-transformers'), or else ``"cls"``, the
                papers' choice.
            mlm_head: Whether to load the masked-LM head. False for architectures without one, and for training with
                ``mlm_weight=0``.
            config_overrides: Settings that replace those of the checkpoint's configuration, such as
                ``{"hidden_dropout_prob": 0.1}``; see ``override_config``. They are saved with the model.
            dtype: Type of the weights in memory. In half precision, small steps of training are lost.
            **kwargs: Passed to the stock class's ``from_pretrained`` (``attn_implementation``, ``revision``,
                ``cache_dir``, ...).

        Returns:
            The model.

        Raises:
            ValueError: If the architecture is not an encoder with a masked-LM class, the pooling does not exist, or
                the overrides name unknown settings or change the shapes of weights.
            OSError: If there is no model of that name.
        """
        dtype = kwargs.pop("torch_dtype", dtype)  # the name of this argument before transformers 5
        path = find_checkpoint(name)
        model, _ = read_one_save(
            path,
            lambda place: cls._load(
                str(place), pooling=pooling, mlm_head=mlm_head, config_overrides=config_overrides, dtype=dtype, **kwargs
            ),
        )
        return model

    @classmethod
    def _load(
        cls,
        name: str,
        pooling: str | None,
        mlm_head: bool,
        config_overrides: Mapping[str, Any] | None,
        dtype: torch.dtype | str,
        **kwargs: Any,
    ) -> PreTrainedModel:
        """Load the model of an existing checkpoint."""
        hub_arguments = {key: kwargs[key] for key in HUB_ARGUMENTS if key in kwargs}
        checkpoint = open_checkpoint(name, **hub_arguments)
        config = checkpoint.config
        if config is None:
            raise OSError(f"The model {name!r} could not be loaded: it is an adapter. Merge it into its base model.")
        config = _with_settings(config, pooling or checkpoint.pooling)
        stock = _stock_class(config, mlm_head)
        if config_overrides:
            saved_config = config
            config = override_config(saved_config, config_overrides)
            _check_weights_fit(stock, saved_config, config, name, config_overrides)
        model = _docsplit_class(stock).from_pretrained(name, config=config, dtype=dtype, **kwargs)
        name_in_config(model.config)
        return model

    @classmethod
    def from_config(
        cls, config: PretrainedConfig, pooling: str | None = None, mlm_head: bool = True
    ) -> PreTrainedModel:
        """Make a model with random weights.

        Args:
            config: The configuration of the architecture; it is copied.
            pooling: As in ``from_pretrained``.
            mlm_head: As in ``from_pretrained``.

        Returns:
            The model.

        Raises:
            ValueError: As in ``from_pretrained``.
        """
        config = _with_settings(copy.deepcopy(config), pooling)
        return _docsplit_class(_stock_class(config, mlm_head))(config)


def _with_settings(config: PretrainedConfig, pooling: str | None) -> PretrainedConfig:
    """Write pooling and maximum length into ``config.docsplit``."""
    saved = getattr(config, "docsplit", None) or {}
    pooling = check_pooling(pooling or saved.get("pooling", "cls"))
    config.docsplit = {"pooling": pooling, "max_length": saved.get("max_length")}
    return config


def _stock_class(config: PretrainedConfig, mlm_head: bool) -> type[PreTrainedModel]:
    """The class of transformers for a configuration, with or without a masked-LM head."""
    if config.is_encoder_decoder:
        raise ValueError(
            f"{config.model_type!r} is an encoder-decoder: DocSplit embeds with encoders. Choose an encoder such as "
            "answerdotai/ModernBERT-base."
        )
    mapping = MODEL_FOR_MASKED_LM_MAPPING if mlm_head else MODEL_MAPPING
    if type(config) not in mapping:
        advice = "use mlm_head=False and train with mlm_weight=0" if type(config) in MODEL_MAPPING else "choose another"
        raise ValueError(f"transformers has no masked-LM class for {config.model_type!r}: {advice}.")
    stock = mapping[type(config)]
    return stock[0] if isinstance(stock, tuple) else stock


def _check_weights_fit(
    stock: type[PreTrainedModel],
    saved: PretrainedConfig,
    config: PretrainedConfig,
    name: str,
    overrides: Mapping[str, Any],
) -> None:
    """Refuse a configuration for which some weights of the checkpoint would be left out or replaced by random ones."""
    saved_shapes = _weight_shapes(stock, saved)
    shapes = _weight_shapes(stock, config)
    for weight in sorted(saved_shapes.keys() | shapes.keys()):
        old = saved_shapes.get(weight, "none")
        new = shapes.get(weight, "none")
        if old != new:
            raise ValueError(
                f"config_overrides={dict(overrides)} does not fit the weights of {name!r}: {weight} is {old} there and "
                f"would be {new}. A pretrained model keeps its sizes: leave them out, or start from random weights."
            )


def _weight_shapes(stock: type[PreTrainedModel], config: PretrainedConfig) -> dict[str, list[int]]:
    """The shapes of a model's weights, by name."""
    with torch.device("meta"):  # no memory is allocated
        weights = stock(copy.deepcopy(config)).state_dict()
    return {name: list(weight.shape) for name, weight in weights.items()}


@functools.cache
def _docsplit_class(stock: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """Make the subclass of a stock class with the forward of DocSplit."""
    # "in MODEL_FOR_MASKED_LM_MAPPING.values()" would import the code of every architecture, which takes seconds.
    has_head = MODEL_FOR_MASKED_LM_MAPPING.get(stock.config_class, None) is stock

    def reduce_for_pickle(model: PreTrainedModel) -> tuple:
        return _without_state, (stock,), model.__getstate__()

    attributes = {
        "has_head": has_head,
        # Saved configurations and adapters have these names, and load without docsplit_hf.
        "__module__": stock.__module__,
        "__doc__": stock.__doc__,
        # Without it, pickle would look the class up by its name, and find the stock class.
        "__reduce__": reduce_for_pickle,
    }
    if not has_head:
        attributes["stock_forward"] = stock.forward
    return type(stock.__name__, (DocSplitForward, stock), attributes)


def _without_state(stock: type[PreTrainedModel]) -> PreTrainedModel:
    """Make an instance without its state, which pickle restores."""
    model_class = _docsplit_class(stock)
    return model_class.__new__(model_class)
