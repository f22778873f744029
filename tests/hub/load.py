"""Load all that ``push.py`` pushed, by name and by revision, where docsplit_hf is installed and where it is not."""

import importlib.util
import os
from functools import partial

from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

HAS_DOCSPLIT = importlib.util.find_spec("docsplit_hf") is not None


def refused(load):
    try:
        load()
    except (ImportError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(texts, commits):
    answers = {"has docsplit_hf": HAS_DOCSPLIT}
    trusted_pipeline = partial(pipeline, trust_remote_code=True, device="cpu")
    if HAS_DOCSPLIT:
        from docsplit_hf import DocumentEncoder, KNNDatastore
    task = "docsplit-knn" if HAS_DOCSPLIT else "text-classification"
    secret_pipeline = partial(trusted_pipeline, task, model="me/secret")
    for token in ("hf_wrong", "hf_other", False):  # before the right one: all tokens get files of the cache
        answers[f"pipeline {token}"] = refused(partial(secret_pipeline, token=token))
    if HAS_DOCSPLIT:
        for token in ("hf_wrong", "hf_other", False):
            load_secret = partial(KNNDatastore.from_pretrained, "me/secret", token=token)
            answers[f"datastore {token}"] = refused(load_secret)
        for name in ("me/checkpoint", "me/adapter", "adapter"):
            answers[name] = DocumentEncoder.from_pretrained(name, device="cpu").encode(texts).tolist()
        for name in ("me/classifier", "second"):
            pipe = pipeline("docsplit-knn", model=name, device="cpu")
            answers[name] = pipe(texts, top_k=None, return_neighbors=4)
        answers["no datastore"] = refused(lambda: KNNDatastore.from_pretrained("me/checkpoint"))
        found = [KNNDatastore.from_pretrained("me/trained", revision) for revision in commits[1:]]
        answers["rows"] = [[len(store), store.documents and len(store.documents)] for store in found]
    else:
        model = AutoModelForSequenceClassification.from_pretrained("me/trained", trust_remote_code=True)
        answers["from_encoder"] = refused(lambda: model.from_encoder("any", 2))
    trained = trusted_pipeline("text-classification", model="me/trained")
    answers["trained"] = trained(texts, top_k=None, truncation=True, max_length=64)
    answers["AutoModel"] = type(AutoModel.from_pretrained("me/checkpoint")).__name__
    answers["SentenceTransformer"] = SentenceTransformer("me/checkpoint", device="cpu").encode(texts).tolist()
    if HAS_DOCSPLIT:
        answers["first"] = trusted_pipeline(task, model="me/classifier", revision=commits[0])(texts, top_k=None)
        os.environ["HF_TOKEN"] = "hf_right"  # for the datastore
        answers["secret"] = secret_pipeline(token="hf_right")(texts, top_k=None)
    return answers
