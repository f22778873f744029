"""The papers' baselines beside the objectives of the package: training, evaluation, refused options, the command."""

import copy

import pytest
import torch
from transformers import AutoModelForMaskedLM

from docsplit_hf.apps.cli.pretrain_arguments import parse_command_line
from docsplit_hf.pretraining.objectives import get_arguments_class, get_trainer_class
from experiments.baselines.objectives import BASELINES
from experiments.baselines.views import BASELINE_VIEWS

from ...pretraining.test_objectives import PAIRS, trains_and_saves_a_stock_checkpoint

OPTIONS = {"momentum_contrast": {"queue_size": 36}}
VIEWS = {"momentum_contrast": "cropping", "contrastive_tension": "simcse", "mlm": "docsplit"}
SAVED_EACH_STEP = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}


@pytest.fixture(autouse=True)
def registered(make_baseline):
    """All tests here know the baselines."""


def parse(*options):
    """Parse a command line as ``experiments.pretrain`` does."""
    return parse_command_line("", ["--use_cpu", "--dataset_name=documents.jsonl", *options])[1]


@pytest.mark.parametrize("objective, views", [*VIEWS.items(), *(("info_nce", views) for views in BASELINE_VIEWS)])
def test_every_baseline_trains_evaluates_and_saves_a_stock_checkpoint(make_baseline, objective, views):
    trainer = make_baseline(objective, views, max_steps=2, **OPTIONS.get(objective, {}))
    trains_and_saves_a_stock_checkpoint(trainer, objective, views)


@pytest.mark.parametrize("options, name, value", [
    (["--objective=momentum_contrast", "--queue_size", "4096"], "queue_size", 4096),
    (["--objective", "momentum_contrast", "--queue-size=99"], "queue_size", 99),
    (["--objective=contrastive_tension", "--tension_negatives=3"], "tension_negatives", 3),
    (["--objective=mlm", "--mlm_weight=2"], "mlm_weight", 2),
    # Whether the best checkpoint is loaded is known only when the documents are: there may be none to hold out.
    (["--objective=contrastive_tension", "--save_only_model"], "save_only_model", True),
])  # fmt: skip
def test_the_command_takes_the_options_of_each_baseline(options, name, value):
    arguments = parse(*options)[2]
    assert getattr(arguments, name) == value and isinstance(arguments, get_arguments_class(arguments.objective))


@pytest.mark.parametrize("options, message", [
    (["--queue_size", "4096"], "unknown argument --queue_size: it is an option of --objective momentum_contrast."),
    (["--objective=mlm", "--momentum=0.9"], "unknown argument --momentum: it is an option of --objective momentum"),
    (["--objective=mlm", "--projection-head"], "unknown argument --projection_head: it is an option of --objective i"),
])  # fmt: skip
def test_options_of_another_objective_are_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        parse(*options)
    assert message in capsys.readouterr().err


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
    pairs = [*PAIRS, *VIEWS.items()]
    trainers = [make_baseline(objective, views, **OPTIONS.get(objective, {})) for objective, views in pairs]
    for trainer in trainers:
        with torch.no_grad():
            for name, parameter in sorted(trainer.model.named_parameters()):
                key = name.split("bert.")[-1].removeprefix("encoders.0.").removeprefix("encoders.1.")
                generator = torch.Generator().manual_seed(sum(map(ord, key)))
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 10)
    recalls = [trainer.evaluate()["eval_mrr"] for trainer in trainers]
    assert recalls == pytest.approx([recalls[0]] * len(recalls)) and recalls[0] < 1


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


def test_each_baseline_has_its_defaults():
    assert [trainer.arguments_class.objective for trainer in BASELINES.values()] == list(BASELINES)
    expected = {"momentum_contrast": (0.0, "dot"), "contrastive_tension": (0.0, "dot"), "mlm": (1.0, "cosine")}
    for objective, defaults in expected.items():
        args = get_arguments_class(objective)("output", use_cpu=True)
        assert (args.objective, args.mlm_weight, args.similarity) == (objective, *defaults)


@pytest.mark.parametrize("objective, options, message", [
    ("mlm", {"forward_chunk_size": 4}, "does not go with objective='mlm'"),
    ("mlm", {"mlm_weight": 0.0}, "has no loss"),
    ("mlm", {"queue_size": 9}, "unexpected keyword argument 'queue_size'"),
    ("mlm", {"projection_head": True}, "unexpected keyword argument 'projection_head'"),
    ("momentum_contrast", {"queue_size": 7}, "queue_size=7 is less than a batch of 8"),
    ("momentum_contrast", {"momentum": 1.0}, "momentum must be in .*got 1.0"),
    ("momentum_contrast", {"mlm_weight": 0.1}, "trained without MLM.*mlm_weight=0.1"),
    ("momentum_contrast", {"forward_chunk_size": 4}, "gradient_accumulation_steps has the same effect"),
    ("momentum_contrast", {"projection_head": True}, "unexpected keyword argument 'projection_head'"),
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
    ("contrastive_tension", {"learning_rate_steps": "8e-6"}, "dictionary from steps to learning rates.*8e-6"),
    ("contrastive_tension", {"learning_rate_steps": {500: -8e-6}}, "rate -8e-06 from step 500 on"),
])  # fmt: skip
def test_unsuitable_options_of_a_baseline_are_refused(make_baseline, objective, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_baseline(objective, **options)
