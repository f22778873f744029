from docsplit_hf.demo.views import pieces_of


def test_pieces_join_to_the_text_and_mark_whole_words_and_the_passage():
    text = "Star and stars.\nThe STAR (a C++ star) sets."
    pieces = pieces_of(text, ["star"], {"start": 16, "end": 30})
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, kind in pieces if kind == "word"] == ["Star", "STAR", "star"]
    assert "".join(piece for piece, kind in pieces if kind == "passage") == "The  (a C+"
    assert pieces_of(text, []) == [(text, None)]
    assert pieces_of("", ["star"]) == []


def test_pairs_of_characters_are_found_where_no_spaces_are():
    assert pieces_of("我喜歡音樂會。", ["音樂"]) == [("我喜歡", None), ("音樂", "word"), ("會。", None)]
