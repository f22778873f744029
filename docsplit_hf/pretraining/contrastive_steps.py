"""ContrastiveSteps: a Trainer whose steps are contrastive: the loss, its share of a whole step, what is measured."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from transformers import PreTrainedModel

from ..training.base_trainer import BaseTrainer
from ..training.distributed import gather, gather_with_gradient, process_count, process_index, sum_over_processes
from .collation.masking import IGNORED_LABEL
from .gradient_caching import backward_in_chunks, chunk_documents, join_views
from .info_nce import InfoNCE, info_nce, mean_of


class ContrastiveSteps(BaseTrainer):
    """The loss of ``ContrastiveTrainer``, with the same gradients on any number of processes and in any chunks.

    Another objective overrides ``contrast``, if its loss is a function of the embeddings of a batch; or else
    ``training_loss``. Held-out documents are measured by InfoNCE among their batch, whatever the objective.
    """

    # compute_loss divides by the counts of the whole accumulated batch itself (transformers >= 5.23).
    loss_is_scaled_for_ga = True

    def get_batch_samples(
        self, epoch_iterator: Any, num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, torch.Tensor]], torch.Tensor]:
        """Fetch the batches of one optimizer step, and count what its losses are means over.

        Args:
            epoch_iterator: The data loader's iterator.
            num_batches: The number of batches to accumulate.
            device: Where the counts go.

        Returns:
            The batches, and the numbers of documents and of masked tokens in all of them, over all processes, as one
            float32 tensor of shape ``(2,)``.
        """
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        counts = torch.stack([_counts(batch) for batch in batches]).sum(0) if batches else torch.zeros(2)
        return batches, sum_over_processes(counts.to(device))

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        """The objective's loss of one batch, as its share of the means over the whole accumulated batch.

        Its parts are sums over this process, divided by the counts over all processes and accumulated batches, times
        the number of processes, which DDP's averaging takes out again.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            return_outputs: Whether to return the model's output too.
            num_items_in_batch: The counts from ``get_batch_samples``. None: those of this batch.

        Returns:
            The loss, and the output if asked for.
        """
        counts = sum_over_processes(_counts(inputs)) if num_items_in_batch is None else num_items_in_batch
        self._measure_cut(inputs)
        if model.training and not return_outputs:
            return self.training_loss(model, inputs, counts)
        output = model(**self._model_inputs(inputs))
        loss = self._loss_of(output, self.contrast_in_batch(output.embeddings, inputs), inputs, counts)
        return (loss, output) if return_outputs else loss

    def training_loss(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        """The loss of one batch of a training step: ``contrast`` + mlm_weight x MLM.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            counts: Documents and masked tokens of the whole accumulated batch, over all processes, ``(2,)``.

        Returns:
            The loss, a scalar: what ``contrastive_share`` and ``mlm_share`` make of its parts.
        """
        output = model(**self._model_inputs(inputs))
        return self._loss_of(output, self.contrast(output.embeddings, inputs), inputs, counts)

    def contrast(self, embeddings: torch.Tensor, inputs: dict[str, torch.Tensor]) -> InfoNCE:
        """The contrastive loss of a batch: what another objective overrides.

        Args:
            embeddings: ``(2B, D)``, rows i and B+i being the views of document i; of V views a document ``(VB, D)``.
            inputs: The batch, with ``document_ids``.

        Returns:
            Loss and statistics of each document of this process, ``(B,)`` each.
        """
        return self.contrast_in_batch(embeddings, inputs)

    def contrast_in_batch(self, embeddings: torch.Tensor, inputs: dict[str, torch.Tensor]) -> InfoNCE:
        """InfoNCE among the documents of a batch, of all processes if ``gather_negatives``.

        Of more than two views of a document, the mean over all pairs of views a < b: view a looks for view b.

        Args:
            embeddings: ``(2B, D)``, or ``(VB, D)``.
            inputs: The batch, with ``document_ids``.

        Returns:
            Loss and statistics of each document of this process, ``(B,)`` each.
        """

        args, ids = self.args, inputs["document_ids"]
        views = embeddings.split(len(ids))
        candidates = functools.cache(lambda positive: self.candidates(views[positive], ids))  # gathered once a view

        def one_direction(anchor: int, positive: int) -> InfoNCE:
            compared, *names = candidates(positive)
            return info_nce(views[anchor], compared, args.temperature, *names, args.similarity)

        pairs = list(itertools.combinations(range(len(views)), 2))
        directions = [*pairs, *((second, first) for first, second in pairs)] if args.symmetric else pairs
        return mean_of([one_direction(*pair) for pair in directions])

    def candidates(
        self, positives: torch.Tensor, document_ids: torch.Tensor
    ) -> tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]:
        """What the anchors of this process are compared with.

        Args:
            positives: Embeddings of this process, ``(B, D)``.
            document_ids: ``(B,)``.

        Returns:
            The positives of all processes if ``gather_negatives``, with gradients, else those of this process; where
            the own ones begin; the own document ids; the candidates' document ids.
        """
        if not self.args.gather_negatives:
            return positives, 0, document_ids, document_ids
        first = process_index() * len(document_ids)
        return gather_with_gradient(positives), first, document_ids, gather(document_ids)

    def contrastive_share(self, contrastive: InfoNCE, counts: torch.Tensor) -> torch.Tensor:
        """Log a contrastive loss, and scale it to its share of the mean over the accumulated batch.

        Args:
            contrastive: Loss and statistics of each document of this process.
            counts: As in ``training_loss``.

        Returns:
            A scalar.
        """
        names = ("contrastive_loss", "in_batch_accuracy", "positive_similarity", "negative_similarity", "negatives")
        for name, values in zip(names, contrastive, strict=True):
            self.means.add(name, values.sum(), len(values))
        return contrastive.loss.sum() * (process_count() / counts[0])

    def mlm_share(self, mlm_loss: torch.Tensor, inputs: dict[str, torch.Tensor], counts: torch.Tensor) -> torch.Tensor:
        """Log an MLM loss, and scale it to its weighted share of the mean over the accumulated batch.

        Args:
            mlm_loss: The mean over the masked tokens of the batch, a scalar.
            inputs: The batch, with ``mlm_labels``.
            counts: As in ``training_loss``.

        Returns:
            A scalar.
        """
        masked = _counts(inputs)[1]
        self.means.add("mlm_loss", mlm_loss * masked, masked)
        return self.args.mlm_weight * mlm_loss * (masked * process_count() / counts[1].clamp(min=1))

    def training_step(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        num_items_in_batch: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Propagate the loss of one batch back: at once, or by ``forward_chunk_size`` documents.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            num_items_in_batch: The counts from ``get_batch_samples``.

        Returns:
            The loss, without a graph.
        """
        size = self.args.forward_chunk_size
        if size is None or size >= len(inputs["document_ids"]):
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        inputs = self._prepare_inputs(inputs)
        counts = sum_over_processes(_counts(inputs)) if num_items_in_batch is None else num_items_in_batch
        self._measure_cut(inputs)
        masked_apart = self.args.mlm_weight > 0 and self.args.mlm_input == "separate"
        views = len(inputs["input_ids"]) // len(inputs["document_ids"])

        def embed(chunk: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor | None]:
            chosen = self._model_inputs(chunk)
            if masked_apart or not torch.is_grad_enabled():
                chosen = {name: chosen[name] for name in ("input_ids", "attention_mask")}
            output = model(**chosen)
            share = None if output.mlm_loss is None else self.mlm_share(output.mlm_loss, chunk, counts)
            return output.embeddings, share

        def predict_masked(chunk: dict[str, torch.Tensor]) -> torch.Tensor:
            chosen = {"attention_mask": chunk["attention_mask"], "mlm_labels": chunk["mlm_labels"]}
            output = model(input_ids=chunk["mlm_input_ids"], **chosen)
            share = self.mlm_share(output.mlm_loss, chunk, counts)
            # A projection head has no part in this loss, and DDP waits for a gradient of every parameter.
            return share + 0 * output.embeddings.sum() if self.args.projection_head else share

        with self.compute_loss_context_manager():
            return backward_in_chunks(
                chunk_documents(inputs, size),
                embed,
                lambda embeddings: self.contrastive_share(self.contrast(join_views(embeddings, views), inputs), counts),
                self.accelerator.backward,
                self.args.device,
                loss_beside=predict_masked if masked_apart else None,
                no_sync=functools.partial(self.accelerator.no_sync, model),
            )

    def _model_inputs(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        chosen = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        if self.args.mlm_weight == 0:
            return chosen
        # Held-out documents are never masked: their embeddings are what the model is there for.
        masked = "input_ids" if self.args.mlm_input == "shared" and self.model.training else "mlm_input_ids"
        return chosen | {masked: inputs["mlm_input_ids"], "mlm_labels": inputs["mlm_labels"]}

    def _loss_of(
        self, output: Any, contrastive: InfoNCE, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        loss = self.contrastive_share(contrastive, counts)
        if output.mlm_loss is None:
            return loss
        return loss + self.mlm_share(output.mlm_loss, inputs, counts)

    def _measure_cut(self, inputs: dict[str, torch.Tensor]) -> None:
        special_tokens = len(self.data_collator.prefix) + len(self.data_collator.suffix)
        total = inputs["view_lengths"].sum()
        kept = inputs["attention_mask"].sum() - special_tokens * len(inputs["view_lengths"])
        self.means.add("fraction_tokens_cut", total - kept, total)
        if self.model.training:
            self._tokens_cut.add("fraction_tokens_cut", total - kept, total)


def _counts(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Documents and masked tokens of a batch, float32 of shape (2,)."""
    documents = batch["document_ids"]
    masked = (batch["mlm_labels"] != IGNORED_LABEL).sum() if "mlm_labels" in batch else documents.new_zeros(())
    return torch.stack([documents.new_tensor(len(documents)), masked]).float()
