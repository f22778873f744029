"""Tests of encoders that OpenVINO computes in int8: near embeddings, exported once."""

import copy
import importlib.util
import shutil
import threading

import huggingface_hub.constants
import pytest
import torch

from docsplit_hf import DocumentEncoder, KNNClassifier, KNNClassifierPipeline
from docsplit_hf.content_hash import cache_folder
from docsplit_hf.encoding.backends.openvino import engine
from docsplit_hf.encoding.backends.openvino.quantize_int8 import openvino_core
from docsplit_hf.encoding.backends.precision import use_precision
from docsplit_hf.encoding.portable.run_encoder import engine_of

from ...end_to_end.forked import finish_script, start_script

openvino = pytest.importorskip("openvino", reason="The extra openvino is not installed.")
pytestmark = pytest.mark.slow  # an export and its quantization


@pytest.fixture(scope="module", autouse=True)
def cache(exported, tmp_path_factory):
    home = shutil.copytree(exported / "home", tmp_path_factory.mktemp("own") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface_hub.constants, "HF_HOME", str(home))
        yield cache_folder("openvino")


@pytest.fixture
def convert_at_once(cache, load, tmp_path, monkeypatch):
    """Converting and quantizing, which take seconds, give what was made before."""
    export = cache / engine_of(load().model).key
    model = openvino_core().read_model(shutil.copytree(export, tmp_path / "converted") / "model.xml")
    monkeypatch.setattr(engine, "convert", lambda encoder: model)
    monkeypatch.setattr(engine, "quantize", lambda model, rows, seven_bits: model)


@pytest.fixture(scope="module")
def checkpoint(exported):
    return exported / "checkpoint"


@pytest.fixture(scope="module")
def load(checkpoint, texts):
    def load(precision="int8", **options):
        if precision == "int8":
            options = {"calibration_texts": texts[:40]} | options
        return DocumentEncoder.from_pretrained(checkpoint, "mean", precision=precision, **options)

    return load


@pytest.fixture(scope="module")
def exact(load, texts):
    return load("float32").encode(texts, show_progress=False)


def test_embeddings_are_near_for_any_batches_and_lengths_and_equal_in_threads(load, texts):
    encoder = load()
    expected = encoder.encode(texts, show_progress=False)
    for options in ({"batch_size": 1}, {"max_tokens_per_batch": 99}):
        assert encoder.encode(texts, show_progress=False, **options) == pytest.approx(expected, abs=0.02)
    odd = ["", "river", "garden " * 500]
    by_torch = load("float32").encode_passages(odd, show_progress=False)
    found_odd = encoder.encode_passages(odd, show_progress=False)
    assert ((found_odd.embeddings * by_torch.embeddings).sum(1) > 0.9).all()
    found = {}  # a request at a time would mix up what threads ask
    jobs = [
        threading.Thread(target=lambda i=i: found.update({i: encoder.encode(texts[i:], show_progress=False)}))
        for i in range(6)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert all(rows == pytest.approx(expected[i:], abs=0.02) for i, rows in found.items()) and len(found) == 6


def test_int8_and_bfloat16_are_near_torch_and_have_other_fingerprints(load, texts, exact, exported):
    encoders = [load(), load("bfloat16"), load("float32")]
    log = (exported / "log").read_text()
    assert "Quantizing BertModel on 40 texts of calibration_texts, drawn with seed 0" in log
    assert "Cosine to torch's float32 of 32 texts" in log
    for encoder, least in zip(encoders[:2], (0.9, 0.999), strict=True):
        cosines = (encoder.encode(texts, show_progress=False) * exact).sum(1)
        assert least < cosines.min() and cosines.min() < 0.9999999
    assert len({encoder.fingerprint for encoder in encoders}) == 3


def test_an_export_is_cached(convert_at_once, load, texts, monkeypatch):
    encoder = load()
    first = encoder.encode(texts, show_progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "convert", None)  # it cannot be exported now
        kept = load()
        assert (kept.encode(texts, show_progress=False) == first).all()
        use_precision(kept.model.train(), kept.tokenizer, "mean", "int8", texts[:40])
        assert not kept.model.training  # also where nothing had to be exported


def test_processors_without_vnni_have_exports_of_their_own_and_one_warning(convert_at_once, load, monkeypatch, caplog):
    engine.warn_of_slow_int8.cache_clear()
    keys = set()
    for overflows, is_warned in ((False, False), (True, True), (True, False)):
        monkeypatch.setattr(engine, "int8_overflows", lambda overflows=overflows: overflows)
        caplog.clear()
        keys.add(engine_of(load().model).key)
        assert ("no instructions for int8" in caplog.text) is is_warned
    assert len(keys) == 2


def test_weights_of_the_other_range_are_near_float32(load, texts, exact, monkeypatch):
    overflows_here = engine.int8_overflows()
    monkeypatch.setattr(engine, "int8_overflows", lambda: not overflows_here)
    cosines = (load().encode(texts, show_progress=False) * exact).sum(1)
    assert cosines.min() > 0.9


def test_a_read_only_home_is_warned_of(convert_at_once, load, texts, exact, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "file"))
    assert ((load().encode(texts[:3], show_progress=False) * exact[:3]).sum(1) > 0.9).all()
    assert "could not be kept" in caplog.text


