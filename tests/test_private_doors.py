"""Private names of other libraries: each is used in one file, and is still there.

``DOORS`` is the whole list. A private name is public for us where its library tells users to override or call it:
``DOCUMENTED``.
"""

import argparse
import ast
import importlib
import inspect
import pydoc
from pathlib import Path

import evaluate
import pytest
import torch
from sklearn import datasets
from transformers import (
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    TextClassificationPipeline,
    Trainer,
)

ROOT = Path(__file__).parents[1]
TRAINER, COMMAND_LINE = "training/base_trainer.py", "apps/cli/run_command.py"
OPTION_GROUP = type(argparse.ArgumentParser().add_argument_group())
PRECISION = "encoding/backends/precision.py"
CLASSIFIER, PACKING = "encoding/portable/modeling_knn_classifier.py", "encoding/portable/run_encoder.py"
FLASH, SOFTMAX = "encoding/portable/packed_attention.py", "encoding/portable/packed_attention.py"
CHECKPOINTS, RESUMING = "checkpoints are not saved as ours", "a run does not resume"
ANSWERS = "a file of answers does not know its options"

# The name, who has it, the only file of ours that uses it (in docsplit_hf), and what stops working without it.
DOORS = [
    ("_set_signature_columns_if_needed", Trainer, TRAINER, "the collator does not get its columns"),
    ("_signature_columns", Trainer, TRAINER, "the collator does not get its columns"),
    ("_issue_warnings_after_load", Trainer, TRAINER, "resuming warns of tied weights"),
    ("_prepare_for_training", Trainer, TRAINER, "FSDP shards no encoder whose embeddings are its output layer's"),
    ("_run_epoch", Trainer, TRAINER, "a finished run that is resumed does one step too many"),
    ("_save", Trainer, TRAINER, CHECKPOINTS),
    ("_save_checkpoint", Trainer, TRAINER, CHECKPOINTS),
    ("_get_output_dir", Trainer, TRAINER, CHECKPOINTS),
    ("_save_optimizer_and_scheduler", Trainer, TRAINER, RESUMING),
    ("_load_from_checkpoint", Trainer, TRAINER, RESUMING),
    ("_load_best_model", Trainer, TRAINER, "the model card does not name the best step"),
    ("_prepare_inputs", Trainer, TRAINER, "batches stay on the CPU"),
    (
        "_keys_to_ignore_on_save",
        PreTrainedModel,
        "encoding/checkpoints/checkpoint.py",
        "projection heads get into checkpoints",
    ),
    ("_attn_implementation", PretrainedConfig, PACKING, "no encoder runs without padding"),
    ("_can_set_attn_implementation", PreTrainedModel, PACKING, "no encoder runs without padding"),
    ("_supports_sdpa", PreTrainedModel, CLASSIFIER, "classifiers refuse sdpa attention"),
    ("_supports_flash_attn", PreTrainedModel, CLASSIFIER, "classifiers refuse flash attention"),
    ("_supports_flex_attn", PreTrainedModel, CLASSIFIER, "classifiers refuse flex attention"),
    ("_supports_attention_backend", PreTrainedModel, CLASSIFIER, "classifiers refuse attention functions"),
    ("_load_tokenizer", TextClassificationPipeline, "classifier/pipeline.py", "an endpoint needs a tokenizer"),
    ("_batch_size", TextClassificationPipeline, "classifier/pipeline.py", ANSWERS),
    ("_forward_params", TextClassificationPipeline, "classifier/pipeline.py", ANSWERS),
    ("_actions", argparse.ArgumentParser, COMMAND_LINE, "--help does not hide the Trainer's options"),
    ("_action_groups", argparse.ArgumentParser, COMMAND_LINE, "--help does not hide the Trainer's options"),
    ("_group_actions", OPTION_GROUP, COMMAND_LINE, "--help does not hide the Trainer's options"),
    ("_auto_class", PretrainedConfig, "encoding/backends/endpoint_classifier.py", "a folder gets a file of no use"),
    (
        "_linear_pointwise",
        torch.ops.mkldnn,
        "encoding/backends/precision.py",
        "embedding is slower on a CPU of AMD",
    ),
    ("_build_data_dir", evaluate.Metric, "metrics/registry.py", "an evaluation needs a cache to write to"),
    ("_flash_attention_forward", torch.ops.aten, FLASH, "packed attention on a GPU fails"),
    ("_dynamo", torch, "encoding/compiled_layers.py", "some compiled layers run as if they were not"),
    ("_tqdm", "gradio.helpers.TrackedIterable", "apps/page/progress.py", "the page's bars show 1438 %"),
    ("_encode_plus", PreTrainedTokenizerFast, "reading/tokenization.py", "tokenizing is slower"),
    ("_softmax_backward_data", torch.ops.aten, SOFTMAX, "packed training in 16 bits on a CPU fails"),
    ("_twenty_newsgroups", datasets, "experiments/tasks/known_tasks.py", "20News keeps headers and quotations"),
]

