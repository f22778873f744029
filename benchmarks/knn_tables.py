"""The tables of Liang et al. 2023 on any tasks: the nine rows, the retrieval vectors, and the sweep over k and T.

    python benchmarks/knn_tables.py --model_name_or_path FacebookAI/roberta-large --tasks CoLA MRPC
    python benchmarks/knn_tables.py --model_name_or_path output/pretrain --tasks my_folder --tables ablation sweep

A task is one of the paper's by name, or a folder of jsonl files with train and test. Each row is a run of
examples/run_classification.py in a process of its own; what comes after ``--`` goes to each of them. A run that is
complete is not repeated, so the same command goes on where it was interrupted.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from docsplit_hf.training.markdown import table

SCRIPT = Path(__file__).parents[1] / "examples" / "run_classification.py"
SYSTEMS = {
    "base": ("--decouple", "False", "--triplet_weight", "0"),
    "+ triplet loss": ("--decouple", "False"),
    "+ triplet loss + decoupling": (),
}
PARTS = {"classifier": "", "knn": ", neighbors only", "mixture": ", mixed"}
VECTORS = {pooling: ("--retrieval_pooling", pooling) for pooling in ("cls", "mean", "max")}
NEIGHBORS = (1, 2, 4, 8, 16, 32, 64, 128)
SCALES = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)  # of the calibrated temperature


def run(options: argparse.Namespace, task: str, name: str, arguments: tuple[str, ...]) -> dict[str, float]:
    """Train one classifier, unless it is there already, and give its metrics on the test set."""
    folder = Path(options.output_dir, Path(task).name, name.replace(" ", "_"))
    if not (folder / "metrics.json").exists():
        command = [sys.executable, str(SCRIPT), f"--model_name_or_path={options.model_name_or_path}"]
        command += [f"--task_name={task}", f"--output_dir={folder}", "--overwrite_output_dir"]
        subprocess.run([*command, *arguments, *options.run_arguments], check=True)
    return json.loads((folder / "metrics.json").read_text())["test"]


def ablation(options: argparse.Namespace) -> str:
    """Table 1: three systems, each by classifier, by neighbors, and mixed as calibrated on held-out examples."""
    results = {
        system: [run(options, task, system, arguments) for task in options.tasks]
        for system, arguments in SYSTEMS.items()
    }
    rows = []
    for system, metrics in results.items():
        for part, title in PARTS.items():
            cells = [
                f"{100 * m[f'test_{part}_accuracy']:.1f} / {100 * m[f'test_{part}_macro_f1']:.1f}" for m in metrics
            ]
            rows.append((f"{system}{title}", *cells))
    return table(("accuracy / macro F1, %", *names(options)), rows)


def vectors(options: argparse.Namespace) -> str:
    """Table 2: what the retrieval embedding is made from, mixed."""
    rows = []
    for pooling, arguments in VECTORS.items():
        metrics = [run(options, task, f"vector {pooling}", arguments) for task in options.tasks]
        cells = [f"{100 * m['test_knn_accuracy']:.1f} / {100 * m['test_mixture_accuracy']:.1f}" for m in metrics]
        rows.append((pooling, *cells))
    return table(("accuracy of neighbors / mixed, %", *names(options)), rows)


def sweep(options: argparse.Namespace) -> str:
    """Figure 2: accuracy over the number of neighbors and the temperature, on the test set, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from transformers import AutoTokenizer

    from docsplit_hf import KNNClassifier, KNNDatastore
    from docsplit_hf.classification.evaluation import classification_metrics
    from docsplit_hf.models.inference.batched_inference import predict
    from docsplit_hf.neighbors.mixing.mixture import mix_with_neighbors
    from docsplit_hf.text.labels import label_array, texts_of
    from docsplit_hf.text.paper_tasks import load_task

    figure, axes = plt.subplots(2, len(options.tasks), figsize=(4 * len(options.tasks), 6), squeeze=False)
    for task, (by_k, by_temperature) in zip(options.tasks, axes.T, strict=True):
        run(options, task, "+ triplet loss + decoupling", ())
        folder = Path(options.output_dir, Path(task).name, "+_triplet_loss_+_decoupling")
        model, tokenizer = KNNClassifier.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        datastore, test = KNNDatastore.from_pretrained(folder), load_task(task)["test"]
        predictions = predict(model, tokenizer, *texts_of(test), show_progress=True)
        labels = label_array(test, datastore.label_names, datastore.multi_label)
        chosen = {"k": model.config.k, "temperature": model.config.knn_temperature, "weight": model.config.knn_weight}
        temperatures = [scale * chosen["temperature"] for scale in SCALES]
        for axis, name, values in ((by_k, "k", NEIGHBORS), (by_temperature, "temperature", temperatures)):
            for part in ("knn", "mixture"):
                accuracies = [
                    classification_metrics(
                        getattr(mix_with_neighbors(predictions, datastore, **{**chosen, name: value}), part), labels
                    )["accuracy"]
                    for value in values
                ]
                axis.plot(values, accuracies, marker="o", label={"knn": "neighbors only", "mixture": "mixed"}[part])
            axis.axvline(chosen[name], color="grey", linestyle=":", label="calibrated")
            axis.set(xscale="log", xlabel=name, ylabel="test accuracy", title=Path(task).name)
    axes[0, 0].legend()
    figure.tight_layout()
    picture = Path(options.output_dir, "sweep.png")
    figure.savefig(picture, dpi=120)
    return f"The sweep over k and temperature is in {picture}."


def names(options: argparse.Namespace) -> list[str]:
    return [Path(task).name for task in options.tasks]


TABLES = {"ablation": ablation, "vectors": vectors, "sweep": sweep}


def main() -> None:
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="The encoder of all systems.")
    parser.add_argument("--tasks", nargs="+", required=True, help="Names of the paper's tasks, or folders of jsonl.")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES), help="What to make.")
    parser.add_argument("--output_dir", default="output/tables", help="Where the classifiers and the picture go.")
    options = parser.parse_args(own)
    options.run_arguments = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    for name in options.tables:
        print(f"\n{TABLES[name].__doc__.splitlines()[0]}\n\n{TABLES[name](options)}")


if __name__ == "__main__":
    main()
