"""Windows of long texts, special tokens, batches."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import docsplit_hf
from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.tokenization import (
    TOKENIZER_CHARACTERS,
    beginning,
    check_texts,
    find_safe_cut_pattern,
    special_tokens_around,
    token_arrays,
    token_ids_and_spans,
    tokenizer_batches,
    windows,
)

CORPUS = [
    "The river feeds the valley. It's 3.14 don't they're naïve Straße, e\u0301clair",
    "река кормит долину. η κοιλάδα. 河流滋养山谷。他说：好！ 강이 계곡을 키운다. ﬁne ½ Å",
] * 20
CL100K = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _train(model, trainer, pre_tokenizer, normalizer=None):
    backend = Tokenizer(model)
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def _unigram(pre_tokenizer, normalizer=None):
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    return _train(models.Unigram(), trainer, pre_tokenizer, normalizer)


def _bpe(pre_tokenizer, normalizer=None):
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return _train(models.BPE(unk_token="<unk>"), trainer, pre_tokenizer, normalizer)


def _split(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


LLAMA = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
TOKENIZERS = {
    "shipped": lambda: AutoTokenizer.from_pretrained(docsplit_hf.default_checkpoint()),
    "byte-level": lambda: _bpe(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "byte-level with a space before": lambda: _bpe(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "cl100k": lambda: _bpe(_split(CL100K), normalizers.NFC()),
    "unigram": lambda: _unigram(
        pre_tokenizers.Metaspace(),
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
    ),
    "unigram, first": lambda: _unigram(pre_tokenizers.Metaspace(prepend_scheme="first"), normalizers.NFD()),
    "bigrams of words": lambda: _bpe(_split(r"\w+ \w+|.")),
    "llama": lambda: _bpe(None, LLAMA),
    "no pre-tokenizer": lambda: _unigram(None),
    "prepended and split": lambda: _bpe(pre_tokenizers.Split("▁", "merged_with_next"), LLAMA),
}
READ_WHOLE = ("llama", "no pre-tokenizer", "bigrams of words", "prepended and split")


@pytest.fixture(scope="module")
def trained():
    return {name: make() for name, make in TOKENIZERS.items()}


@pytest.fixture(scope="module")
def cuts(trained):
    return {name: find_safe_cut_pattern(tokenizer) for name, tokenizer in trained.items()}


def _ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


PARTS = [
    *["a", "river", "don't", "7", "ﬁ", "é", "e\u0301", "字", "文", "。", "，", ".", "?", "река", "हिन्दी", "글"],
    *["ア", "\uff9e", "\u0e33", "\u0301", "\u0d4e", "▁", "Ġ", "[MASK]", "<unk>", "😀", "\x00"],
    *[" ", " ", " ", "\n", "  ", "\t", "\r\n", "\u00a0", "\u200b", "\u3000"],
]
NASTY = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join)


@given(text=NASTY, size=st.integers(1, 20))
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_tokens_of_the_parts_are_those_of_the_whole(trained, cuts, name, text, size):
    tokenizer = trained[name]
    text = replace_lone_surrogates(text)
    parts = list(windows(text, cuts[name], size))
    assert "".join(parts) == text
    assert [i for part in parts for i in _ids(tokenizer, part)] == _ids(tokenizer, text)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_texts_are_cut_for_tokenizers_that_allow_it(cuts, name):
    parts = list(windows("river " * 9, cuts[name], 3))
    assert len(parts) == (1 if name in READ_WHOLE else 9)


def test_chinese_is_cut_where_each_character_is_a_word(cuts):
    assert len(list(windows("河流滋养山谷" * 9, cuts["shipped"], 6))) == 9
    for name in ("byte-level", "unigram"):
        assert len(list(windows("河流滋养山谷" * 9, cuts[name], 6))) == 1


@pytest.mark.parametrize(
    "token",
    [
        AddedToken("river feeds"),
        AddedToken("river", rstrip=True),
        AddedToken("river feeds", normalized=False),
        AddedToken("river", lstrip=True),
        AddedToken("字", single_word=True),
        AddedToken("  "),
    ],
)
def test_added_tokens_are_never_cut(token):
    tokenizer = TOKENIZERS["byte-level"]()
    tokenizer.add_tokens([token])
    text = "The river feeds the river  feeds 字文 字 the river\nfeeds" * 3
    parts = list(windows(text, find_safe_cut_pattern(tokenizer), 1))
    assert [i for part in parts for i in _ids(tokenizer, part)] == _ids(tokenizer, text)


@given(unit=NASTY.filter(bool), tokens=st.integers(0, 60))
@pytest.mark.parametrize("name", ["shipped", "byte-level", "unigram"])
def test_a_beginning_has_the_first_tokens_of_the_whole(trained, cuts, name, unit, tokens):
    tokenizer = trained[name]
    text = replace_lone_surrogates(unit) * (600 // len(unit) + 1)
    start = beginning(text, tokens, tokenizer, cuts[name], longest=100)
    found = _ids(tokenizer, start)
    whole = _ids(tokenizer, text)
    assert text.startswith(start) and found == whole[: len(found)]
    assert start == text or len(found) > tokens


def test_little_of_a_long_text_is_read(trained, cuts):
    tokenizer = trained["shipped"]
    cuts = cuts["shipped"]
    assert len(beginning("The river feeds the valley. " * 10_000, 100, tokenizer, cuts)) < 1000
    without_spaces = "x" * 100_000
    assert beginning(without_spaces, 100, tokenizer, cuts) == without_spaces
    blank = " \n" * 50_000
    assert beginning(blank, 100, tokenizer, cuts) == blank


@pytest.fixture(scope="module")
def with_added_tokens(trained):
    tokenizer = copy.deepcopy(trained["byte-level"])
    tokenizer.add_tokens([AddedToken("ri", lstrip=True), AddedToken("字", single_word=True)])
    tokenizer.add_tokens([AddedToken("[MASK]", rstrip=True)], special_tokens=True)
    return tokenizer


STATES = {
    "as loaded": lambda backend: None,
    "truncating": lambda backend: backend.enable_truncation(2),
    "padding": lambda backend: backend.enable_padding(length=50),
}


@given(texts=st.lists(NASTY | st.text(st.characters(exclude_categories=[]), max_size=9), min_size=1, max_size=4))
@pytest.mark.parametrize("name", [*TOKENIZERS, "with added tokens"])
def test_tokens_and_spans_are_those_of_the_tokenizer_in_each_state(trained, with_added_tokens, name, texts):
    tokenizer = with_added_tokens if name == "with added tokens" else trained[name]
    valid = [replace_lone_surrogates(text) for text in texts]
    is_split = tokenizer.split_special_tokens
    try:
        for splits in (False, True):
            tokenizer.split_special_tokens = splits
            expected = tokenizer(valid, add_special_tokens=False, return_offsets_mapping=True)
            spans_of = [[list(offset) for offset in offsets] for offsets in expected["offset_mapping"]]
            for set_state in [STATES["as loaded"]] if splits else STATES.values():
                set_state(tokenizer.backend_tokenizer)
                found = list(token_arrays(tokenizer, texts))
                assert [ids.tolist() for ids in found] == expected["input_ids"]
                assert all(ids.dtype == np.int32 for ids in found)
                set_state(tokenizer.backend_tokenizer)
                found = list(token_ids_and_spans(tokenizer, texts))
                assert [ids.tolist() for ids, _ in found] == expected["input_ids"]
                assert [spans.tolist() for _, spans in found] == spans_of
                assert all(ids.dtype == np.int32 and spans.shape[1:] == (2,) for ids, spans in found)
    finally:
        tokenizer.split_special_tokens = is_split


def token_ids(tokenizer, text):
    [ids] = token_arrays(tokenizer, [text])
    return ids.tolist()


def test_a_tokenizer_with_its_own_call_is_called():
    class Upper(PreTrainedTokenizerFast):
        def _encode_plus(self, text, **kwargs):
            return super()._encode_plus([one.upper() for one in text], **kwargs)

    plain = TOKENIZERS["byte-level"]()
    upper = Upper(tokenizer_object=plain.backend_tokenizer, unk_token="<unk>")
    assert token_ids(upper, "river") == token_ids(plain, "RIVER") != token_ids(plain, "river")


def test_the_settings_of_the_backend_are_only_read(trained):
    class Backend:
        truncation = None
        padding = None
        encode_special_tokens = False

        def __init__(self, backend):
            object.__setattr__(self, "backend", backend)

        def encode_batch_fast(self, texts, add_special_tokens):
            return self.backend.encode_batch_fast(texts, add_special_tokens=add_special_tokens)

        def __setattr__(self, name, value):
            raise AssertionError(f"{name} was set")

    tokenizer = copy.copy(trained["shipped"])
    expected = _ids(tokenizer, "The river.")
    tokenizer._tokenizer = Backend(tokenizer.backend_tokenizer)
    assert token_ids(tokenizer, "The river.") == expected


def test_bert_has_one_special_token_on_each_side(tokenizer):
    assert special_tokens_around(tokenizer) == ([tokenizer.cls_token_id], [tokenizer.sep_token_id])


def test_tokenizers_without_special_tokens_around_a_text():
    class Plain:
        def __call__(self, text, add_special_tokens):
            return {"input_ids": [7, 8]}

    class Rewriting:
        def __call__(self, text, add_special_tokens):
            return {"input_ids": [1, 8, 7, 2] if add_special_tokens else [7, 8]}

    assert special_tokens_around(Plain()) == ([], [])
    with pytest.raises(ValueError, match="Rewriting"):
        special_tokens_around(Rewriting())


@pytest.mark.parametrize(
    ("texts", "named"),
    [("a text", r"one string: pass \[text\]"), ({"text": "a"}, "got dict"), (5, "got int"), (None, "got NoneType"),
     (iter(["a text"]), "got list_iterator"), (["a text", float("nan")], "Text 1 is nan")],
)  # fmt: skip
def test_other_inputs_than_a_list_of_texts_are_refused(texts, named):
    with pytest.raises(TypeError, match=named):
        check_texts(texts)


def test_a_batch_for_the_tokenizer_is_bounded_by_texts_and_by_characters():
    assert [len(batch) for batch in tokenizer_batches(["a"] * 2001)] == [1000, 1000, 1]
    long = "a" * (TOKENIZER_CHARACTERS - 1)
    assert list(tokenizer_batches(iter(["a", long, "a", long * 2, "a"]))) == [["a", long], ["a"], [long * 2], ["a"]]
    assert list(tokenizer_batches([])) == []
