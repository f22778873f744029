"""The arguments of the example script, without a process of their own."""

import pytest

from docsplit_hf.apps.cli.pretrain_arguments import parse_command_line
from docsplit_hf.pretraining.objectives import get_arguments_class


def parse(*options):
    """Parse a command line as the script does."""
    return parse_command_line("", ["--use_cpu", "--dataset_name=documents.jsonl", *options])[1]


@pytest.mark.parametrize("options, best", [
    ((), True),
    (("--save_strategy=no",), False),
    (("--eval_strategy=no",), False),
    (("--load_best_model_at_end", "false"), False),
    (("--load_best_model_at_end", "--logging_steps=5"), True),
])  # fmt: skip
def test_the_best_checkpoint_is_loaded_where_there_can_be_one(options, best):
    assert parse(*options)[2].load_best_model_at_end is best


@pytest.mark.parametrize("options, name, value", [
    (["--teacher=docsplit-small-en", "--contrast-weight=0.5"], "contrast_weight", 0.5),
    (["--projection_head", "--run_name", "momentum"], "projection_head", True),
])  # fmt: skip
def test_each_objective_has_its_own_options(options, name, value):
    arguments = parse(*options)[2]
    assert getattr(arguments, name) == value and isinstance(arguments, get_arguments_class(arguments.objective))
    assert (arguments.save_steps, arguments.eval_steps, arguments.output_dir) == (100, 100, "output/pretrain")


def test_dataset_name_is_required_and_the_error_names_the_demonstration(capsys):
    with pytest.raises(SystemExit):
        parse_command_line("", ["--use_cpu"])
    assert "--dataset_name must be given: a file, a folder" in capsys.readouterr().err
    assert parse("--dataset_name=documentation")[1].dataset_name == "documentation"


@pytest.mark.parametrize("options, message", [
    (["--contrast_weight=1"], "unknown argument --contrast_weight: it is an option of --objective distillation."),
    (["--objective=moco"], "invalid choice: 'moco' (choose from 'info_nce', 'distillation'"),
    (["--save_strategy=no", "--load_best_model_at_end"], "requires the save and eval strategy to match"),
    (['--config_overrides={"hidden_dropout": 0.1}'], "Did you mean hidden_dropout_prob"),
    (["--config_overrides=hidden_dropout_prob=0.1"], "--config_overrides must be JSON such as"),
    (['--config_overrides={"hidden_dropout_prob": 0.1}', "--use_peft"], "An adapter does not contain"),
    (["--views_kwargs=0.1,"], "--views_kwargs must be JSON such as"),
    (["--from_scratch", "--model_name_or_path=me/mine"], "either --from_scratch or --model_name_or_path"),
    (["--hidden_size=256"], "--hidden_size 256 is for --from_scratch"),
    (["--hidden_size=64", "--model_name_or_path=me/mine"], "--hidden_size 64 is for --from_scratch"),
    (["--keep_layers", "0", "--from_scratch"], "--keep_layers and --static need a pretrained model"),
    (["--static", "--keep_layers", "0"], "--static keeps no layers, but --keep_layers keeps some"),
    (["--static", "--pooling", "cls"], "leave out --pooling cls"),
    (["--vocab_size=99", "--use_peft"], "--keep_layers, --static and --vocab_size change the base model"),
])  # fmt: skip
def test_contradictory_options_end_with_one_line_and_exit_code_2(options, message, capsys):
    with pytest.raises(SystemExit) as end:
        parse(*options)
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_help_lists_the_options_of_the_chosen_objective(capsys):
    printed = {}
    for objective in ("info_nce", "distillation"):
        with pytest.raises(SystemExit):
            parse(f"--objective={objective}", "--help_all")
        printed[objective] = " ".join(capsys.readouterr().out.split())
    assert "--contrast_weight" in printed["distillation"] and "--contrast_weight" not in printed["info_nce"]
    assert all("objective NAME --help_all" in text and "--save_steps" in text for text in printed.values())
