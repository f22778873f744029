import torch
from transformers import AutoModel, BertModel

from docsplit_hf import KNNClassifierPipeline


def test_a_datastore_given_to_a_plain_encoder_is_calibrated(untrained, tiny_config, tokenizer, texts):
    names = ["river" if "river" in text else "other" for text in texts]
    untrained.add_examples(texts, names)
    torch.manual_seed(0)
    again = KNNClassifierPipeline(BertModel(tiny_config), tokenizer, untrained.datastore, device="cpu")
    assert again(list(texts)) == untrained(list(texts))


def test_calibration_on_held_out_texts_is_kept(pipe, texts, tmp_path):
    held_out = [text + " again" for text in texts[:30]]
    labels = ["engine" if "river" in text else "river" for text in texts[:30]]
    calibration = pipe.calibrate(held_out, labels)
    pipe.save_pretrained(tmp_path)
    config = AutoModel.from_pretrained(tmp_path).config
    assert (config.k, config.knn_temperature, config.knn_weight) == calibration[:3]
    assert config.knn_calibration["source"] == "held-out examples"
