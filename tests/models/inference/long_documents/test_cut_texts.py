import numpy as np

from docsplit_hf.models.inference.long_documents.cut_texts import cut_texts_summed_up, shares_read, warn_of_cut_texts


def test_calls_are_summed_up_and_estimates_are_called_so(caplog):
    with cut_texts_summed_up():
        warn_of_cut_texts([100, 10], shares_read([100, 10], 62), limit=64)
        warn_of_cut_texts([90], shares_read([90], 62), limit=64, estimated=True)
        assert not caplog.text
    assert [record.message for record in caplog.records] == [
        "2 of 3 texts are longer than 64 tokens: about 33.0 % of all tokens were cut off."
    ]


def test_within_a_sum_another_is_part_of_it(caplog):
    with cut_texts_summed_up():
        for _ in range(2):
            with cut_texts_summed_up():
                warn_of_cut_texts([10, 90], np.array([1, 0.5]), 64, "characters", "Ask for more.", "tokens")
    assert [record.message for record in caplog.records] == [
        "2 of 4 texts are longer than 64 tokens: 45.0 % of all characters were cut off. Ask for more."
    ]
