import pytest

from docsplit_hf.models.special_tokens import special_tokens_around


def test_bert(tokenizer):
    assert special_tokens_around(tokenizer) == ([tokenizer.cls_token_id], [tokenizer.sep_token_id])


def test_none_and_something_else():
    class Plain:
        def __call__(self, text, add_special_tokens):
            return {"input_ids": [7, 8]}

    class Rewriting:
        def __call__(self, text, add_special_tokens):
            return {"input_ids": [1, 8, 7, 2] if add_special_tokens else [7, 8]}

    assert special_tokens_around(Plain()) == ([], [])
    with pytest.raises(ValueError, match="Rewriting"):
        special_tokens_around(Rewriting())
