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
from docsplit_hf.pretraining.arguments import OBJECTIVES
from docsplit_hf.pretraining.objectives import TRAINERS, get_arguments_class, get_trainer_class
from docsplit_hf.pretraining.views import VIEWS

OPTIONS = {"momentum_contrast": {"queue_size": 36}}
PAIRS = [
    ("info_nce", "inverse_cloze"),
    ("info_nce", "simcse_long"),
    ("momentum_contrast", "cropping"),
    ("contrastive_tension", "simcse"),
    ("mlm", "docsplit"),
    ("distillation", "cropping"),
]


def test_pairs_have_every_objective_and_all_views():
    assert {objective for objective, _ in PAIRS} == set(OBJECTIVES)
    assert {views for _, views in PAIRS} == set(VIEWS)


@pytest.mark.parametrize("objective, views", PAIRS)
def test_every_objective_and_all_views_train_evaluate_and_save_a_stock_checkpoint(make_baseline, objective, views):
    trainer = make_baseline(objective, views, max_steps=2, **OPTIONS.get(objective, {}))
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
    assert f"| Views | {views} |" in card and f"| Objective | {objective} |" in card
    arguments = json.loads(Path(folder, "training_args.json").read_text())
    assert (arguments["objective"], arguments["views"], arguments["max_length"]) == (objective, views, 64)


DOCSPLIT = ("two halves, its views", "DocSplit: Simple Contrastive", "\n- docsplit\n")


