import pytest

from docsplit_hf import DocumentEncoder
from docsplit_hf.evaluation.encoders import EncoderWithOptions, load_encoder
from docsplit_hf.models.inference.endpoint import EndpointEncoder, split_name


def test_names_and_options():
    assert split_name("org/model#instruction=Represent: a = b#pooling=mean") == (
        "org/model",
        {"instruction": "Represent: a = b", "pooling": "mean"},
    )
    with pytest.raises(ValueError, match="'mean' is no option: write 'NAME#OPTION=VALUE'"):
        split_name("org/model#mean")
    with pytest.raises(ValueError, match="names no model"):
        split_name("https://api.openai.com/v1")


def test_a_folder_with_an_instruction_another_pooling_and_a_length(tiny_checkpoint, texts):
    encoder = load_encoder(f"{tiny_checkpoint}#instruction=The river:#pooling=mean", max_length=30)
    assert isinstance(encoder, DocumentEncoder)
    assert (encoder.pooling, encoder.instruction, encoder.max_length) == ("mean", "The river:", 30)
    with pytest.raises(ValueError, match="has the option 'pool'; known there are: instruction, pooling"):
        load_encoder(f"{tiny_checkpoint}#pool=mean")


def test_precision_and_long_documents_are_part_of_the_fingerprint(tiny_checkpoint, texts):
    name = str(tiny_checkpoint)
    plain, short = load_encoder(name), load_encoder(name, max_length=20)
    bf16, average = load_encoder(name, bf16=True), load_encoder(name, max_length=20, long_documents="average")
    assert load_encoder(name).fingerprint == plain.fingerprint
    assert len({encoder.fingerprint for encoder in (plain, short, bf16, average)}) == 4
    assert isinstance(bf16, EncoderWithOptions) and "bf16=True" in repr(bf16)
    long = [" ".join(texts)]
    assert abs(average.encode(long, show_progress=False) - short.encode(long, show_progress=False)).max() > 1e-3
    assert average.encode(long, show_progress=False) == pytest.approx(
        short.encode(long, show_progress=False, long_documents="average"), abs=1e-6
    )


def test_endpoints_by_address(caplog):
    name = "http://localhost:8000/v1#org/model#requests_per_minute=90#max_characters=100#key_variable=MY_KEY"
    encoder = load_encoder(name, max_length=512)
    assert isinstance(encoder, EndpointEncoder) and encoder.model == "org/model"
    assert (encoder.requests_per_minute, encoder.max_characters, encoder.key_variable) == (90, 100, "MY_KEY")
    assert "is an endpoint: max_length, bf16 and long_documents do not reach it" in caplog.text
    with pytest.raises(ValueError, match="max_characters must be a number, got 'many'"):
        load_encoder("http://localhost:8000/v1#model#max_characters=many")
    with pytest.raises(ValueError, match="has the option 'instruction'; known there are: model, key_variable"):
        load_encoder("http://localhost:8000/v1#model#instruction=Represent:")
