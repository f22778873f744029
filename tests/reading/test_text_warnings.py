import inspect

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

import docsplit_hf
from docsplit_hf.reading.text_warnings import (
    read_fractions,
    sum_up_warnings,
    warn_of_cut_texts,
    warn_of_unfamiliar_texts,
)


def test_calls_are_summed_up_and_estimates_are_marked(caplog):
    with sum_up_warnings():
        warn_of_cut_texts([100, 10], read_fractions([100, 10], 62), limit=64)
        warn_of_cut_texts([90], read_fractions([90], 62), limit=64, estimated=True)
        assert not caplog.text
    assert [record.message for record in caplog.records] == [
        "2 of 3 texts are longer than 64 tokens: about 33.0 % of all tokens were cut off."
    ]


def test_nested_sums_are_logged_by_the_outer_one(caplog):
    with sum_up_warnings():
        for _ in range(2):
            with sum_up_warnings():
                warn_of_cut_texts([10, 90], np.array([1, 0.5]), 64, "characters", "Ask for more.", "tokens")
    assert [record.message for record in caplog.records] == [
        "2 of 4 texts are longer than 64 tokens: 45.0 % of all characters were cut off. Ask for more."
    ]


CHINESE = "暴雨袭击沿海地区，街道积水严重，居民被困，消防队员驾驶橡皮艇救援，预计明日降雨逐渐减弱，交通部门提醒慢行。"

DOCUMENTATION = [inspect.getdoc(getattr(np, name)) or "" for name in sorted(np.__all__)]  # some 500 English texts


@pytest.fixture(scope="module")
def english():
    """The tokenizer that ships, and a byte-level one, which has no unknown token."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(DOCUMENTATION, trainer)
    shipped = AutoTokenizer.from_pretrained(docsplit_hf.default_checkpoint())
    return {"shipped": shipped, "byte-level": PreTrainedTokenizerFast(tokenizer_object=backend)}


@pytest.mark.parametrize("name", ["shipped", "byte-level"])
@pytest.mark.parametrize(
    "text",
    [
        CHINESE,
        "Сегодня в городе прошёл сильный дождь, и многие улицы затоплены.",
        "Σήμερα στην πόλη έπεσε δυνατή βροχή και πολλοί δρόμοι πλημμύρισαν.",
        "هطلت اليوم أمطار غزيرة في المدينة وغمرت المياه العديد من الشوارع.",
        "今日は街で激しい雨が降り、多くの道路が冠水しました。住民は故障を報告しています。",
        "오늘 도시에 폭우가 내려 많은 거리가 침수되었습니다. 주민들은 고장을 신고하고 소방관들이 구조합니다.",
        "आज शहर में भारी बारिश हुई और कई सड़कें पानी में डूब गईं।",
    ],
)
def test_another_script_is_warned_of(english, name, text, caplog):
    warn_of_unfamiliar_texts([text], english[name])
    (record,) = caplog.records
    assert "unknown to the encoder's tokenizer" in record.message and "multilingual" in record.message


@pytest.mark.parametrize("name", ["shipped", "byte-level"])
@pytest.mark.parametrize(
    "texts",
    [
        ["The heavy rain flooded many streets of the city, and residents report power failures."],
        ["Great movie 😀😀🎉 loved it ❤️", "🤣🤣🤣"],
        [
            "Łukasz and Дмитрий met 小明 in Saint-Étienne, where heavy rain had flooded many of the streets. "
            "Residents had to wait for hours until the power returned."
        ],
        ["3.14159 26535 89793", ""],
        ["привет"],
        [],
    ],
)
def test_english_emojis_names_and_numbers_are_not_warned_of(english, name, texts, caplog):
    warn_of_unfamiliar_texts(texts, english[name])
    assert not caplog.text


@pytest.fixture(scope="module")
def chinese():
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=100, special_tokens=["[UNK]"], show_progress=False)
    backend.train_from_iterator([CHINESE], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")


def test_tokenizers_of_the_language_or_of_characters_are_not_warned_of(english, chinese, caplog):
    warn_of_unfamiliar_texts([CHINESE], chinese)
    for tokenizer in english.values():
        warn_of_unfamiliar_texts(DOCUMENTATION, tokenizer)
    for text in ("The heavy rain flooded many streets of the city.", CHINESE):
        warn_of_unfamiliar_texts([text], ByT5Tokenizer())
    assert not caplog.text


def test_unfamiliar_words_are_logged_once_with_an_example(english, caplog):
    with sum_up_warnings():
        for _ in range(3):
            warn_of_unfamiliar_texts([CHINESE, "rain"], english["shipped"])
    (record,) = caplog.records
    assert any(repr(part[:40]) in record.message for part in CHINESE[:-1].split("，"))
