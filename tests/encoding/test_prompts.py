"""Prompts of published checkpoints, compared with sentence-transformers on a small checkpoint of each architecture."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    Gemma3TextConfig,
    Gemma3TextModel,
    GemmaTokenizer,
    ModernBertConfig,
    ModernBertModel,
    NomicBertConfig,
    NomicBertModel,
    Qwen2Tokenizer,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizer,
    pipeline,
)

from docsplit_hf import DocumentEncoder, KNNClassifier
from docsplit_hf.evaluation.systems import load_system

PROMPTS = {"query": "task: search result | query: ", "document": "", "Classification": "task: classification | query: "}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
DECODER = SMALL | {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128}
WINDOWED = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
OWN_MODULE = "custom_st.Transformer"
ALL_TEXTS = [" leading space", "", "plum", "(in brackets) and “quoted”", "one two three " * 40]


def trained(tokenizer, texts):
    """A tokenizer of the same kind that was trained on texts."""
    return tokenizer.train_new_from_iterator([*texts, *PROMPTS.values(), *ALL_TEXTS], 400, show_progress=False)


def bert(texts):
    tokenizer = trained(BertTokenizer(), texts)
    return BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **SMALL)), tokenizer


def xlm_r(texts):
    tokenizer = trained(XLMRobertaTokenizer(), texts)
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=130, pad_token_id=1, **SMALL)
    return XLMRobertaModel(config), tokenizer


def with_template(tokenizer, template, **special):
    """A tokenizer that puts special tokens around a text, and pads with the first of them."""
    tokenizer.add_special_tokens(special)
    tokens = [(token, tokenizer.convert_tokens_to_ids(token)) for token in special.values()]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=tokens)
    return tokenizer


def modern_bert(texts):
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = with_template(trained(Qwen2Tokenizer(), texts), "[CLS] $A [SEP]", **special)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=128,
        local_attention=16,
        pad_token_id=ids["pad_token"],
        bos_token_id=ids["cls_token"],
        eos_token_id=ids["sep_token"],
        **SMALL,
    )
    return ModernBertModel(config), tokenizer


def gemma(texts):
    tokenizer = with_template(trained(GemmaTokenizer(), texts), "<bos> $A <eos>", bos_token="<bos>", eos_token="<eos>")
    config = Gemma3TextConfig(
        vocab_size=len(tokenizer), use_bidirectional_attention=True, pad_token_id=0, **DECODER, **WINDOWED
    )
    return Gemma3TextModel(config), tokenizer


def qwen(texts):
    end = "<|endoftext|>"
    tokenizer = with_template(trained(Qwen2Tokenizer(), texts), f"$A {end}", eos_token=end)
    tokenizer.padding_side = "left"
    return Qwen3Model(Qwen3Config(vocab_size=len(tokenizer), **DECODER)), tokenizer


def nomic_bert(texts):
    tokenizer = trained(BertTokenizer(), texts)
    return NomicBertModel(NomicBertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **SMALL)), tokenizer


def dense_layers():
    """The layers of EmbeddingGemma, and an activation."""
    return [Dense(32, 48, bias=False, activation_function=torch.nn.Identity()), Dense(48, 24)]


CHECKPOINTS = {
    "bert": (bert, {"pooling_mode": "mean"}, []),
    "bert, first token": (bert, {"pooling_mode": "cls", "include_prompt": False}, []),
    "xlm_r": (xlm_r, {"pooling_mode": "mean"}, []),
    "modern_bert": (modern_bert, {"pooling_mode": "cls"}, []),
    "gemma": (gemma, {"pooling_mode": "mean"}, dense_layers),
    "gemma, without the prompt": (gemma, {"pooling_mode": "mean", "include_prompt": False}, dense_layers),
    "qwen": (qwen, {"pooling_mode": "lasttoken"}, []),
    "qwen, without the prompt": (qwen, {"pooling_mode": "mean", "include_prompt": False}, []),
    "nomic_bert": (nomic_bert, {"pooling_mode": "mean"}, []),
}


@pytest.fixture
def publish(tmp_path, texts):
    """A function that saves a checkpoint by sentence-transformers, and returns it with its folder."""

    def publish(make, pooling, dense=(), prompts=PROMPTS, default=None, max_length=64):
        torch.manual_seed(0)
        model, tokenizer = make(texts)
        with torch.no_grad():
            for weight in filter(lambda parameter: parameter.ndim > 1, model.parameters()):
                weight.normal_(std=0.3)  # the states of untrained models hardly depend on the text
        model.save_pretrained(tmp_path / "stock")
        tokenizer.save_pretrained(tmp_path / "stock")
        transformer = Transformer(str(tmp_path / "stock"), max_seq_length=max_length)
        modules = [transformer, Pooling(32, **pooling), *(dense() if dense else []), Normalize()]
        reference = SentenceTransformer(modules=modules, device="cpu", prompts=prompts, default_prompt_name=default)
        reference.save_pretrained(str(tmp_path / "published"))
        return reference, str(tmp_path / "published")

    return publish


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_embeddings_are_those_of_sentence_transformers(publish, texts, name):
    make, pooling, dense = CHECKPOINTS[name]
    reference, folder = publish(make, pooling, dense)
    texts = [*ALL_TEXTS, *texts[:3]]
    expected = reference.encode(texts, prompt_name="Classification")
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    assert (encoder.prompt, encoder.max_length) == (PROMPTS["Classification"], 64)
    assert encoder.encode(texts, show_progress=False) == pytest.approx(expected, abs=1e-5)
    padded = DocumentEncoder.from_pretrained(folder, device="cpu", packing="off", prompt_name="query")
    queries = reference.encode(texts, prompt_name="query")
    assert padded.encode(texts, show_progress=False) == pytest.approx(queries, abs=1e-5)
    assert np.abs(queries - expected).max() > 1e-2
    short = reference.encode(texts, prompt_name="query", truncate_dim=10, normalize_embeddings=True)
    assert padded.encode(texts, show_progress=False, truncate_dim=10) == pytest.approx(short, abs=1e-5)
    pipe = pipeline("docsplit-knn", model=folder, device="cpu", long_documents="first")
    assert pipe.embedder.embed(texts).retrieval_embeddings == pytest.approx(expected, abs=1e-5)


def test_a_saved_classifier_keeps_its_prompt(publish, texts, tmp_path):
    reference, folder = publish(bert, {"pooling_mode": "mean"})
    pipe = pipeline("docsplit-knn", model=folder, device="cpu", prompt="topic: ")
    pipe.add_examples(texts[:6], ["a", "b"] * 3)
    pipe.save_pretrained(tmp_path / "saved")
    loaded = pipeline("docsplit-knn", model=str(tmp_path / "saved"), device="cpu")
    assert loaded.model.config.prompt == "topic: "
    expected = reference.encode(texts[:3], prompt="topic: ")
    assert loaded.embedder.embed(texts[:3]).retrieval_embeddings == pytest.approx(expected, abs=1e-5)
    assert DocumentEncoder.from_pretrained(str(tmp_path / "saved"), pooling="mean").prompt == "topic: "
    with pytest.raises(ValueError, match="prompt='': the texts of the datastore were embedded with 'topic: '"):
        pipeline("docsplit-knn", model=str(tmp_path / "saved"), device="cpu", prompt="")
    with pytest.raises(ValueError, match="another encoder"):  # its probe has another prompt
        pipeline("docsplit-knn", model=folder, device="cpu", datastore=pipe.datastore)


def test_one_prompt_is_chosen_and_logged(publish, caplog):
    _, folder = publish(bert, {"pooling_mode": "mean"})

    def chosen(prompts, default=None, **options):
        caplog.clear()
        content = {"prompts": prompts, "default_prompt_name": default}
        Path(folder, "config_sentence_transformers.json").write_text(json.dumps(content))
        with caplog.at_level(logging.INFO, logger="docsplit_hf"):
            return DocumentEncoder.from_pretrained(folder, device="cpu", **options).prompt

    assert chosen(PROMPTS) == PROMPTS["Classification"]
    assert "reads its prompt 'Classification' before each text: 'task: classification | query: '" in caplog.text
    assert chosen(PROMPTS, default="query") == PROMPTS["Classification"]
    assert chosen({"query": "query: "}, default="query") == "query: "
    assert chosen({"query": "query: ", "document": None}) == ""
    assert "has the prompts query, none of them for classification or by default" in caplog.text
    assert chosen({"query": "", "document": ""}) == chosen({}) == "" and "prompt" not in caplog.text
    assert chosen(PROMPTS, prompt_name="document") == chosen(PROMPTS, prompt="") == ""
    assert chosen(PROMPTS, prompt="mine: ") == "mine: "
    with pytest.raises(ValueError, match="has no prompt 'quary'. It has 'query', 'document', 'Classification'"):
        chosen(PROMPTS, prompt_name="quary")
    with pytest.raises(ValueError, match="prompt='' and prompt_name='query' are given"):
        chosen(PROMPTS, prompt="", prompt_name="query")
    for damaged, default in (({"query": 1}, None), (["query"], None), (PROMPTS, "other"), (PROMPTS, ["query"])):
        with pytest.raises(ValueError, match="Repair it"):
            chosen(damaged, default)


def test_released_checkpoints_without_a_stated_prompt_get_their_authors(publish, tmp_path, caplog):
    _, folder = publish(bert, {"pooling_mode": "mean"}, prompts={})
    released = tmp_path / "multilingual-e5-small"
    (tmp_path / "published").rename(released)
    assert DocumentEncoder.from_pretrained(str(released), device="cpu").prompt == "query: "
    assert "states no prompt. It reads 'query: ' before each text, as its authors do" in caplog.text


def test_a_prompt_changes_the_fingerprint(publish):
    _, folder = publish(bert, {"pooling_mode": "mean"})
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    known = [encoder.fingerprint]
    for prompt, include_prompt in (("", True), ("query: ", True), ("query: ", False)):
        encoder.prompt = prompt
        encoder.include_prompt = include_prompt
        known.append(encoder.fingerprint)
    assert len(set(known)) == 4


def test_encoders_to_compare_and_to_train_have_the_prompt(publish, texts):
    reference, folder = publish(bert, {"pooling_mode": "mean"})
    assert load_system(f"{folder}#prompt_name=query").encoder.prompt == PROMPTS["query"]
    assert load_system(f"{folder}#prompt=mine:").encoder.prompt == "mine:"
    model = KNNClassifier.from_encoder(folder, num_labels=2)
    assert (model.config.prompt, model.config.include_prompt) == (PROMPTS["Classification"], True)
    assert KNNClassifier.from_encoder(folder, num_labels=2, prompt_name="query").config.prompt == PROMPTS["query"]
    assert KNNClassifier.from_encoder(folder, num_labels=2, prompt="").config.prompt == ""


def test_code_of_a_checkpoint_is_not_run(publish, tmp_path):
    _, folder = publish(bert, {"pooling_mode": "mean"})
    modules = tmp_path / "published" / "modules.json"
    stated = modules.read_text()
    modules.write_text(
        stated.replace("sentence_transformers.base.modules.transformer.Transformer", "custom_st.Transformer")
    )
    assert "custom_st" in modules.read_text()
    with pytest.raises(ValueError, match=f"'{OWN_MODULE}', which is code in its repository"):
        DocumentEncoder.from_pretrained(folder)
    modules.write_text(stated)
    config = tmp_path / "published" / "config.json"
    content = json.loads(config.read_text()) | {"model_type": "own", "auto_map": {"AutoModel": "modeling_own.OwnModel"}}
    config.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="of the type 'own', which is code in its repository"):
        DocumentEncoder.from_pretrained(folder)
