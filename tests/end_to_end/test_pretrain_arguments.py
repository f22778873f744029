"""The arguments of the example script, without a process of their own."""

import pytest
from pretrain_arguments import DataArguments, ModelArguments, RunArguments
from transformers import HfArgumentParser


def parse(*options):
    """Parse a command line as the script does."""
    parser = HfArgumentParser((ModelArguments, DataArguments, RunArguments))
    return parser.parse_args_into_dataclasses(["--use_cpu", *options])


@pytest.mark.parametrize("options, best", [
    ((), True),
    (("--save_strategy=no",), False),
    (("--eval_strategy=no",), False),
    (("--load_best_model_at_end", "false"), False),
    (("--load_best_model_at_end", "--logging_steps=5"), True),
])  # fmt: skip
def test_the_best_checkpoint_is_loaded_where_there_can_be_one(options, best):
    assert parse(*options)[2].load_best_model_at_end is best


def test_a_best_checkpoint_that_was_asked_for_is_not_done_without():
    with pytest.raises(ValueError, match="requires the save and eval strategy to match"):
        parse("--save_strategy=no", "--load_best_model_at_end")


@pytest.mark.parametrize("options, message", [
    (['--config_overrides={"hidden_dropout": 0.1}'], "Did you mean hidden_dropout_prob"),
    (["--config_overrides=hidden_dropout_prob=0.1"], "--config_overrides is JSON such as"),
    (['--config_overrides={"hidden_dropout_prob": 0.1}', "--use_peft"], "an adapter does not hold"),
    (["--views_kwargs=0.1,"], "--views_kwargs is JSON such as .*ratio_min"),
    (["--from_scratch", "--model_name_or_path=me/mine"], "one of --from_scratch and --model_name_or_path"),
    (["--hidden_size=256"], "--hidden_size 256 is for --from_scratch"),
    (["--vocab_size=99", "--model_name_or_path=me/mine"], "--vocab_size 99 is for --from_scratch"),
])  # fmt: skip
def test_what_does_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        parse(*options)
