import docsplit_hf


def test_every_public_name_is_there():
    for name in docsplit_hf.__all__:
        assert getattr(docsplit_hf, name).__doc__
    assert set(docsplit_hf.__all__) == set(docsplit_hf._MODULE_OF_NAME) <= set(dir(docsplit_hf))