def test_copies_and_checkpoints_have_the_encoder_without_its_engine(load, texts, exact, tmp_path):
    encoder = load()
    twin = copy.deepcopy(encoder)
    assert twin.encode(texts, show_progress=False) == pytest.approx(exact, abs=1e-5)
    encoder.model.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    saved = DocumentEncoder.from_pretrained(tmp_path, "mean")
    assert saved.encode(texts, show_progress=False) == pytest.approx(exact, abs=1e-5)
    encoder.model.train()
    with pytest.raises(ValueError, match="a compiled copy, which cannot be trained"):
        encoder.encode(texts, show_progress=False)


def test_a_pipeline_runs_in_int8_with_pairs(convert_at_once, texts, load):
    tokenizer = load("float32").tokenizer
    settings = {"pooling": "mean", "decouple": False, "normalize": True}
    model = KNNClassifier.around(load("float32").model, 0, knn_weight=1.0, **settings)
    pairs = [{"text": text, "text_pair": other} for text, other in zip(texts[:8], texts[8:16], strict=True)]
    answers = []
    for precision in ("float32", "int8", None):  # None leaves it as it is
        if precision == "int8":
            use_precision(model.encoder, tokenizer, "mean", "int8", texts[:40])
        pipe = KNNClassifierPipeline(
            model=model, tokenizer=tokenizer, device="cpu", precision=None if precision == "int8" else precision
        )
        pipe.add_examples(texts[16:24], ["a", "b"] * 4)
        answers.append([answer["neighbors"][0]["distance"] for answer in pipe(pairs, k=4, return_neighbors=1)])
    assert answers[1] == pytest.approx(answers[0], abs=0.1) and answers[1] == answers[2] != answers[0]


def test_unsuitable_encoders_are_refused(convert_at_once, load, texts, tokenizer, monkeypatch):
    with pytest.raises(ValueError, match="load it with device='cpu' and dtype='float32'"):
        load(dtype="bfloat16")
    with pytest.raises(ValueError, match="bf16=True, but the encoder was loaded to run by OpenVINO in int8"):
        load().encode(texts, bf16=True)
    encoder = load("float32")
    with pytest.raises(ValueError, match="calibration_texts are empty"):
        use_precision(encoder.model, tokenizer, "mean", "int8", [" "])
    with torch.no_grad():
        encoder.model.embeddings.word_embeddings.weight.mul_(-1)  # what is converted has other weights
    with pytest.raises(ValueError, match="BertModel by OpenVINO in int8 gives other embeddings.*Give calib"):
        use_precision(encoder.model, tokenizer, "mean", "int8", texts[:40])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"openvino and nncf, which are not installed: pip install -e \"\.\[openvino\]"
    ):
        load()


AFTER_TWO_ENCODERS = """
import gc, os, signal, sys
from huggingface_hub import constants
from docsplit_hf import DocumentEncoder
constants.HF_HOME = sys.argv[2]
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
int8 = {"precision": "int8", "calibration_texts": sys.argv[3:]}
first, second = (DocumentEncoder.from_pretrained(sys.argv[1], "mean", **int8) for _ in range(2))
del first
gc.collect()
del second
gc.collect()
os.kill(os.getpid(), signal.SIGUSR1)
print("alive")
"""


def test_a_signal_after_two_encoders_have_ended_is_handled(server, checkpoint, cache, texts, tmp_path):
    """Of two cores of OpenVINO, the second would leave the process a freed stack for signals."""
    script = tmp_path / "script.py"
    log = tmp_path / "log"
    script.write_text(AFTER_TWO_ENCODERS)
    assert finish_script(start_script(script, checkpoint, cache.parents[1], *texts[:40], log=log), log).endswith(
        "handled\nalive\n"
    )
