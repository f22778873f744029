"""What a user does, once, with whatever versions are installed: the test of the lower bounds in setup.cfg.

make test-lowest runs it in an environment of its own. It prints the versions, and ends with an error if a step fails.
"""

import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path

TOPICS = {
    "sport": ["The team won the game.", "The keeper saved a penalty.", "She ran the race in ten seconds."],
    "cooking": ["Bake the cake with butter.", "Season the soup with salt.", "Boil the potatoes in water."],
}


def classify(folder: Path) -> None:
    """Add examples and documents, ask, fit, save and load."""
    from transformers import pipeline

    import docsplit_hf

    pipe = pipeline("docsplit-knn", device="cpu")
    for topic, texts in TOPICS.items():
        numbered = [f"{text} This is number {number}." for text in texts for number in range(5)]
        pipe.add_examples(numbered, [topic] * len(numbered))
    pipe.add_documents([f"The goal of match {number} came late. " * 3 for number in range(40)])
    assert pipe("The striker scored a goal.")[0]["label"] == "sport"
    pipe.fit(show_progress=False)
    answer = pipe("Stir the sauce.", explain=True, return_neighbors=2, reject=0.5)
    pipe.audit(show_progress=False)
    pipe.save_pretrained(folder / "classifier")
    again = pipeline("docsplit-knn", model=str(folder / "classifier"), device="cpu")
    assert again("Stir the sauce.", explain=True, return_neighbors=2, reject=0.5) == answer
    datastore = docsplit_hf.KNNDatastore.from_pretrained(folder / "classifier")
    assert len(datastore) == 30
    datastore.reindex("IVF2,Flat", nprobe=2)
    scores = docsplit_hf.evaluate_pipeline(again, {"text": sum(TOPICS.values(), []), "label": ["sport", "cooking"] * 3})
    assert scores


def run_commands(folder: Path) -> None:
    """Two steps of pretraining, one epoch of training, answers to a file, embeddings of a file."""
    from docsplit_hf.__main__ import main

    documents = [" ".join(texts * 3) + f" Document {n}." for texts in TOPICS.values() for n in range(20)]
    rows = [
        {"text": f"{text} This is number {number}.", "label": label}
        for label, texts in TOPICS.items()
        for text in texts
        for number in range(6)
    ]
    for name, lines in (("documents", [{"text": text} for text in documents]), ("labeled", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "new.csv").write_text("text\n" + "".join(f"{row['text']}\n" for row in rows))
    pretrained = ["--use_cpu", "--max_steps=2", "--per_device_train_batch_size=8", "--max_length=64"]
    commands = {
        "pretrain": [f"--dataset_name={folder / 'documents.jsonl'}", f"--output_dir={folder / 'encoder'}", *pretrained],
        "train": [
            f"--model_name_or_path={folder / 'encoder'}",
            f"--dataset_name={folder / 'labeled.jsonl'}",
            f"--output_dir={folder / 'trained'}",
            "--num_train_epochs=1",
            "--use_cpu",
        ],
        "classify": [
            f"--model={folder / 'trained'}",
            f"--predict={folder / 'new.csv'}",
            f"--predict_output={folder / 'answers.parquet'}",
            "--use_cpu",
        ],
        "embed": [f"--dataset_name={folder / 'new.csv'}", f"--output={folder / 'embeddings.parquet'}"],
    }
    for command, options in commands.items():
        sys.argv = ["docsplit", command, *options]
        try:
            main()
        except SystemExit as end:
            assert not end.code, f"docsplit {command} ended with {end.code}"
    assert (folder / "answers.parquet").exists() and (folder / "embeddings.parquet").exists()


if __name__ == "__main__":
    names = sorted(line.split("==")[0] for line in Path(sys.argv[1]).read_text().split())
    sys.argv = sys.argv[:1]
    print(*(f"{name} {importlib.metadata.version(name)}" for name in [*names, "pyarrow"]), sep=", ")
    with tempfile.TemporaryDirectory() as place:
        classify(Path(place))
        run_commands(Path(place))
    print("All steps passed.")
