"""Make a trained checkpoint the one that ships: float16, and what loading needs, nothing else.

    python model_cards/ship_checkpoint.py output/study/docsplit-small-en --head_from output/study/start --max_length 512

It writes into the folder that docsplit_hf loads by default, and ends with an error if that is larger than 16 MB, or if
the embeddings are others than the checkpoint's. The card comes from write_cards.py.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from docsplit_hf import load_package_documentation
from docsplit_hf.models.checkpoints.default import DEFAULT_FOLDER
from docsplit_hf.models.half_precision import SETTINGS, save_in_half_precision

MOST_BYTES = 16_000_000
PACKAGES = ("accelerate",)  # whose documentation is embedded to compare


def save_with_head(source: Path, start: Path, folder: Path) -> None:
    """A checkpoint without a masked-LM head, with that of the checkpoint that its training began from."""
    vocabularies = [AutoTokenizer.from_pretrained(path).get_vocab() for path in (source, start)]
    if vocabularies[0] != vocabularies[1]:
        raise SystemExit(f"{start} has another vocabulary than {source}: its head predicts other words.")
    encoder, model = AutoModel.from_pretrained(source), AutoModelForMaskedLM.from_pretrained(start)
    weights = encoder.state_dict()
    model.base_model.load_state_dict({name: weights[name] for name in model.base_model.state_dict()})
    model.config.docsplit = encoder.config.docsplit
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", *SETTINGS):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("source", type=Path, help="The folder of the checkpoint, as run_pretrain.py leaves it.")
    add("--head_from", type=Path, help="A checkpoint whose masked-LM head is taken, where training did without one.")
    add("--max_length", type=int, help="How many tokens are read by default. Default: as many as in training.")
    add("--folder", type=Path, default=DEFAULT_FOLDER, help="Where to write. Default: into the package.")
    options = parser.parse_args()
    texts = load_package_documentation(PACKAGES, test_size=100)["test"]["text"][:]
    with tempfile.TemporaryDirectory() as whole:
        source = options.source
        if options.head_from is not None:
            source = Path(whole)
            save_with_head(options.source, options.head_from, source)
        least = save_in_half_precision(source, options.folder, texts, options.max_length)
    sizes = {path: path.stat().st_size for path in sorted(options.folder.rglob("*")) if path.is_file()}
    for path, size in sizes.items():
        print(f"{size:12,}  {path.relative_to(options.folder)}")
    total = sum(sizes.values())
    print(f"{total:12,}  bytes. Least cosine with the embeddings of {options.source}: {least:.6f}")
    if total > MOST_BYTES:
        raise SystemExit(f"{options.folder} is to have at most {MOST_BYTES:,} bytes: train a smaller model.")


if __name__ == "__main__":
    main()