DOCUMENTED = {
    "_sanitize_parameters",  # and _forward: huggingface.co/docs/transformers/add_new_pipeline
    "_forward",
    "_compute",  # and _info: huggingface.co/docs/evaluate/creating_and_sharing
    "_info",
    "_replace",  # and _make, _asdict, _fields: docs.python.org, collections.namedtuple
    "_make",
    "_asdict",
    "_fields",
    "_exit",  # docs.python.org, os
}


@pytest.mark.parametrize("name, owner, file, loss", DOORS, ids=[door[0] for door in DOORS])
def test_a_private_name_is_still_there(name, owner, file, loss):
    if isinstance(owner, str):  # takes seconds to import, in each process that collects the tests
        owner = pydoc.locate(owner)
    # Some are attributes that the class has no default for, which its methods tell.
    is_there = hasattr(owner, name) or (inspect.isclass(owner) and name in _private_names_of(owner))
    where = getattr(owner, "__qualname__", getattr(owner, "__name__", owner))
    assert is_there, (
        f"{where} has no {name} any more, which docsplit_hf/{file} uses. Without it {loss}. Look for what replaced it "
        "in the new version, or require the old one in setup.cfg."
    )


def test_private_functions_of_scikit_learn_are_still_there():
    from sklearn.datasets import _twenty_newsgroups as rules

    for part in ("header", "footer", "quoting"):
        assert hasattr(rules, f"strip_newsgroup_{part}"), f"sklearn.datasets._twenty_newsgroups cannot strip {part}s."


def test_no_other_private_name_is_used():
    files = {name: file for name, _, file, _ in DOORS}
    used = sorted({use for folder in ("docsplit_hf", "examples", "experiments") for use in _used_private_names(folder)})
    wrong = [
        f"{file}:{line}: {name}, " + (f"which belongs in docsplit_hf/{files[name]}" if name in files else "a new one")
        for name, file, line in used
        if file not in (f"docsplit_hf/{files.get(name)}", files.get(name)) and name not in DOCUMENTED
    ]
    assert not wrong, (
        "Private names of other libraries are used. Find a public way; or use the name in one file, with a comment, "
        "and add it to DOORS:\n" + "\n".join(wrong)
    )
    unused = files.keys() - {name for name, *_ in used}
    assert not unused, f"No file uses {sorted(unused)} any more: take them out of DOORS."


def _used_private_names(folder):
    """Name, file and line of private names that none of our files defines, or that override those of a base class."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))}
    own = {name for tree in trees.values() for node in ast.walk(tree) for name in _defined(node)}
    own -= {name for name, *_ in DOORS}  # overriding them does not make them ours
    for path, tree in trees.items():
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            yield from ((name, file, node.lineno) for name in _used(node) if _is_private(name) and name not in own)
            if isinstance(node, ast.ClassDef) and node.bases and folder == "docsplit_hf":  # examples are no package
                theirs = _names_of_bases(file, node.name)
                for part in ast.walk(node):
                    names = {*_defined(part), *_used(part)} & theirs
                    yield from ((name, file, part.lineno) for name in names)


def _defined(node):
    """What we define: functions, classes, variables, and attributes of self."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
        yield node.attr


def _used(node):
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield from node.name.split(".")
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "delattr"):
        yield from (part.value for part in node.args[1:2] if isinstance(part, ast.Constant))


def _is_private(name):
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _names_of_bases(file, class_name):
    """The private names of those classes that are not ours."""
    module = importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    own_class = getattr(module, class_name, None)  # None: defined inside a function
    bases = own_class.__mro__[1:] if own_class else ()
    theirs = [base for base in bases if base.__module__.split(".")[0] in ("transformers", "torch", "evaluate")]
    return {name for base in theirs for name in _private_names_of(base)}


def _private_names_of(owner):
    """What a class and its bases define, and which attributes their methods use."""
    members = [member for kind in owner.__mro__ for member in vars(kind).items()]
    methods = [inspect.unwrap(value) for _, value in members if inspect.isfunction(value)]
    names = {name for name, _ in members}.union(*(method.__code__.co_names for method in methods))
    return set(filter(_is_private, names))
