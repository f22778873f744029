"""ContrastiveTrainer: the stock Trainer with a contrastive loss, MLM beside it, and half-document retrieval."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from transformers import EvalPrediction, PreTrainedModel
from transformers.trainer_utils import PredictionOutput, has_length

from ..models.portable.packing import use_packing
from ..training.distributed import keep_outputs_in_float32, process_count
from ..training.statistics import RunningMeans
from .arguments import ContrastiveTrainingArguments
from .checks import check_adapter, check_fit, check_objective, freeze_unused, warn_of_equal_views
from .collation.collator import DataCollatorForDocSplit
from .collation.epoch import CollatorEpoch
from .collation.streaming import EPOCH_KEY, RepeatedStream
from .contrastive_steps import ContrastiveSteps
from .half_retrieval import half_retrieval_metrics
from .projection_head import use_projection_head
from .stock_checkpoints import StockCheckpoints

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


class ContrastiveTrainer(ContrastiveSteps, StockCheckpoints):
    """Trains an ``AutoModelForDocSplit`` on segmented documents.

    The stock Trainer does the work: everything that ``TrainingArguments`` offers holds. What is added:

    - the loss: InfoNCE between the two views of each document, plus ``mlm_weight`` times the MLM loss, with the same
      gradients on any number of processes. The trainers of other objectives are subclasses: ``get_trainer_class``;
    - the logs: both losses, in-batch accuracy, similarities, the number of negatives, the fraction of tokens cut;
    - the evaluation: half-document retrieval (recall@1, recall@10, MRR) on ``eval_dataset``, with docsplit's halves
      whatever the views and the objective, so that all are measured alike;
    - the saves: stock checkpoints with the files of sentence-transformers and a model card made from the run.

    A resumed run gives the losses of an uninterrupted one to the last digit, if checkpoints are saved at steps that are
    logged too. (Not with ``train_sampling_strategy="group_by_length"``, whose order depends on global random state.)

    Args:
        model: From ``AutoModelForDocSplit``, or a PEFT model around one.
        args: The arguments.
        train_dataset: Documents from ``segment_documents``. An ``IterableDataset`` needs ``max_steps``.
        eval_dataset: Held-out documents for half-document retrieval, or a dictionary of several such sets, of which
            the first decides the best checkpoint unless ``metric_for_best_model`` says otherwise.
        data_collator: Makes the views. None: ``DataCollatorForDocSplit`` with the papers' settings and the seed of the
            arguments.
        processing_class: The tokenizer; it is saved with the model.
        **kwargs: Passed to ``Trainer``.

    Raises:
        ValueError: If the arguments, the collator, the model and the data do not fit together; the message says how.

    Example:

        >>> import tempfile
        >>> from datasets import Dataset
        >>> from docsplit_hf import AutoModelForDocSplit, segment_documents
        >>> from docsplit_hf.models.small_bert import small_bert_config, train_small_bert_tokenizer
        >>> texts = [f"Document {i} begins. It goes on with {i}. It ends." for i in range(8)]
        >>> tokenizer = train_small_bert_tokenizer(texts, vocab_size=80)
        >>> trainer = ContrastiveTrainer(
        ...     model=AutoModelForDocSplit.from_config(small_bert_config(tokenizer)),
        ...     args=ContrastiveTrainingArguments(
        ...         tempfile.mkdtemp(), per_device_train_batch_size=4, use_cpu=True, disable_tqdm=True
        ...     ),
        ...     train_dataset=segment_documents(Dataset.from_dict({"text": texts}), tokenizer),
        ...     processing_class=tokenizer,
        ... )
        >>> trainer.train().global_step  # doctest: +ELLIPSIS
        {'train_runtime': ...}
        2
    """

    objective = "info_nce"

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
        if data_collator is None:
            if processing_class is None:
                raise ValueError("Give the tokenizer as processing_class, or a data_collator.")
            probability = 0.15 if args.mlm_weight > 0 else 0.0
            data_collator = DataCollatorForDocSplit(processing_class, mlm_probability=probability, seed=args.seed)
        check_adapter(model)
        stock_model = model.get_base_model() if hasattr(model, "get_base_model") else model
        check_objective(args, self.objective, type(self).__name__)
        check_fit(stock_model, args, train_dataset, data_collator)
        freeze_unused(stock_model, mlm=args.mlm_weight > 0)
        self._projection_head = use_projection_head(stock_model, args.projection_head, args.seed)
        if train_dataset is not None and not has_length(train_dataset):
            train_dataset = RepeatedStream(train_dataset)
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
        # The batch has its own names for labels, and the evaluation its own prediction_step.
        self.can_return_loss, self.label_names = True, ["mlm_labels"]
        self.model_accepts_loss_kwargs = False
        self._training_collator, self._evaluation_collator = data_collator, data_collator.for_evaluation()
        self._tokens_cut, self._cut_fraction = RunningMeans(), None  # of the whole run, for the model card
        if self.is_fsdp_enabled:
            keep_outputs_in_float32(self.accelerator.state.fsdp_plugin)
        use_packing(stock_model, args.packing)
        stock_model.config.docsplit = {**stock_model.config.docsplit, "max_length": data_collator.max_length}
        self._docsplit_config = stock_model.config
        warn_of_equal_views(model, args, data_collator)

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The scheduler of the arguments; piecewise constant if they give ``learning_rate_steps``.

        Args:
            num_training_steps: Steps of the run.
            optimizer: As ``Trainer.create_scheduler``.

        Returns:
            The scheduler.
        """
        rates = self.args.learning_rate_steps
        if rates and self.lr_scheduler is None:
            first = self.args.learning_rate

            def factor(step: int) -> float:
                return next((rate for start, rate in reversed(rates.items()) if step >= start), first) / first

            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, factor)
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    @property
    def method(self) -> str:
        """What was done, for the model card. Another objective overrides it, and ``describe_loss``."""
        views = self._training_collator.view_count
        each_other = "The two" if views == 2 else f"Each two of the {views}"
        return (
            f"{each_other} views of a document are each other's positive, and the other documents of the batch are "
            "negatives."
        )

    def describe_loss(self) -> str:
        """The loss in a few words, for the model card.

        Returns:
            A line of text.
        """
        args = self.args
        similarity = "" if args.similarity == "cosine" else f" of {args.similarity} products"
        head = " behind a projection head that the model is saved without" if args.projection_head else ""
        both = ", both directions" if args.symmetric else ""
        pairs = math.comb(self._training_collator.view_count, 2)
        mean = f", mean over {pairs} pairs of views" if pairs > 1 else ""
        mlm = f", + {args.mlm_weight} x MLM ({args.mlm_input} input)" if args.mlm_weight else ""
        return f"InfoNCE{similarity}{head}, temperature {args.temperature}{both}{mean}{mlm}"

    def count_negatives(self) -> int:
        """How many negatives a document has in a step, for the model card.

        Returns:
            The number.
        """
        return self.args.per_device_train_batch_size * (process_count() if self.args.gather_negatives else 1) - 1

    def prediction_step(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor] | None, torch.Tensor | None]:
        """Loss and embeddings of one batch of held-out documents.

        Args:
            model: The model.
            inputs: A batch of the collator.
            prediction_loss_only: Whether to leave the embeddings out.
            ignore_keys: Not used.

        Returns:
            The loss; the embeddings of both views, ``(B, D)`` each; the document ids, ``(B,)``.
        """
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, output = self.compute_loss(model, inputs, return_outputs=True)
        if prediction_loss_only:
            return loss, None, None
        return loss, output.embeddings.chunk(2), inputs["document_ids"]

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Half-document retrieval on held-out documents, always with the same halves.

        Args:
            *args: As ``Trainer.evaluate``.
            **kwargs: As ``Trainer.evaluate``.

        Returns:
            ``eval_recall@1``, ``eval_recall@10``, ``eval_mrr``, ``eval_loss`` and the speed.
        """
        with self._evaluating():
            return super().evaluate(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> PredictionOutput:
        """The embeddings of both halves of each document, always the same halves.

        Args:
            *args: As ``Trainer.predict``.
            **kwargs: As ``Trainer.predict``.

        Returns:
            ``predictions`` (two arrays of shape ``(N, D)``), ``label_ids`` (the document ids) and ``metrics``.
        """
        with self._evaluating():
            return super().predict(*args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the means of what the steps since the last log measured.

        Args:
            logs: What is to be logged.
            start_time: As ``Trainer.log``.
        """
        if "loss" in logs or "train_loss" in logs:
            self._cut_fraction = self._tokens_cut.means().get("fraction_tokens_cut")
        super().log(logs, start_time)

    def begin_training(self) -> None:
        """Log what is trained on what."""
        logger.info(
            "Training %s with %.1f million parameters on %s documents: %d a step, on %s, %s of up to %d tokens.",
            type(self.model).__name__,
            sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad) / 1e6,
            len(self.train_dataset) if has_length(self.train_dataset) else "streamed",
            self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size,
            self.args.device,
            f"views ({self.data_collator.views_name})",
            self.data_collator.max_length,
        )

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Collate into the same halves each time, leave no document out, and keep what is measured apart."""
        training = self.data_collator, self.args.dataloader_drop_last
        self.data_collator, self.args.dataloader_drop_last = self._evaluation_collator, False
        try:
            with self.measuring_apart():
                yield
        finally:
            self.data_collator, self.args.dataloader_drop_last = training

    def _set_signature_columns_if_needed(self) -> None:
        # What the collator reads, not what the model reads: otherwise the Trainer drops the columns before.
        self._signature_columns = ["input_ids", "sentence_lengths", EPOCH_KEY]


def _compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
    anchors, positives = (torch.from_numpy(views) for views in prediction.predictions)
    return half_retrieval_metrics(anchors, positives, torch.from_numpy(prediction.label_ids))
