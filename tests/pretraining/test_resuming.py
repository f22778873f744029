"""Runs that stopped and went on, with what only resuming needs: a head, a key encoder, two encoders, a map."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

RUNS = {
    "info_nce": ("docsplit", "projection_head.safetensors", {"projection_head": True}),
    "momentum_contrast": ("cropping", "momentum_contrast.safetensors", {"queue_size": 20, "momentum": 0.5}),
    "contrastive_tension": ("simcse", "contrastive_tension.safetensors", {"optim": "rmsprop"}),
    "distillation": ("docsplit", "teacher_map.safetensors", {"teacher": "docsplit-small-en"}),
}


@pytest.mark.parametrize("objective", RUNS)
def test_a_resumed_run_is_an_uninterrupted_one(make_baseline, loss_of_steps, stop_after, objective, caplog):
    views, file, options = RUNS[objective]
    options = options | {
        "dropout": 0.1, "per_device_train_batch_size": 11, "max_steps": 4, "save_strategy": "steps", "save_steps": 2,
        "eval_strategy": "steps", "eval_steps": 2, "load_best_model_at_end": True,
    }  # fmt: skip  # the fourth step is of the second epoch
    alone = make_baseline(objective, views, folder="alone", **options)
    expected = loss_of_steps(alone)
    interrupted = make_baseline(objective, views, **options)
    interrupted.add_callback(stop_after(3))
    interrupted.train()
    resumed = make_baseline(objective, views, **options)
    folder = Path(resumed.args.output_dir)
    caplog.clear()
    found = loss_of_steps(resumed, str(folder / "checkpoint-2"))
    assert "missing keys" not in caplog.text
    assert list(found) == list(expected) == [1, 2, 3, 4] and found == expected  # to the last bit
    modules = {"model": resumed.model, **resumed.modules_to_resume()}
    for module, other in zip(modules.values(), [alone.model, *alone.modules_to_resume().values()], strict=True):
        for name, tensor in module.state_dict().items():
            assert tensor.equal(other.state_dict()[name]), name
    assert resumed.evaluate()["eval_recall@1"] == resumed.state.best_metric == alone.state.best_metric
    checkpoint = folder / "checkpoint-4"
    assert not set(load_file(checkpoint / "model.safetensors")) & set(load_file(checkpoint / file))
    resumed.save_model()
    assert not (folder / file).exists()  # what is only for resuming is not shared
    told = "behind a projection head that the model is saved without" in (folder / "README.md").read_text()
    assert told == (objective == "info_nce")
    (checkpoint / file).unlink()
    with pytest.raises(ValueError, match=f"checkpoint-4 has no {file}, without which this run cannot go on"):
        make_baseline(objective, views, **options).train(str(checkpoint))
