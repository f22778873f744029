"""All objectives and views: training, cards, refused options."""

import copy
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    DocumentEncoder,
)
from docsplit_hf.pretraining.objectives import OBJECTIVES, get_arguments_class, get_trainer_class
from docsplit_hf.pretraining.views import VIEWS
from experiments.baselines.objectives import BASELINES

PAIRS = [("info_nce", "docsplit"), ("distillation", "docsplit")]


def test_pairs_have_every_objective():
    # Other tests in this process may have registered the baselines.
    assert {objective for objective, _ in PAIRS} == set(OBJECTIVES) - set(BASELINES)


@pytest.mark.parametrize("objective, views", PAIRS)
def test_every_objective_and_all_views_train_evaluate_and_save_a_stock_checkpoint(make_baseline, objective, views):
    trains_and_saves_a_stock_checkpoint(make_baseline(objective, views, max_steps=2), objective, views)


def trains_and_saves_a_stock_checkpoint(trainer, objective, views):
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    assert any(not torch.equal(weight, before[name]) for name, weight in trainer.model.state_dict().items())
    assert {"eval_recall@1", "eval_mrr", "eval_contrastive_loss"} <= set(trainer.evaluate())
    trainer.save_model()
    folder = trainer.args.output_dir
    kind = AutoModelForMaskedLM if trainer.args.mlm_weight else AutoModel
    _, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not info["unexpected_keys"] and all(key.startswith("pooler.") for key in info["missing_keys"])
    assert DocumentEncoder.from_pretrained(folder).encode(["A text."], show_progress=False).shape == (1, 32)
    card = Path(folder, "README.md").read_text()
    assert f"| Views | {views} |" in card and f"| Objective | {objective}, " in card
    arguments = json.loads(Path(folder, "training_args.json").read_text())
    assert (arguments["objective"], arguments["views"], arguments["max_length"]) == (objective, views, 64)


DOCSPLIT = ("DocSplit: Simple Contrastive", "\n- docsplit\n")


@pytest.mark.parametrize("views, views_kwargs, options, present, absent", [
    ("cropping", {"ratio_min": 0.2}, {"similarity": "dot", "mlm_weight": 0.0}, (
        "| Views | cropping, ratio_min 0.2 |", "| Objective | info_nce, temperature 0.05, similarity dot,",
        "a baseline for DocSplit, not DocSplit itself",
    ), DOCSPLIT),
    ("docsplit", None, {}, DOCSPLIT, ()),
    (VIEWS["docsplit"], None, {}, DOCSPLIT, ()),
    ("docsplit", {"max_tokens": 20, "parts": 3}, {}, (
        "| Views | docsplit, max_tokens 20, parts 3 |",
    ), ()),
])  # fmt: skip
def test_the_card_names_the_method_and_no_baseline_claims_to_be_docsplit(
    make_baseline, views, views_kwargs, options, present, absent
):
    trainer = make_baseline("info_nce", views, views_kwargs, **options)
    trainer.save_model()
    folder = Path(trainer.args.output_dir)
    card = (folder / "README.md").read_text()
    arguments = json.loads((folder / "training_args.json").read_text())
    assert all(fact in card for fact in present) and not any(fact in card for fact in absent)
    assert arguments["views_kwargs"] == views_kwargs
    assert arguments["similarity"] == options.get("similarity", "cosine")


@pytest.mark.parametrize("head", [True, False])
def test_the_card_of_an_adapter_loads_it_onto_its_base_model(tiny_checkpoint, documents, tokenizer, head):
    from peft import LoraConfig, get_peft_model

    model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), mlm_head=head)
    args = ContrastiveTrainingArguments(str(tiny_checkpoint.parent / "run"), mlm_weight=0.0, use_cpu=True)
    adapted = get_peft_model(model, LoraConfig(target_modules="all-linear"))
    trainer = ContrastiveTrainer(adapted, args, documents, data_collator=DataCollatorForDocSplit(tokenizer, 64, 0.0))
    trainer.save_model()
    card = Path(args.output_dir, "README.md").read_text()
    loaded = {}
    exec(next(block for block in card.split("```") if "import PeftModel" in block).removeprefix("python"), loaded)
    assert not loaded["model"].load_adapter(args.output_dir, "default").unexpected_keys


@pytest.mark.parametrize("options, message", [
    ({"objective": "distillation", "teacher": "x"},
     r"other arguments than ContrastiveTrainingArguments: get_arguments_class\('distillation'\)"),
    ({"similarity": "cosinus"}, "similarity must be one of .*'cosinus'"),
])  # fmt: skip
def test_unknown_objectives_and_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ContrastiveTrainingArguments("output", **options, use_cpu=True)
    with pytest.raises(ValueError, match="no objective named 'moco'.*distillation.*info_nce"):
        get_trainer_class("moco")


def test_arguments_of_another_objective_are_refused(make_baseline):
    trainer = make_baseline("distillation")
    with pytest.raises(ValueError, match="trains 'info_nce', and the arguments have objective='distillation'"):
        ContrastiveTrainer(trainer.model, trainer.args, trainer.train_dataset, None, trainer.data_collator)


@pytest.mark.parametrize("objective, options, message", [
    ("distillation", {"forward_chunk_size": 4}, "gradient_accumulation_steps has the same effect"),
])  # fmt: skip
def test_unsuitable_options_of_an_objective_are_refused(make_baseline, objective, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_baseline(objective, **options)


def test_each_objective_has_its_defaults():
    for objective, mlm_weight in (("info_nce", 0.1), ("distillation", 0.0)):
        options = {"teacher": "docsplit-small-en"} if objective == "distillation" else {}
        args = get_arguments_class(objective)("output", use_cpu=True, **options)
        assert (args.objective, args.mlm_weight, args.similarity) == (objective, mlm_weight, "cosine")
    assert get_arguments_class("info_nce") is ContrastiveTrainingArguments
