"""ContrastiveSteps: a Trainer whose steps are contrastive: the loss, its share of a whole step, what is measured."""

from __future__ import annotations

import functools
from typing import Any

import torch
from transformers import PreTrainedModel

from ..data.masking import IGNORED_LABEL
from .distributed import gather, gather_with_gradient, process_count, process_index, sum_over_processes
from .gradient_caching import backward_in_chunks, chunk_documents, join_views
from .losses import InfoNCE, info_nce, symmetric
from .measuring_trainer import MeasuringTrainer


class ContrastiveSteps(MeasuringTrainer):
    """The loss of ``ContrastiveTrainer``, with the same gradients on any number of processes and in any chunks."""

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
        """InfoNCE + mlm_weight x MLM of one batch, as its share of the means over the whole accumulated batch.

        Both are sums over this process, divided by the counts over all processes and accumulated batches, times the
        number of processes, which DDP's averaging takes out again.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            return_outputs: Whether to return the model's output too.
            num_items_in_batch: The counts from ``get_batch_samples``. None: those of this batch.

        Returns:
            The loss, and the output if asked for.
        """
        counts = sum_over_processes(_counts(inputs)) if num_items_in_batch is None else num_items_in_batch
        output = model(**self._model_inputs(inputs))
        loss = self._contrastive_share(output.embeddings, inputs, counts)
        if output.mlm_loss is not None:
            loss = loss + self._mlm_share(output.mlm_loss, inputs, counts)
        return (loss, output) if return_outputs else loss

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
        masked_apart = self.args.mlm_weight > 0 and self.args.mlm_input == "separate"

        def embed(chunk: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor | None]:
            chosen = self._model_inputs(chunk)
            if masked_apart or not torch.is_grad_enabled():
                chosen = {name: chosen[name] for name in ("input_ids", "attention_mask")}
            output = model(**chosen)
            share = None if output.mlm_loss is None else self._mlm_share(output.mlm_loss, chunk, counts)
            return output.embeddings, share

        def predict_masked(chunk: dict[str, torch.Tensor]) -> torch.Tensor:
            chosen = {"attention_mask": chunk["attention_mask"], "mlm_labels": chunk["mlm_labels"]}
            return self._mlm_share(model(input_ids=chunk["mlm_input_ids"], **chosen).mlm_loss, chunk, counts)

        with self.compute_loss_context_manager():
            return backward_in_chunks(
                chunk_documents(inputs, size),
                embed,
                lambda embeddings: self._contrastive_share(join_views(embeddings), inputs, counts),
                self.accelerator.backward,
                self.args.device,
                loss_beside=predict_masked if masked_apart else None,
                no_sync=functools.partial(self.accelerator.no_sync, model),
            )

    def _model_inputs(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        names = ["input_ids", "attention_mask"]
        if self.args.mlm_weight > 0:
            names += ["mlm_labels"] if self.args.mlm_input == "shared" else ["mlm_input_ids", "mlm_labels"]
        chosen = {name: inputs[name] for name in names}
        if self.args.mlm_weight > 0 and self.args.mlm_input == "shared":
            chosen["input_ids"] = inputs["mlm_input_ids"]
        return chosen

    def _contrastive(self, embeddings: torch.Tensor, document_ids: torch.Tensor) -> InfoNCE:
        gathers = self.args.gather_negatives
        first = process_index() * len(document_ids) if gathers else 0
        all_ids = gather(document_ids) if gathers else document_ids

        def one_direction(anchors: torch.Tensor, positives: torch.Tensor) -> InfoNCE:
            candidates = gather_with_gradient(positives) if gathers else positives
            return info_nce(anchors, candidates, self.args.temperature, first, document_ids, all_ids)

        anchors, positives = embeddings.chunk(2)
        forward = one_direction(anchors, positives)
        return symmetric(forward, one_direction(positives, anchors)) if self.args.symmetric else forward

    def _contrastive_share(
        self, embeddings: torch.Tensor, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        contrastive = self._contrastive(embeddings, inputs["document_ids"])
        self._measure(contrastive, inputs)
        return contrastive.loss.sum() * (process_count() / counts[0])

    def _mlm_share(self, mlm_loss: torch.Tensor, inputs: dict[str, torch.Tensor], counts: torch.Tensor) -> torch.Tensor:
        masked = _counts(inputs)[1]
        self._means.add("mlm_loss", mlm_loss * masked, masked)
        return self.args.mlm_weight * mlm_loss * (masked * process_count() / counts[1].clamp(min=1))

    def _measure(self, contrastive: InfoNCE, inputs: dict[str, torch.Tensor]) -> None:
        names = ("contrastive_loss", "in_batch_accuracy", "positive_similarity", "negative_similarity", "negatives")
        for name, values in zip(names, contrastive, strict=True):
            self._means.add(name, values.sum(), len(values))
        special_tokens = len(self.data_collator.prefix) + len(self.data_collator.suffix)
        total = inputs["view_lengths"].sum()
        kept = inputs["attention_mask"].sum() - special_tokens * len(inputs["view_lengths"])
        self._means.add("fraction_tokens_cut", total - kept, total)
        if self.model.training:
            self._tokens_cut.add("fraction_tokens_cut", total - kept, total)


def _counts(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Documents and masked tokens of a batch, float32 of shape (2,)."""
    documents = batch["document_ids"]
    masked = (batch["mlm_labels"] != IGNORED_LABEL).sum() if "mlm_labels" in batch else documents.new_zeros(())
    return torch.stack([documents.new_tensor(len(documents)), masked]).float()
