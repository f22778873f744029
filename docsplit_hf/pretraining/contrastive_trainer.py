"""ContrastiveTrainer: the Trainer with a contrastive loss, a masked-LM loss, and half-document retrieval."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.data_loader import IterableDatasetShard
from torch import nn
from torch.utils.data import DataLoader
from transformers import EvalPrediction, PreTrainedModel, TrainerCallback
from transformers.trainer_utils import PredictionOutput, has_length

from ..encoding.checkpoints.checkpoint import name_in_adapter
from ..encoding.checkpoints.sentence_transformers_files import save_sentence_transformers_files
from ..encoding.portable.run_encoder import use_packing
from ..storage.atomic_replacement import replaced_at_once
from ..training.arguments import freeze_unused
from ..training.base_trainer import BaseTrainer, temporarily
from ..training.distributed import RunningMeans, process_count, sum_over_processes, uses_fsdp
from .arguments import AUTO, ContrastiveTrainingArguments, check_fit
from .collator import IGNORED_LABEL, DataCollatorForDocSplit, default_max_length, rows_as_arrays
from .gradient_caching import RandomState, describe_memory, smaller_chunk, step_in_chunks, ways_to_need_less
from .half_retrieval import half_retrieval_metrics
from .info_nce import InfoNCE, in_batch_info_nce
from .model import Batch, DocSplitOutput, model_inputs, use_projection_head
from .model_card import save_card
from .streaming import EPOCH_KEY, RepeatedStream

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

HEAD_FILE = "projection_head.safetensors"  # in each checkpoint of a run with such a head, for resuming only


class CollatorEpoch(TrainerCallback):
    """Set the collator's epoch before the data loader's workers start the epoch."""

    def __init__(self, collator: DataCollatorForDocSplit) -> None:
        self.collator = collator

    def on_epoch_begin(self, args, state, control, **kwargs) -> None:
        self.collator.set_epoch(int(state.epoch or 0))


class ContrastiveTrainer(BaseTrainer):
    """Train an ``AutoModelForDocSplit`` on segmented documents.

    It extends the Trainer of transformers, and supports all ``TrainingArguments``. The loss is InfoNCE between the
    views of each document, plus ``mlm_weight`` times the MLM loss, with the same gradients on any number of processes.
    The evaluation is half-document retrieval (recall@1, recall@10, MRR), always on DocSplit's halves, whatever views
    and objective are trained. Checkpoints load with ``AutoModel`` and ``SentenceTransformer``, and have a model card.

    To add an objective, make a subclass and override ``contrast``, if the loss is a function of the embeddings of a
    batch, or ``training_loss`` otherwise.

    Resuming is bit-exact, provided ``save_steps`` is a multiple of ``logging_steps``. Exception:
    ``train_sampling_strategy="group_by_length"``, which depends on global random state.

    Args:
        model: From ``AutoModelForDocSplit``, or a PEFT model around one.
        args: The arguments.
        train_dataset: Documents from ``segment_documents``. An ``IterableDataset`` needs ``max_steps``. Give each
            process the whole stream; it reads its own part.
        eval_dataset: Held-out documents for half-document retrieval, or a dictionary of several such sets. The best
            checkpoint is chosen on the first set, unless ``metric_for_best_model`` names another metric.
        data_collator: The collator that makes the views. None: ``DataCollatorForDocSplit`` with the papers' settings,
            the seed of the arguments, and the maximum length in the model's configuration, or up to 512 tokens.
        processing_class: The tokenizer; it is saved with the model.
        **kwargs: Passed to ``Trainer``.

    Raises:
        ValueError: If the arguments, the collator, the model and the data do not fit together.
    """

    arguments_class = ContrastiveTrainingArguments
    # compute_loss already divides by the counts of the whole accumulated batch (transformers >= 5.23).
    loss_is_scaled_for_ga = True

    def __init__(
        self,
        model: PreTrainedModel,
        args: ContrastiveTrainingArguments,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Dataset | dict[str, Dataset] | None = None,
        data_collator: DataCollatorForDocSplit | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        **kwargs: Any,
    ) -> None:
        stock_model = model.get_base_model() if hasattr(model, "get_base_model") else model
        if data_collator is None:
            if processing_class is None:
                raise ValueError("Give the tokenizer as processing_class, or a data_collator.")
            data_collator = DataCollatorForDocSplit(
                processing_class,
                max_length=default_max_length(stock_model),
                mlm_probability=0.15 if args.mlm_weight > 0 else 0.0,
                seed=args.seed,
            )
        if args.objective != self.arguments_class.objective:
            raise ValueError(
                f"{type(self).__name__} trains {self.arguments_class.objective!r}, and the arguments have objective="
                f"{args.objective!r}: use the trainer that get_trainer_class(args.objective) of "
                "docsplit_hf.pretraining.objectives returns."
            )
        check_fit(model, args, train_dataset, data_collator)
        freeze_unused(stock_model, with_head=args.mlm_weight > 0)
        self.projection_head = use_projection_head(stock_model, args.projection_head, args.seed)
        if train_dataset is not None and not has_length(train_dataset):
            train_dataset = RepeatedStream(train_dataset, args.process_index, args.world_size)
        if isinstance(eval_dataset, dict) and args.metric_for_best_model == "recall@1":
            args.metric_for_best_model = f"{next(iter(eval_dataset))}_recall@1"  # of the first of several sets
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            data_collator=data_collator,
            processing_class=processing_class or data_collator.tokenizer,
            compute_metrics=_compute_metrics,
            callbacks=[*(kwargs.pop("callbacks", None) or []), CollatorEpoch(data_collator)],
            **kwargs,
        )
        # Labels have other names than the Trainer expects, and prediction_step is overridden.
        self.can_return_loss = True
        self.label_names = ["mlm_labels"]
        self.model_accepts_loss_kwargs = False
        self.training_collator = data_collator
        self.evaluation_collator = data_collator.for_evaluation()
        self.chunk_size: int | None = None  # documents per forward pass; None: the whole batch
        if isinstance(args.forward_chunk_size, int):
            self.chunk_size = args.forward_chunk_size
        use_packing(stock_model, args.packing)
        stock_model.config.docsplit = {**stock_model.config.docsplit, "max_length": data_collator.max_length}
        self.encoder_config = stock_model.config

    # The loss. Overridden methods of the Trainer have no annotations, as in the Trainer.

    def contrast(self, embeddings: torch.Tensor, inputs: Batch) -> InfoNCE:
        """The contrastive loss of each document of a training batch; ``embeddings``: ``(VB, D)``, view by view."""
        return self.contrast_in_batch(embeddings, inputs)

    def contrast_in_batch(self, embeddings: torch.Tensor, inputs: Batch) -> InfoNCE:
        """InfoNCE among the documents of a batch, over all processes."""
        return in_batch_info_nce(
            embeddings,
            inputs["document_ids"],
            temperature=self.args.temperature,
            similarity=self.args.similarity,
        )

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The loss of one batch of a training step; ``counts``: ``count_targets`` of the whole accumulated batch."""
        output = model(**model_inputs(inputs))
        return self._sum_of_losses(output, self.contrast(output.embeddings, inputs), inputs, counts)

    def log_and_scale_contrastive_loss(self, contrastive: InfoNCE, counts: torch.Tensor) -> torch.Tensor:
        """Log a contrastive loss; return this micro-batch's contribution to the mean over the accumulated batch."""
        measured = {
            "contrastive_loss": contrastive.loss,
            "in_batch_accuracy": contrastive.correct,
            "positive_similarity": contrastive.positive_similarity,
            "negative_similarity": contrastive.negative_similarity,
            "negatives": contrastive.negatives,
        }
        for name, values in measured.items():
            self.means.add(name, values.sum(), len(values))
        return contrastive.loss.sum() * (process_count() / counts[0])

    def log_and_scale_mlm_loss(self, mlm_loss: torch.Tensor, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """Log an MLM loss, a mean over masked tokens; return this micro-batch's contribution to the mean, weighted."""
        masked = count_targets(inputs)[1]
        self.means.add("mlm_loss", mlm_loss * masked, masked)
        return self.args.mlm_weight * mlm_loss * (masked * process_count() / counts[1].clamp(min=1))

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """This micro-batch's contribution to the mean loss.

        ``num_items_in_batch``: here the tensor from ``count_targets``, not a number.
        """
        counts = self._count(inputs, num_items_in_batch)
        if model.training and not return_outputs:
            return self.training_loss(model, inputs, counts)
        output = model(**model_inputs(inputs))
        loss = self._sum_of_losses(output, self.contrast_in_batch(output.embeddings, inputs), inputs, counts)
        return (loss, output) if return_outputs else loss

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Backpropagate the loss of one batch, at once or ``chunk_size`` documents at a time.

        With ``forward_chunk_size="auto"``, a step that does not fit into the memory is repeated with smaller chunks.
        """
        args = self.args
        # A step that is repeated must not have met other processes.
        is_alone = process_count() == 1 and not uses_fsdp(args) and not args.deepspeed_plugin
        can_repeat = args.forward_chunk_size == AUTO and args.compares_batch and is_alone
        while True:
            before = _StateBeforeStep(self, model) if can_repeat else None
            size = min(self.chunk_size or len(inputs["document_ids"]), len(inputs["document_ids"]))
            try:
                return self._step(model, inputs, num_items_in_batch, size)
            except torch.OutOfMemoryError as error:
                smaller = smaller_chunk(inputs, size) if before is not None and before.can_be_restored else None
                if smaller is None:
                    problem = describe_memory(inputs, size, self.args.device)
                    ways = ways_to_need_less(inputs, size, self.args, self.data_collator.max_length)
                    raise torch.OutOfMemoryError(f"{problem}. {ways}") from error
            # Here and not in the handler, where the error still holds the tensors of the failed step.
            before.restore()
            self.chunk_size = smaller
            self.record_choice("forward_chunk_size", smaller)
            logger.warning(
                "Step %d: %s. From here on, %d per forward pass, with the same gradients (gradient caching).",
                self.state.global_step + 1,
                describe_memory(inputs, size, self.args.device),
                smaller,
            )

    def _step(
        self, model: nn.Module, inputs: Batch, num_items_in_batch: torch.Tensor | None, size: int
    ) -> torch.Tensor:
        """Backpropagate the loss of one batch, ``size`` documents at a time."""
        if size == len(inputs["document_ids"]):
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        inputs = self.move_to_device(inputs)
        counts = self._count(inputs, num_items_in_batch)

        def contrastive_loss(embeddings: torch.Tensor) -> torch.Tensor:
            return self.log_and_scale_contrastive_loss(self.contrast(embeddings, inputs), counts)

        def mlm_loss(loss: torch.Tensor, chunk: Batch) -> torch.Tensor:
            return self.log_and_scale_mlm_loss(loss, chunk, counts)

        with self.compute_loss_context_manager():
            return step_in_chunks(
                model,
                inputs,
                size,
                contrastive_loss=contrastive_loss,
                mlm_loss=mlm_loss,
                backward=self.accelerator.backward,
                no_sync=functools.partial(self.accelerator.no_sync, model),
            )

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The batches of one optimizer step, and the sum of their ``count_targets`` over all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        counts = torch.zeros(2)
        if batches:
            counts = torch.stack([count_targets(batch) for batch in batches]).sum(0)
        return batches, sum_over_processes(counts.to(device))

    def get_train_dataloader(self) -> DataLoader:
        """The training batches of this process."""
        with temporarily(self, "train_dataset", rows_as_arrays(self.train_dataset)):
            loader = super().get_train_dataloader()
        # A RepeatedStream has only the documents of this process, so do not shard it again.
        if isinstance(self.train_dataset, RepeatedStream) and isinstance(loader.dataset, IterableDatasetShard):
            loader.dataset.num_processes = 1
            loader.dataset.process_index = 0
        return loader

    def use_choices_of(self, saved_arguments: Mapping[str, Any]) -> None:
        """With ``forward_chunk_size="auto"``, go on with the size that the resumed run had found."""
        size = saved_arguments.get("forward_chunk_size")
        if self.args.forward_chunk_size == AUTO and isinstance(size, int):
            self.chunk_size = size
            self.record_choice("forward_chunk_size", size)

    def begin_training(self) -> None:
        """Log the model, the number of documents, and the batch."""
        logger.info(
            "Training %s with %.1f million parameters on %s documents: %d per step, on %s, %s of up to %d tokens.",
            type(self.model).__name__,
            sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad) / 1e6,
            len(self.train_dataset) if has_length(self.train_dataset) else "streamed",
            self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size,
            self.args.device,
            f"views ({self.data_collator.views_name})",
            self.data_collator.max_length,
        )

    def collator_columns(self) -> list[str]:
        """The columns of ``segment_documents``, and the epoch of a stream."""
        return ["input_ids", "sentence_lengths", EPOCH_KEY]

    # The evaluation

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate by half-document retrieval: ``eval_recall@1``, ``eval_recall@10``, ``eval_mrr``, on fixed halves."""
        with self._evaluating():
            return super().evaluate(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Embed both halves of each document, ``(N, D)`` each; ``label_ids`` are the document ids."""
        with self._evaluating():
            return super().predict(*args, **kwargs)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Loss, embeddings of both views, and document ids of one batch of held-out documents."""
        inputs = self.move_to_device(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, output = self.compute_loss(model, inputs, return_outputs=True)
        if prediction_loss_only:
            return loss, None, None
        return loss, output.embeddings.chunk(2), inputs["document_ids"]

    # Saving

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """The projection head, if there is one."""
        return {} if self.projection_head is None else {HEAD_FILE: self.projection_head}

    def save_merged(self, output_dir: str) -> None:
        """Save a stock checkpoint with a PEFT adapter merged into the weights."""
        if self.is_fsdp_enabled:
            raise ValueError("A model that FSDP has sharded cannot be merged: merge the saved adapter with peft.")
        if not self.is_world_process_zero():
            return
        merged = copy.deepcopy(self.accelerator.unwrap_model(self.model)).merge_and_unload()
        with replaced_at_once(output_dir) as folder:
            merged.save_pretrained(folder)
            self.processing_class.save_pretrained(folder)
            save_sentence_transformers_files(folder, merged.config)
            self.save_card(folder, output_dir, is_merged=True)

    def saved_arguments(self) -> Mapping[str, Any]:
        """The arguments, and the settings of the collator."""
        collator = self.training_collator
        return {
            **super().saved_arguments(),
            "views": collator.views_name,
            "views_kwargs": collator.views_kwargs,
            "max_length": collator.max_length,
            "mlm_probability": collator.mlm_probability,
            "collator_seed": collator.seed,
        }

    def save_beside_weights(self, staging_folder: Path, final_path: Path) -> None:
        """Write sentence-transformers' files and the model card."""
        save_sentence_transformers_files(staging_folder, self.encoder_config)
        name_in_adapter(staging_folder)
        self.save_card(staging_folder, final_path)

    def save_card(self, staging_folder: Path, final_path: str | Path, is_merged: bool = False) -> None:
        """Write the model card."""
        save_card(staging_folder, self.args.hub_model_id or str(final_path), self, is_merged)

    def _sum_of_losses(
        self, output: DocSplitOutput, contrastive: InfoNCE, inputs: Batch, counts: torch.Tensor
    ) -> torch.Tensor:
        """The contrastive loss, plus the MLM loss if there is one."""
        loss = self.log_and_scale_contrastive_loss(contrastive, counts)
        if output.mlm_loss is not None:
            loss = loss + self.log_and_scale_mlm_loss(output.mlm_loss, inputs, counts)
        return loss

    def _count(self, inputs: Batch, counts: torch.Tensor | None) -> torch.Tensor:
        """Log the fraction of tokens that was cut; return ``counts``, or ``count_targets`` of the batch if None."""
        specials = len(self.training_collator.prefix) + len(self.training_collator.suffix)
        total = inputs["view_lengths"].sum()
        kept = inputs["attention_mask"].sum() - specials * len(inputs["view_lengths"])
        self.means.add("fraction_tokens_cut", total - kept, total)
        return sum_over_processes(count_targets(inputs)) if counts is None else counts

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Use fixed halves and all documents, and keep the measurements separate from those of training."""
        with (
            temporarily(self, "means", RunningMeans()),
            temporarily(self, "data_collator", self.evaluation_collator),
            temporarily(self.args, "dataloader_drop_last", False),
        ):
            yield


class _StateBeforeStep:
    """What a failed step may have changed: gradients, random generators, and measurements."""

    def __init__(self, trainer: ContrastiveTrainer, model: nn.Module) -> None:
        # Gradients of earlier batches of the same accumulated batch would be lost.
        self.can_be_restored = all(parameter.grad is None for parameter in model.parameters())
        self._trainer = trainer
        self._model = model
        self._random_state = RandomState(trainer.args.device)
        self._means = trainer.means.copy()

    def restore(self) -> None:
        """Undo the failed step, and give its memory back."""
        self._model.zero_grad()
        self._random_state.restore()
        self._trainer.means = self._means
        if self._trainer.args.device.type != "cpu":
            torch.get_device_module(self._trainer.args.device).empty_cache()


def _compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """The metrics of half-document retrieval, for the Trainer."""
    anchors, positives = (torch.from_numpy(views) for views in prediction.predictions)
    return half_retrieval_metrics(anchors, positives, torch.from_numpy(prediction.label_ids))


def count_targets(batch: Batch) -> torch.Tensor:
    """The numbers of documents and masked tokens of a batch, float32 ``(2,)``, over which the losses are averaged."""
    documents = batch["document_ids"]
    masked = documents.new_zeros(())
    if "mlm_labels" in batch:
        masked = (batch["mlm_labels"] != IGNORED_LABEL).sum()
    return torch.stack([documents.new_full((), len(documents)), masked]).float()
