"""Distillation: a student learns a teacher's embeddings of the same views."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from accelerate.utils import broadcast
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.hf_argparser import HfArg

from ..models.checkpoints.checkpoint import find_checkpoint
from ..models.inference.backend import PRECISIONS
from ..models.inference.encoder import DocumentEncoder
from ..training.distributed import process_count
from ..training.markdown import public_name
from .arguments import ContrastiveTrainingArguments, overridden
from .contrastive_trainer import ContrastiveTrainer
from .info_nce import comparable
from .model import Batch, model_inputs

logger = logging.getLogger(__name__)

MAP_FILE = "teacher_map.safetensors"  # in each checkpoint of a run with one: for resuming only
VIEWS_TO_MAP = 2048  # some for each dimension


@dataclass
class DistillationArguments(ContrastiveTrainingArguments):
    """Arguments of ``DistillationTrainer``: those of ``ContrastiveTrainingArguments`` and the following.

    Args:
        teacher: The encoder to learn from, on the Hub or a folder.
        teacher_precision: What it computes in: ``"float32"``, ``"bfloat16"``, or ``"int8"`` by OpenVINO on a CPU.
        contrast_weight: Weight of the contrastive loss between the views of a document. 0 trains without it.
    """

    compares_batch: ClassVar[bool] = False
    needs_dropout: ClassVar[bool] = False

    objective: str = overridden("objective", "distillation")
    mlm_weight: float | None = overridden("mlm_weight", 0.0)
    teacher: str | None = HfArg(default=None, help="The encoder to learn from: on the Hub or a folder. Must be given.")
    teacher_precision: str = HfArg(
        default="float32",
        help="What the teacher computes in; 'int8' is the fastest on a CPU, and needs pip install -e '.[openvino]'.",
        metadata={"choices": list(PRECISIONS)},
    )
    contrast_weight: float = HfArg(
        default=0.0, help="Weight of the contrastive loss between the views of a document; 0 trains without it."
    )

    @property
    def compares_views(self) -> bool:
        """Whether there is a contrastive loss."""
        return self.contrast_weight > 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher is None:
            raise ValueError("objective='distillation' learns from an encoder: name one as the teacher.")
        find_checkpoint(self.teacher)  # a mistyped path shows before the documents are prepared
        if self.contrast_weight < 0:
            raise ValueError(f"contrast_weight must be 0 (no contrastive loss) or above, got {self.contrast_weight}.")


class DistillationTrainer(ContrastiveTrainer):
    """Trains a student whose embedding of a view is its teacher's: ``objective="distillation"``.

    The loss of a view is 1 - cos(student, teacher), half the squared distance of the two at norm 1 (LEAF, Vujanic and
    Rueckstiess 2025). ``views_kwargs={"parts": 1}`` makes the whole document the only view.

    The teacher reads each view when the student does, as views are drawn anew in every epoch: there is nothing to keep.
    It reads the text that the student's tokens stand for: what these leave out, such as case, it does not see.

    A teacher of other dimensions than the student is mapped to them by ``map_to_student`` before the first step.
    """

    arguments_class = DistillationArguments

    def __init__(self, model: PreTrainedModel, args: DistillationArguments, *others: Any, **kwargs: Any) -> None:
        super().__init__(model, args, *others, **kwargs)
        backend = "openvino" if args.teacher_precision == "int8" else "torch"
        self.teacher = DocumentEncoder.from_pretrained(
            args.teacher, device=args.device, backend=backend, precision=args.teacher_precision
        )
        self.map: nn.Linear | None = None  # is all zeros until it is fitted or loaded
        taught, learned = self.teacher.dimension, self.encoder_config.hidden_size
        if taught != learned:
            self.map = nn.Linear(taught, learned, bias=False).to(args.device).requires_grad_(False)
            nn.init.zeros_(self.map.weight)
        if self.teacher.max_length < self.training_collator.max_length:
            raise ValueError(
                f"The teacher reads {self.teacher.max_length} tokens, and the student would read "
                f"{self.training_collator.max_length}: lower max_length."
            )

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The distance of the student's embeddings from the teacher's, and the losses beside it."""
        if self.map is not None and not self.map.weight.any():
            self.fit_map()
        output = model(**model_inputs(inputs, self._mlm_input()))
        cosines = (comparable(output.embeddings, "cosine") * self.teach(inputs)).sum(1)  # (VB,)
        self.means.add("teacher_similarity", cosines.detach().sum(), len(cosines))
        of_documents = (1 - cosines).view(-1, len(inputs["document_ids"])).mean(0)
        loss = of_documents.sum() * (process_count() / counts[0])
        if self.args.compares_views:
            contrastive = self.contrast(output.embeddings, inputs)
            loss = loss + self.args.contrast_weight * self.contrastive_share(contrastive, counts)
        return loss if output.mlm_loss is None else loss + self.mlm_share(output.mlm_loss, inputs, counts)

    def teach(self, inputs: Batch) -> torch.Tensor:
        """What the student is to give for the views of a batch, float32 ``(VB, D)`` of norm 1."""
        embeddings = self.read_by_teacher(inputs)
        return functional.normalize(embeddings if self.map is None else embeddings @ self.map.weight.float().T)

    def read_by_teacher(self, inputs: Batch) -> torch.Tensor:
        """The teacher's embeddings of the views of a batch, float32."""
        texts = self.processing_class.batch_decode(inputs["input_ids"], skip_special_tokens=True)
        return torch.from_numpy(self.teacher.encode(texts, show_progress=False)).to(self.args.device)

    def fit_map(self) -> None:
        """Fit the map on the first documents; all processes take that of the first one."""
        model, rows = self.accelerator.unwrap_model(self.model), iter(self.train_dataset)
        size = self.args.per_device_train_batch_size
        taught: list[torch.Tensor] = []
        learned: list[torch.Tensor] = []
        logger.info("Mapping the teacher's dimensions to the student's: both read up to %d views first.", VIEWS_TO_MAP)
        model.eval()
        with torch.no_grad():
            while sum(map(len, taught)) < VIEWS_TO_MAP and (documents := list(itertools.islice(rows, size))):
                kept = [{name: row[name] for name in self.collator_columns() if name in row} for row in documents]
                inputs = self.move_to_device(self.training_collator(kept))
                taught.append(self.read_by_teacher(inputs))
                learned.append(model(**model_inputs(inputs, None)).embeddings.float())
        model.train()
        found = map_to_student(torch.cat(taught), torch.cat(learned))
        self.map.weight.copy_(broadcast(found.T.contiguous()))
        stays = (torch.cat(taught) @ found).norm() / torch.cat(taught).norm()
        message = "The teacher's %d dimensions are mapped to the student's %d by %d views; %.1f %% of the norm stays."
        logger.info(message, *found.shape, sum(map(len, taught)), 100 * stays)

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """The map of the teacher's dimensions, if there is one."""
        return super().modules_to_resume() | ({} if self.map is None else {MAP_FILE: self.map})

    @property
    def method(self) -> str:
        """How documents are trained on, for the model card."""
        return f"The embedding of a view is to be that of a larger encoder, {public_name(self.args.teacher)}."

    def describe_loss(self) -> str:
        """The loss in a few words, for the model card."""
        contrast = f", and {self.args.contrast_weight} times {super().describe_loss()}"
        mapped = "" if self.map is None else f", mapped to {self.map.out_features} of {self.map.in_features} dimensions"
        return f"1 - cosine to the teacher's embedding{mapped}{contrast if self.args.compares_views else ''}"

    def count_negatives(self) -> int:
        """There are none without the contrastive loss."""
        return super().count_negatives() if self.args.compares_views else 0


def map_to_student(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """The linear map ``(T, S)`` from a teacher's embeddings ``(N, T)`` to where a student's ``(N, S)`` are.

    The teacher's first S principal directions (not centered), which keep dot products best, turned as near to the
    student's embeddings as a rotation can (orthogonal Procrustes). Where T < S nothing is lost.

    Raises:
        ValueError: If the views are fewer than the dimensions to keep.
    """
    kept = min(teacher.shape[1], student.shape[1])
    if len(teacher) < kept:
        raise ValueError(f"To keep {kept} of the teacher's dimensions takes as many views, got {len(teacher)} of them.")
    directions = torch.linalg.svd(teacher.double(), full_matrices=False).Vh[:kept].T
    left, _, right = torch.linalg.svd((teacher.double() @ directions).T @ student.double(), full_matrices=False)
    return (directions @ left @ right).float()
