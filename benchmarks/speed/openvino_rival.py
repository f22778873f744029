"""sentence-transformers with its own int8 by OpenVINO, run by inference.py in an environment of its own.

It needs optimum-intel, which requires an older transformers than docsplit_hf:

    python -m venv st-openvino
    st-openvino/bin/pip install torch sentence-transformers datasets "optimum-intel[openvino]"
    python -m benchmarks.speed.inference --openvino_python st-openvino/bin/python

If the installed torchvision does not fit the torch, uninstall it. Arguments: the folder of the checkpoint, the longest
input in tokens, threads, and a folder with the texts to embed (texts.json) and to calibrate on (train.jsonl). For each
line of its input it embeds the texts and prints the seconds.
"""

import json
import sys
import time
from pathlib import Path

from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer


def load(checkpoint: str, max_length: int, **options: object) -> SentenceTransformer:
    encoder = Transformer(checkpoint, max_seq_length=max_length, backend="openvino", model_kwargs=options)
    pooling = Pooling(encoder.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[encoder, pooling, Normalize()], device="cpu")


def main() -> None:
    checkpoint, max_length, threads, folder = sys.argv[1:]
    given = Path(folder)
    float32 = load(checkpoint, int(max_length), export=True)
    export_static_quantized_openvino_model(
        float32,
        None,
        checkpoint,
        dataset_name=str(given),
        dataset_config_name="default",
        dataset_split="train",
        column_name="text",
    )
    config = {"INFERENCE_NUM_THREADS": int(threads)}
    file_name = "openvino/openvino_model_qint8_quantized.xml"
    model = load(checkpoint, int(max_length), file_name=file_name, ov_config=config)
    texts = json.loads((given / "texts.json").read_text())
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
