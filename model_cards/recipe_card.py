"""The card of a recipe: a command, what it would cost, and what the papers report of such a model."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

from card_results import DERIVED, ESTIMATE, PAPER, ROOT, CardResults, read_command, stated_record, writing_run
from evaluation_index import evaluation_results
from huggingface_hub import ModelCardData
from recipes import Recipe
from training_cost import (
    FLOP_A_DIMENSION_AND_PAIR,
    FLOP_A_WEIGHT_AND_TOKEN,
    MASKED_SHARE,
    document_cost,
    encoder_shape,
)

from docsplit_hf.experiments.protocols.settings import PAPER_SHOTS
from docsplit_hf.experiments.records.results import ResultStore
from docsplit_hf.experiments.report.paper_results import CITATION, FEW_SHOT, FULL, PaperTable
from docsplit_hf.experiments.report.summary import summarize_records
from docsplit_hf.experiments.report.tables import table_by_system
from docsplit_hf.training.markdown import table

VIEW_LENGTHS = ROOT / "model_cards" / "view_lengths"
GPU, PEAK_TERAFLOP = "NVIDIA A100", 312  # bfloat16, dense, by its data sheet
PAPER_URL = "https://aclanthology.org/2023.findings-emnlp.945/"
PAPER_NAME = "DocSplit: Simple Contrastive Pretraining for Large Document Embeddings (the authors' own numbers)"
PAPER_TABLES: dict[str, PaperTable] = {"full": FULL, "few_shot": FEW_SHOT, "citation": CITATION}
DRAWS = 10  # of the few examples, in the papers


def recipe_results(recipe: Recipe) -> CardResults:
    """The numbers of a recipe's card: the papers', and the estimate.

    Args:
        recipe: The recipe.

    Returns:
        What stands in its ``results.json``.

    Raises:
        ValueError: If the command lacks what the estimate needs, or the lengths of its views were not measured.
    """
    measured = ResultStore(VIEW_LENGTHS)
    runs = [writing_run("nothing was run: the papers' own numbers and an estimate by arithmetic"), *measured.runs]
    return CardResults(runs, measured.tasks, [*_paper_records(recipe), *_cost_records(recipe, measured.records)])


def _paper_records(recipe: Recipe) -> list[dict[str, Any]]:
    records = []
    for protocol, paper in PAPER_TABLES.items():
        for system in (*recipe.paper_baselines, recipe.paper_system):
            if system not in paper.rows:  # None, and Contriever in the table of citations
                continue
            for task in paper.tasks:
                settings: dict[str, Any] = {"source": paper.source}
                if protocol == "few_shot":
                    settings |= {"shots": PAPER_SHOTS[task.lower()], "draws": DRAWS}
                metrics = {name: round(value / 100, 6) for name, value in paper.of(system, task).items()}
                records.append(stated_record(system, task, protocol, metrics, PAPER, settings))
    return records


def _cost_records(recipe: Recipe, measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    options = read_command(recipe.command)
    missing = [name for name in ("max_steps", "per_device_train_batch_size", "max_length") if not vars(options)[name]]
    if missing:
        raise ValueError(f"The command of {recipe.name} lacks {missing}: the estimate is computed from them.")
    batch = options.per_device_train_batch_size * options.processes
    wanted = {"max_length": options.max_length, "batch": batch, "padded_to_multiples_of": 1 if recipe.packed else 512}
    lengths = [record for record in measured if record["settings"] == wanted]
    if not lengths:
        raise ValueError(
            f"The lengths of views of {wanted}, for {recipe.name}, were not measured: add them to SETTINGS in "
            "model_cards/measure_lengths.py and run it."
        )
    [speed] = [record for record in measured if record["protocol"] == "segmentation"]
    shape = encoder_shape(recipe.model_type, recipe.overrides)
    tokens, squared = lengths[0]["metrics"]["tokens"], lengths[0]["metrics"]["squared_tokens"]
    rows = tokens if recipe.packed else lengths[0]["metrics"]["padded_tokens"]
    cost = document_cost(shape, tokens, squared, rows)
    documents = options.max_steps * batch
    total = documents * sum(cost.values())
    seconds = total / (PEAK_TERAFLOP * 1e12 * recipe.utilization)
    numbers = {
        "steps": options.max_steps,
        "batch": batch,
        "documents": documents,
        "rows": rows,
        "tokens_read": 2 * rows,
        "million_weights": shape.weights / 1e6,
        "million_head_weights": shape.head_weights / 1e6,
        "hidden_size": shape.hidden_size,
        "layers": len(shape.windows),
        "products_gigaflop": cost["products"] / 1e9,
        "attention_gigaflop": cost["attention"] / 1e9,
        "head_gigaflop": cost["head"] / 1e9,
        "document_gigaflop": sum(cost.values()) / 1e9,
        "exaflop": total / 1e18,
        "hours": seconds / 3600,
        "days": seconds / 86400,
        "segmentation_hours": documents / speed["metrics"]["documents_per_second"] / 3600,
    }
    settings = {
        "gpu": GPU,
        "peak_teraflop_per_second": PEAK_TERAFLOP,
        "utilization": recipe.utilization,
        "operations_a_weight_and_token": FLOP_A_WEIGHT_AND_TOKEN,
        "operations_a_dimension_and_pair": FLOP_A_DIMENSION_AND_PAIR,
        "masked_share": MASKED_SHARE,
        "max_length": options.max_length,
    }
    records = [dict(lengths[0], run=1), dict(speed, run=1)]  # measured: as they are in view_lengths/results.json
    records.append(stated_record(recipe.name, "wikipedia", "cost", numbers, ESTIMATE, settings))
    if recipe.paper_days:
        stated = {"days": recipe.paper_days, "batch": recipe.paper_batch, "documents": 6_218_825}
        source = {"source": "DocSplit, section 4.1 and the ethics statement", "gpu": recipe.paper_gpu}
        records.append(stated_record(recipe.paper_system, "wikipedia", "paper_training", stated, PAPER, source))
        needed = {"teraflop_per_second": total / (recipe.paper_days * 86400) / 1e12}
        records.append(stated_record(recipe.name, "wikipedia", "rate_to_end_in_the_papers_time", needed, DERIVED))
    return records


def render_recipe(recipe: Recipe, results: CardResults) -> str:
    """The card of a recipe.

    Args:
        recipe: The recipe.
        results: Its numbers.

    Returns:
        Markdown with a YAML head.
    """
    template = string.Template((ROOT / "model_cards" / "templates" / "recipe.md").read_text(encoding="utf-8"))
    cost = results.of("cost")[0]
    return template.substitute(
        metadata=_metadata(recipe, results).to_yaml(),
        title=recipe.title,
        name=recipe.name,
        base_model=recipe.base_model,
        summary=string.Template(recipe.summary).substitute(max_length=f"{cost['settings']['max_length']:,}"),
        command=recipe.command,
        notes=recipe.notes,
        cost=_cost_table(recipe, results),
        cost_notes=_cost_notes(recipe, results),
        papers=_papers(recipe, results),
    )


def _metadata(recipe: Recipe, results: CardResults) -> ModelCardData:
    # Citation is left out: it is in SimDE only, which has no address.
    cells = [
        cell
        for cell in summarize_records(results.of("full") + results.of("few_shot"))
        if cell.system == recipe.paper_system
    ]
    return ModelCardData(
        language="en",
        license="apache-2.0",
        library_name="sentence-transformers",
        pipeline_tag="feature-extraction",
        base_model=recipe.base_model,
        datasets=["wikimedia/wikipedia"],
        tags=["docsplit", "document-embeddings", "contrastive-pretraining", "feature-extraction", "recipe"],
        model_name=f"{recipe.paper_system}: the papers' model and numbers, not trained from this recipe",
        eval_results=evaluation_results(cells, PAPER_NAME, PAPER_URL) or None,
    )


def _cost_table(recipe: Recipe, results: CardResults) -> str:
    lengths, speed = results.of("view_lengths")[0], results.of("segmentation")[0]
    numbers, settings = results.metrics("cost"), results.of("cost")[0]["settings"]
    tokens = lengths["metrics"]["tokens"]
    weight, pair = settings["operations_a_weight_and_token"], settings["operations_a_dimension_and_pair"]
    rows = [
        ("Documents", "steps x batch", f"{numbers['steps']:,} x {numbers['batch']} = {numbers['documents']:,}"),
        ("Tokens of the two halves of a document", "measured, see below", f"{tokens:,.0f}"),
    ]
    if not recipe.packed:
        rows.append(("The same with padding", "measured, see below", f"{numbers['rows']:,.0f}"))
    rows += [
        ("Tokens through the encoder", "the halves and their masked copies", f"{numbers['tokens_read']:,.0f}"),
        (
            "Matrix products",
            f"{weight} FLOP x {numbers['million_weights']:.1f} million weights x tokens",
            f"{numbers['products_gigaflop']:,.0f} GFLOP a document",
        ),
        (
            "Attention",
            f"{pair} FLOP x {numbers['hidden_size']} dimensions x pairs of tokens that see each other, in "
            f"{numbers['layers']} layers",
            f"{numbers['attention_gigaflop']:,.0f} GFLOP a document",
        ),
        (
            "MLM head",
            f"{weight} FLOP x {numbers['million_head_weights']:.1f} million weights x "
            f"{100 * settings['masked_share']:.0f} % of the tokens of the halves",
            f"{numbers['head_gigaflop']:,.0f} GFLOP a document",
        ),
        ("Together", "", f"{numbers['document_gigaflop']:,.0f} GFLOP a document"),
        ("The whole run", "x documents", f"{numbers['exaflop']:.1f} exaFLOP"),
        (
            f"One {settings['gpu']}",
            f"peak in bfloat16 x assumed utilization, {settings['peak_teraflop_per_second']} TFLOP/s x "
            f"{100 * settings['utilization']:.0f} %",
            _time(numbers),
        ),
        (
            "Before, on the CPU",
            f"sentences and tokens of {speed['metrics']['documents_per_second']:,.0f} documents a second and core, "
            "measured",
            f"{numbers['segmentation_hours']:,.0f} core hours",
        ),
    ]
    return table(("", "by", ""), rows)


def _time(numbers: Mapping[str, float]) -> str:
    if numbers["hours"] < 48:
        return f"**{numbers['hours']:,.0f} hours**"
    return f"**{numbers['hours']:,.0f} hours, or {numbers['days']:,.0f} days**"


def _cost_notes(recipe: Recipe, results: CardResults) -> str:
    lengths = results.of("view_lengths")[0]
    sample = results.tasks[lengths["task_fingerprint"]]
    text = (
        f"The lengths are means over {sample['test']:,} articles of English Wikipedia, of {sample['mean_words']:,.0f} "
        f"words on average, counted in {lengths['system']} ([measure_lengths.py](../measure_lengths.py)); "
        f"{100 * lengths['metrics']['cut']:.0f} % of their tokens are cut off. Wikipedia as a whole has shorter "
        "articles, so that the estimate is rather too high. The utilization is a guess, and evaluation and checkpoints "
        "are not in it."
    )
    if not recipe.paper_days:
        return text
    stated, needed = results.of("paper_training")[0], results.metrics("rate_to_end_in_the_papers_time")
    return text + (
        f"\n\nThe papers trained their model on {stated['metrics']['documents']:,} articles, "
        f"{stated['metrics']['batch']} a step, in {stated['metrics']['days']} days on {recipe.paper_gpu}. To do the "
        f"work above in that time, a GPU must sustain {needed['teraflop_per_second']:,.0f} TFLOP/s."
    )


def _papers(recipe: Recipe, results: CardResults) -> str:
    if recipe.paper_system is None:
        return "The papers have none: ModernBERT is younger. Nor have we: no run of this recipe has been evaluated."
    text = [
        f"As printed in the papers, of the model that they call {recipe.paper_system.replace('_', ' ')} "
        "and of those beside it, and **not measured with this package**. They measured on other sizes of data, splits "
        f"and machines than anyone who repeats them. [The paper]({PAPER_URL})."
    ]
    titles = {"full": "All training examples", "few_shot": "Few training examples", "citation": "Citation"}
    for protocol, paper in PAPER_TABLES.items():
        cells = summarize_records(results.of(protocol))
        shown = table_by_system(cells, paper.metrics, "std")
        text += [f"### {titles[protocol]}", shown, f"From {paper.source}. In %. {_note(protocol, cells)}".strip()]
    return "\n\n".join(text)


def _note(protocol: str, cells: Any) -> str:
    if protocol == "full":
        return "A probe on frozen embeddings; Acc is accuracy, F1 macro F1."
    if protocol == "citation":
        return "Whether one paper of the ACL Anthology cites the other."
    shots: dict[int, list[str]] = {}
    for cell in cells:
        if cell.task not in shots.setdefault(cell.settings["shots"], []):
            shots[cell.settings["shots"]].append(cell.task)
    parts = [f"{number} examples per class for {', '.join(tasks)}" for number, tasks in shots.items()]
    draws = math.prod({cell.settings["draws"] for cell in cells})
    return f"{' and '.join(parts)}; means of {draws} draws."
