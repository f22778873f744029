"""Distillation: train a student to give the embeddings of a teacher."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from accelerate.utils import broadcast
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.hf_argparser import HfArg

from ..encoding.backends.precision import PRECISIONS
from ..encoding.checkpoints.checkpoint import find_checkpoint
from ..encoding.document_encoder import DocumentEncoder
from ..training.distributed import process_count
from .arguments import ContrastiveTrainingArguments, overridden
from .contrastive_trainer import ContrastiveTrainer
from .info_nce import comparable
from .model import Batch, model_inputs

logger = logging.getLogger(__name__)

MAP_FILE = "teacher_map.safetensors"  # in each checkpoint of a run with such a map, for resuming only
VIEWS_TO_FIT_MAP = 2048  # several for each dimension of usual encoders


@dataclass
class DistillationArguments(ContrastiveTrainingArguments):
    """Arguments of ``DistillationTrainer``: those of ``ContrastiveTrainingArguments`` and the following.

    Args:
        teacher: The encoder to learn from: a name on the Hub or a folder.
        teacher_precision: Precision of the teacher: ``"float32"``, ``"bfloat16"``, or ``"int8"`` by OpenVINO on a CPU.
        contrast_weight: Weight of the contrastive loss between the views of a document. 0 trains without it.
    """

    compares_batch: ClassVar[bool] = False

    objective: str = overridden("objective", "distillation")
    mlm_weight: float = overridden("mlm_weight", 0.0)
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
            raise ValueError("objective='distillation' needs a teacher: pass the name or the folder of an encoder.")
        find_checkpoint(self.teacher)  # refuses a mistyped path before the documents are prepared
        if self.contrast_weight < 0:
            raise ValueError(f"contrast_weight must be 0 (no contrastive loss) or above, got {self.contrast_weight}.")


class DistillationTrainer(ContrastiveTrainer):
    """Train a student to give the embeddings of a teacher for each view: ``objective="distillation"``.

    The loss of a view is 1 - cos(student, teacher), half the squared distance between the two at norm 1 (LEAF, Vujanic
    and Rueckstiess 2025). With ``views_kwargs={"parts": 1}`` the whole document is the only view.

    The teacher embeds each view in the step that uses it, because every epoch draws new views. It reads the text that
    is decoded from the student's tokens, and so misses what these leave out, such as case.

    If the teacher's embeddings have another number of dimensions than the student's, ``map_to_student`` maps them to
    the student's before the first step.
    """

    arguments_class = DistillationArguments

    def __init__(self, model: PreTrainedModel, args: DistillationArguments, *others: Any, **kwargs: Any) -> None:
        super().__init__(model, args, *others, **kwargs)
        self.teacher = DocumentEncoder.from_pretrained(
            args.teacher, device=args.device, precision=args.teacher_precision
        )
        self.map: nn.Linear | None = None  # with zeros as weights until it is fitted or loaded
        student_dimension = self.encoder_config.hidden_size
        if self.teacher.dimension != student_dimension:
            linear = nn.Linear(self.teacher.dimension, student_dimension, bias=False)
            self.map = linear.to(args.device).requires_grad_(False)
            nn.init.zeros_(self.map.weight)
        if self.teacher.max_length < self.training_collator.max_length:
            raise ValueError(
                f"The teacher reads {self.teacher.max_length} tokens, and the student would read "
                f"{self.training_collator.max_length}: lower max_length."
            )

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The distance between the student's and the teacher's embeddings, plus contrastive and MLM losses, if any."""
        if self.map is not None and not self.map.weight.any():
            self.fit_map()
        output = model(**model_inputs(inputs))
        targets = self.read_by_teacher(inputs)
        if self.map is not None:
            targets = targets @ self.map.weight.float().T
        cosines = (comparable(output.embeddings, "cosine") * functional.normalize(targets)).sum(1)  # (VB,)
        self.means.add("teacher_similarity", cosines.detach().sum(), len(cosines))
        document_losses = (1 - cosines).view(-1, len(inputs["document_ids"])).mean(0)
        loss = document_losses.sum() * (process_count() / counts[0])
        if self.args.compares_views:
            contrastive = self.contrast(output.embeddings, inputs)
            loss = loss + self.args.contrast_weight * self.log_and_scale_contrastive_loss(contrastive, counts)
        if output.mlm_loss is not None:
            loss = loss + self.log_and_scale_mlm_loss(output.mlm_loss, inputs, counts)
        return loss

    def read_by_teacher(self, inputs: Batch) -> torch.Tensor:
        """The teacher's embeddings of the views of a batch, float32."""
        texts = self.processing_class.batch_decode(inputs["input_ids"], skip_special_tokens=True)
        return torch.from_numpy(self.teacher.encode(texts, show_progress=False)).to(self.args.device)

    def fit_map(self) -> None:
        """Fit the map on the first documents; all processes use the map of the first process."""
        model = self.accelerator.unwrap_model(self.model)
        teacher_batches: list[torch.Tensor] = []
        student_batches: list[torch.Tensor] = []
        views = 0
        logger.info(
            "Fitting a map from the teacher's dimensions to the student's: both embed up to %d views.", VIEWS_TO_FIT_MAP
        )
        model.eval()
        with torch.no_grad():
            for inputs in self._first_batches():
                teacher_batches.append(self.read_by_teacher(inputs))
                student_batches.append(model(inputs["input_ids"], inputs["attention_mask"]).embeddings.float())
                views += len(teacher_batches[-1])
                if views >= VIEWS_TO_FIT_MAP:
                    break
        model.train()
        teacher = torch.cat(teacher_batches)
        matrix = map_to_student(teacher, torch.cat(student_batches))
        self.map.weight.copy_(broadcast(matrix.T.contiguous()))
        kept_norm = (teacher @ matrix).norm() / teacher.norm()
        logger.info(
            "The teacher's %d dimensions are mapped to the student's %d by %d views; %.1f %% of the norm stays.",
            self.map.in_features,
            self.map.out_features,
            views,
            100 * kept_norm,
        )

    def _first_batches(self) -> Iterator[Batch]:
        """Yield batches of the training documents, unshuffled, on the device."""
        rows = iter(self.train_dataset)
        while documents := list(itertools.islice(rows, self.args.per_device_train_batch_size)):
            kept = [{name: row[name] for name in self.collator_columns() if name in row} for row in documents]
            yield self.move_to_device(self.training_collator(kept))

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """The map of the teacher's dimensions, if there is one, and the modules of the base class."""
        modules = super().modules_to_resume()
        if self.map is not None:
            modules = modules | {MAP_FILE: self.map}
        return modules


def map_to_student(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """Fit the linear map ``(T, S)`` from a teacher's embeddings ``(N, T)`` to the space of a student's, ``(N, S)``.

    It keeps the first S principal directions of the teacher's embeddings (not centered), which preserve dot products
    best, and rotates them as close to the student's embeddings as possible (orthogonal Procrustes). With T < S all
    directions are kept.

    Raises:
        ValueError: If there are fewer views than dimensions to keep.
    """
    kept = min(teacher.shape[1], student.shape[1])
    if len(teacher) < kept:
        raise ValueError(
            f"{len(teacher)} views are too few to keep {kept} of the teacher's dimensions: give at least {kept}."
        )
    directions = torch.linalg.svd(teacher.double(), full_matrices=False).Vh[:kept].T
    left, _, right = torch.linalg.svd((teacher.double() @ directions).T @ student.double(), full_matrices=False)
    return (directions @ left @ right).float()
