"""Distillation: losses, the map of dimensions, unsuitable teachers."""

import shutil
from pathlib import Path

import pytest
import torch

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder
from docsplit_hf.pretraining.distillation import map_to_student


@pytest.fixture
def make(make_baseline, tiny_checkpoint):
    """Make a trainer with a student that equals its teacher at the start."""

    def make(**options):
        trainer = make_baseline("distillation", **options)
        teacher = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), pooling="mean", mlm_head=False)
        teacher.save_pretrained(tiny_checkpoint)
        trainer.model.load_state_dict(teacher.state_dict())
        trainer.teacher = DocumentEncoder.from_pretrained(str(tiny_checkpoint))
        return trainer

    return make


def test_a_student_equal_to_its_teacher_has_a_loss_of_0(make, loss_of_steps):
    trainer = make(max_steps=2, learning_rate=0.0)  # Adam would scale rounding errors up to full steps
    assert loss_of_steps(trainer) == pytest.approx({1: 0.0, 2: 0.0}, abs=1e-5)
    assert trainer.state.log_history[0]["teacher_similarity"] == pytest.approx(1.0, abs=1e-5)


def test_the_loss_is_one_minus_the_mean_cosine_of_all_views(make_baseline, loss_of_steps):
    trainer = make_baseline("distillation", views_kwargs={"parts": 3}, max_steps=1, learning_rate=0.0)
    batch = next(iter(trainer.get_train_dataloader()))
    with torch.no_grad():
        student = trainer.model(batch["input_ids"], batch["attention_mask"]).embeddings
    texts = [trainer.processing_class.decode(row, skip_special_tokens=True) for row in batch["input_ids"]]
    teacher = torch.from_numpy(trainer.teacher.encode(texts, show_progress=False))
    assert len(texts) == 3 * 8
    cosines = torch.cosine_similarity(student, teacher)
    assert loss_of_steps(trainer)[1] == pytest.approx(1 - cosines.mean().item(), abs=1e-5)


def test_contrast_and_mlm_are_added_by_their_weights(make, loss_of_steps):
    """A student equal to its teacher has no other loss."""
    half = loss_of_steps(make(contrast_weight=0.5, max_steps=1, learning_rate=0.0))[1]
    trainer = make(contrast_weight=1.0, max_steps=1, learning_rate=0.0)
    whole = loss_of_steps(trainer)[1]
    assert whole == pytest.approx(2 * half, abs=1e-5) and whole > 0.1
    logs = trainer.state.log_history[0]
    assert logs["contrastive_loss"] == pytest.approx(whole, abs=1e-5) and "in_batch_accuracy" in logs


def test_a_student_learns_from_whole_documents_too(make_baseline, loss_of_steps):
    trainer = make_baseline("distillation", views_kwargs={"parts": 1}, max_steps=12, learning_rate=5e-3)
    losses = loss_of_steps(trainer)
    assert losses[12] < 0.7 * losses[1]
    trainer.save_model()
    assert "| Views | docsplit, parts 1 |" in Path(trainer.args.output_dir, "README.md").read_text()


@pytest.mark.parametrize("taught, learned", [(24, 8), (8, 8), (6, 8)])
def test_a_rotated_teacher_is_mapped_to_the_student(taught, learned):
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(50, min(taught, learned), generator=generator)
    teacher = common @ torch.linalg.qr(torch.randn(taught, common.shape[1], generator=generator)).Q.T
    student = common @ torch.linalg.qr(torch.randn(learned, common.shape[1], generator=generator)).Q.T
    assert torch.allclose(teacher @ map_to_student(teacher, student), student, atol=1e-5)


def test_a_map_keeps_the_teachers_largest_principal_components():
    teacher = torch.randn(50, 24, generator=torch.Generator().manual_seed(0)) * torch.linspace(1, 0.1, 24)
    found = map_to_student(teacher, torch.randn(50, 8, generator=torch.Generator().manual_seed(1)))
    assert torch.allclose(found.T @ found, torch.eye(8), atol=1e-5)  # dot products in these dimensions are unchanged
    largest = torch.linalg.svdvals(teacher)[:8].square().sum()
    assert (teacher @ found).square().sum().item() == pytest.approx(largest.item(), rel=1e-5)
    with pytest.raises(ValueError, match="7 views are too few to keep 8 of the teacher's dimensions"):
        map_to_student(teacher[:7], torch.zeros(7, 8))


def test_a_student_learns_from_a_teacher_with_more_dimensions(make_baseline, loss_of_steps, caplog):
    caplog.set_level("INFO")
    trainer = make_baseline("distillation", teacher="docsplit-small-en", max_steps=12)
    losses = loss_of_steps(trainer)
    assert losses[1] < 0.5  # the map aligns them at the start
    first_epoch = sum(losses[step] for step in range(1, 5))
    third_epoch = sum(losses[step] for step in range(9, 13))
    assert third_epoch < 0.98 * first_epoch
    assert "The teacher's 384 dimensions are mapped to the student's 32 by 70 views" in caplog.text


@pytest.mark.parametrize("objective, options", [("distillation", {"contrast_weight": 0.1}), ("info_nce", {})])
def test_one_view_has_no_positive(make_baseline, objective, options):
    with pytest.raises(ValueError, match="A positive pair needs two views.*'docsplit'.*'parts': 1.*makes 1"):
        make_baseline(objective, views_kwargs={"parts": 1}, **options)


def test_unsuitable_teachers_are_refused(make_baseline, tiny_checkpoint, tmp_path):
    with pytest.raises(ValueError, match="needs a teacher"):
        make_baseline("distillation", teacher=None)
    with pytest.raises(FileNotFoundError, match="teecher"):
        make_baseline("distillation", teacher="./teecher")
    with pytest.raises(ValueError, match="contrast_weight must be 0"):
        make_baseline("distillation", contrast_weight=-1.0)
    shorter = tmp_path / "shorter"
    shutil.copytree(tiny_checkpoint, shorter)
    model = AutoModelForDocSplit.from_pretrained(str(shorter))
    model.config.docsplit["max_length"] = 32
    model.save_pretrained(shorter)
    with pytest.raises(ValueError, match="The teacher reads 32 tokens, and the student would read 64"):
        make_baseline("distillation", teacher=str(shorter))


def test_the_card_names_the_teacher(make_baseline, tiny_checkpoint):
    trainer = make_baseline("distillation")
    trainer.save_model()
    card = open(f"{trainer.args.output_dir}/README.md").read()
    assert "Cite the teacher: tiny" in card and "teacher tiny, teacher_precision float32" in card