@pytest.mark.parametrize("views, views_kwargs, options, present, absent", [
    ("cropping", {"ratio_min": 0.2}, {"similarity": "dot", "mlm_weight": 0.0}, (
        "Two views of each document, `cropping`: Crop the document twice", "| Views | cropping, ratio_min 0.2 |",
        "InfoNCE of dot products, temperature 0.05", "a baseline for DocSplit, not DocSplit itself",
    ), DOCSPLIT),
    ("docsplit", None, {}, DOCSPLIT, ()),
    (VIEWS["docsplit"], None, {}, DOCSPLIT, ()),
    ("docsplit", {"max_tokens": 20, "probability_spread": 0.2}, {}, (
        "| Views | docsplit, max_tokens 20, probability_spread 0.2 |",
        "two halves, its views. The probability of the second half was drawn anew for each, from 0.3 to 0.7.",
        "Of a view of more than 20 tokens, sentences were drawn at random until it had so many.",
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


def test_mlm_alone_has_the_stock_loss_of_the_masked_views(make_baseline, loss_of_steps):
    trainer = make_baseline("mlm", max_steps=1, learning_rate=0.0)
    batch = next(iter(trainer.get_train_dataloader()))
    stock = AutoModelForMaskedLM.from_config(trainer.model.config)
    stock.load_state_dict(trainer.model.state_dict())
    expected = stock(batch["mlm_input_ids"], attention_mask=batch["attention_mask"], labels=batch["mlm_labels"]).loss
    assert loss_of_steps(trainer) == {1: pytest.approx(expected.item(), abs=1e-5)}
    logs = trainer.state.log_history[0]
    assert "contrastive_loss" not in logs and logs["mlm_loss"] == pytest.approx(logs["loss"], rel=1e-5)


def test_all_objectives_and_views_are_evaluated_on_the_same_halves(make_baseline):
    """With the same weights, all have the same metrics."""
    trainers = [make_baseline(objective, views, **OPTIONS.get(objective, {})) for objective, views in PAIRS]
    for trainer in trainers:
        with torch.no_grad():
            for name, parameter in sorted(trainer.model.named_parameters()):
                key = name.split("bert.")[-1].removeprefix("encoders.0.").removeprefix("encoders.1.")
                generator = torch.Generator().manual_seed(sum(map(ord, key)))
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 10)
    recalls = [trainer.evaluate()["eval_mrr"] for trainer in trainers]
    assert recalls == pytest.approx([recalls[0]] * len(recalls)) and recalls[0] < 1


def test_held_out_documents_are_embedded_unmasked(make_baseline):
    separate = make_baseline("info_nce", mlm_input="separate")
    shared = make_baseline("info_nce", mlm_input="shared")
    expected = separate.predict(separate.eval_dataset)
    found = shared.predict(shared.eval_dataset)
    for expected_views, found_views in zip(expected.predictions, found.predictions, strict=True):
        assert found_views == pytest.approx(expected_views)
    assert found.metrics["test_loss"] == pytest.approx(expected.metrics["test_loss"])


def test_each_objective_has_its_defaults():
    assert [trainer.arguments_class.objective for trainer in TRAINERS] == list(OBJECTIVES)
    expected = {  # MLM weight and similarity
        "info_nce": (0.1, "cosine"),
        "momentum_contrast": (0.0, "dot"),
        "contrastive_tension": (0.0, "dot"),
        "mlm": (1.0, "cosine"),
        "distillation": (0.0, "cosine"),
    }
    assert set(expected) == set(OBJECTIVES)
    for objective, (mlm_weight, similarity) in expected.items():
        options = {"teacher": "me/teacher"} if objective == "distillation" else {}
        args = get_arguments_class(objective)("output", use_cpu=True, **options)
        assert (args.objective, args.mlm_weight, args.similarity) == (objective, mlm_weight, similarity)
    for objective, mlm_weight in (("info_nce", 0.1), ("mlm", 1.0)):
        args = get_arguments_class(objective)("output", mlm_weight=None, similarity=None, use_cpu=True)
        assert args.mlm_weight == mlm_weight
    assert get_arguments_class("info_nce") is ContrastiveTrainingArguments


@pytest.mark.parametrize("options, message", [
    ({"objective": "moco"}, "no objective named 'moco'.*contrastive_tension.*mlm"),
    ({"objective": "momentum_contrast", "queue_size": 9},
     r"other arguments than ContrastiveTrainingArguments: get_arguments_class\('momentum_contrast'\)"),
    ({"similarity": "cosinus"}, "similarity must be one of .*'cosinus'"),
])  # fmt: skip
def test_unknown_objectives_and_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ContrastiveTrainingArguments("output", **options, use_cpu=True)
    with pytest.raises(ValueError, match="no objective named 'moco'.*contrastive_tension.*mlm"):
        get_trainer_class("moco")


def test_arguments_of_another_objective_are_refused(make_baseline):
    trainer = make_baseline("mlm")
    with pytest.raises(
        ValueError, match="ContrastiveTrainer trains 'info_nce', and the arguments have objective='mlm'"
    ):
        ContrastiveTrainer(trainer.model, trainer.args, trainer.train_dataset, None, trainer.data_collator)


SAVED_EACH_STEP = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}


@pytest.mark.parametrize("objective, options, message", [
    ("mlm", {"forward_chunk_size": 4}, "does not go with objective='mlm'"),
    ("mlm", {"mlm_weight": 0.0}, "has no loss"),
    ("mlm", {"queue_size": 9}, "unexpected keyword argument 'queue_size'"),
    ("mlm", {"projection_head": True}, "unexpected keyword argument 'projection_head'"),
    ("momentum_contrast", {"queue_size": 7}, "queue_size=7 is less than a batch of 8"),
    ("momentum_contrast", {"gather_negatives": False}, "holds the keys of all processes"),
    ("momentum_contrast", {"momentum": 1.0}, "momentum must be in .*got 1.0"),
    ("momentum_contrast", {"mlm_weight": 0.1}, "trained without MLM.*mlm_weight=0.1"),
    ("momentum_contrast", {"forward_chunk_size": 4}, "gradient_accumulation_steps has the same effect"),
    ("momentum_contrast", {"projection_head": True}, "unexpected keyword argument 'projection_head'"),
    ("mlm", {"matryoshka_dims": [8]}, "unexpected keyword argument 'matryoshka_dims'"),
    ("info_nce", {"matryoshka_dims": [33]}, "matryoshka_dims has 33, but an embedding has 32 dimensions"),
    ("info_nce", {"matryoshka_dims": [0]}, "matryoshka_dims must be 1 or more, got 0"),
    ("info_nce", {"matryoshka_dims": [8], "projection_head": True}, "would train none of the embedding"),
    ("momentum_contrast", {"views_kwargs": {"parts": 3}}, "compares two views of a document, and 'docsplit' with .*"
     "'parts': 3.* makes 3"),
    ("contrastive_tension", {"views_kwargs": {"parts": 3}}, "compares two views of a document"),
    ("contrastive_tension", {"per_device_train_batch_size": 7}, "batch of at least 8 documents, got 7"),
    ("contrastive_tension", {"similarity": "cosine"}, "compares by dot products, got similarity='cosine'"),
    ("contrastive_tension", {"mlm_weight": 0.1}, "trained without MLM"),
    ("contrastive_tension", {"activation_checkpointing": True}, "use forward_chunk_size"),
    ("contrastive_tension", {"dataloader_drop_last": False}, "too few negatives"),
    ("contrastive_tension", {"tension_negatives": 0}, "at least 1, got 0"),
    ("contrastive_tension", {"save_only_model": True, "load_best_model_at_end": True} | SAVED_EACH_STEP, "both enc"),
    ("info_nce", {"learning_rate_steps": "8e-6"}, "dictionary from steps to learning rates.*8e-6"),
    ("info_nce", {"learning_rate_steps": {500: -8e-6}}, "rate -8e-06 from step 500 on"),
])  # fmt: skip
def test_unsuitable_options_of_an_objective_are_refused(make_baseline, objective, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_baseline(objective, **options)


@pytest.mark.parametrize("objective", ["momentum_contrast", "contrastive_tension"])
def test_two_encoders_are_not_trained_with_adapters_or_in_half_precision(make_baseline, objective):
    from peft import LoraConfig, get_peft_model

    baseline = make_baseline("info_nce", mlm_weight=0.0)
    args = get_arguments_class(objective)("output", use_cpu=True, **OPTIONS.get(objective, {}))
    half = copy.deepcopy(baseline.model).bfloat16()
    adapted = get_peft_model(baseline.model, LoraConfig(target_modules="all-linear"))

    def make_trainer(model):
        return get_trainer_class(objective)(model, args, baseline.train_dataset, None, baseline.data_collator)

    with pytest.raises(ValueError, match="do without PEFT"):
        make_trainer(adapted)
    with pytest.raises(ValueError, match="weights of torch.bfloat16: load the model in float32"):
        make_trainer(half)


@pytest.mark.parametrize("objective, views, options, warns", [
    ("info_nce", "simcse", {"mlm_weight": 0.0}, True),
    ("info_nce", "simcse_long", {}, True),
    ("momentum_contrast", "simcse", {}, True),
    ("info_nce", "simcse", {"dropout": 0.1}, False),
    ("info_nce", "simcse_long", {"mlm_input": "shared"}, False),  # the views have different masks
    ("info_nce", "docsplit", {}, False),
    ("contrastive_tension", "simcse", {}, False),
    ("mlm", "simcse_long", {}, False),
])  # fmt: skip
def test_equal_embeddings_of_both_views_give_a_warning(make_baseline, objective, views, options, warns, caplog):
    make_baseline(objective, views, **OPTIONS.get(objective, {}), **options)
    assert ("training only pushes documents apart" in caplog.text) == warns
