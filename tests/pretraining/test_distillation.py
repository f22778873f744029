"""Distillation: what the student learns is the teacher's embedding of the same view."""

import shutil

import pytest
import torch

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder


@pytest.fixture
def make(make_baseline, tiny_checkpoint):
    """Make a trainer whose student is the teacher itself, at the start."""

    def make(**options):
        trainer = make_baseline("distillation", **options)
        teacher = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), pooling="mean", mlm_head=False)
        teacher.save_pretrained(tiny_checkpoint)
        trainer.model.load_state_dict(teacher.state_dict())
        trainer.teacher = DocumentEncoder.from_pretrained(str(tiny_checkpoint))
        return trainer

    return make


def test_a_student_that_is_its_teacher_has_nothing_to_learn(make, loss_of_steps):
    trainer = make(max_steps=2, learning_rate=0.0)  # Adam makes whole steps of the noise of rounding
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
    """Of a student that is its teacher only what is added is left."""
    runs = {weight: make(contrast_weight=weight, max_steps=1, learning_rate=0.0) for weight in (0.5, 1.0)}
    half, whole = (loss_of_steps(run)[1] for run in runs.values())
    assert whole == pytest.approx(2 * half, abs=1e-5) and whole > 0.1
    logs = runs[1.0].state.log_history[0]
    assert logs["contrastive_loss"] == pytest.approx(whole, abs=1e-5) and "in_batch_accuracy" in logs


def test_it_learns_from_whole_documents_too(make_baseline, loss_of_steps):
    trainer = make_baseline("distillation", views_kwargs={"parts": 1}, max_steps=12, learning_rate=5e-3)
    losses = loss_of_steps(trainer)
    assert losses[12] < 0.7 * losses[1]


@pytest.mark.parametrize("objective, options", [("distillation", {"contrast_weight": 0.1}), ("info_nce", {})])
def test_one_view_has_no_positive(make_baseline, objective, options):
    with pytest.raises(ValueError, match="A positive pair needs two views.*'docsplit'.*'parts': 1.*makes 1"):
        make_baseline(objective, views_kwargs={"parts": 1}, **options)


def test_what_does_not_fit_a_teacher(make_baseline, tiny_checkpoint, tmp_path):
    with pytest.raises(ValueError, match="name one as the teacher"):
        make_baseline("distillation", teacher=None)
    with pytest.raises(FileNotFoundError, match="teecher"):
        make_baseline("distillation", teacher="./teecher")
    with pytest.raises(ValueError, match="contrast_weight must be 0"):
        make_baseline("distillation", contrast_weight=-1.0)
    with pytest.raises(ValueError, match=r"The teacher's embeddings have \d+ dimensions and the student's 32"):
        make_baseline("distillation", teacher="docsplit-small-en")
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
    assert "that of a larger encoder, tiny" in card and "Cite the encoder that it was distilled from: tiny" in card
    assert "| Loss | 1 - cosine to the teacher's embedding |" in card and "| Negatives per document | 0 |" in card
