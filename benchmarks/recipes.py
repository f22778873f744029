"""Which commands make which records of docs/results anew, what they need, and about how many hours they take.

The hours are those of two cores, most of them estimated from the seconds in the records. In the commands, ``{sets}`` is
the output of benchmarks.quality.sets, ``{data}`` the folder of the data sets of docs/results/README.md, ``{clones}``
one of cloned repositories, and ``{output}`` has the same folders as docs/results. ``{tasks}`` stands for the data sets
of the record, ``{versions}`` for those of versions of one text and ``{others}`` for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Recipe(NamedTuple):
    """Records by their paths below docs/results, and the commands that make them with so many threads."""

    name: str
    records: Sequence[str]
    hours: float
    needs: str
    commands: Sequence[str]
    threads: int = 1


SETS = "the sets of benchmarks.quality.sets"
DATA = "the sets of docs/results/README.md"
FOUR = "{data}/20news {data}/bbc_news {data}/arxiv_abstracts {data}/fakenews_small"
TWELVE = (
    "{sets}/20news {sets}/arxiv_abstracts {sets}/banking77 {sets}/bbc_news {sets}/clinc150 {sets}/fakenews_small"
    " {sets}/glue_sst2 {sets}/ledgar_1000 {sets}/medical_abstracts {sets}/movie_sentences {sets}/reuters_r8"
    " {sets}/trec_coarse"
)
KEPT = "--embeddings {output}/embeddings"
RUN = "benchmarks.quality.few_labels.run"
COLLECT = f"benchmarks.quality.learned_prior.collect {KEPT}"
CUAD = f"benchmarks.quality.published.cuad measure --legalbench {{clones}}/legalbench {KEPT}"
CUAD += " --output {output}/contracts/cuad.jsonl"
CUAD += " --systems probe names 'names, own texts' 'names, other clauses'"
REJECTION = f"benchmarks.quality.rejection {KEPT}"

RECIPES = (
    # The table and the figures of README
    Recipe(
        "seventeen",
        ("few_labels/seventeen.jsonl.gz",),
        1.5,
        f"{SETS}; for the figures of README, coefficients that were learned without these sets",
        (
            f"{RUN} --tasks {{tasks}} --systems ours ours_without_documents ours_without_names probe tfidf"
            " --per_label 1 5 20 all --draws 3 --long_documents whole"
            f" --records {{output}}/few_labels/seventeen.jsonl {KEPT}",
            "benchmarks.quality.few_labels.report --records {output}/few_labels/seventeen.jsonl --per_label 1 5 20"
            " --out {output}/few_labels",
        ),
    ),
    Recipe(
        "cuad",
        ("contracts/cuad.jsonl",),
        3,
        "a clone of HazyResearch/legalbench; all-mpnet-base-v2",
        (
            CUAD,
            f"{CUAD} --name docsplit-small-en --model docsplit-small-en",
            f"{CUAD} --name all-mpnet-base-v2 --model sentence-transformers/all-mpnet-base-v2",
        ),
    ),
    Recipe(
        "setfit_table",
        ("few_labels/setfit_table.jsonl",),
        1.5,
        "clones of the five repositories that setfit_table.py names",
        (
            "benchmarks.quality.published.setfit_table measure --clones {clones}"
            f" --output {{output}}/few_labels/setfit_table.jsonl {KEPT}",
        ),
    ),
    Recipe(
        "inference",
        ("speed/seconds.jsonl",),
        0.3,
        "a file of posts, an environment of openvino_rival.py; an idle machine",
        (
            "benchmarks.speed.inference --texts {data}/20news_stripped.jsonl --documents 400 --rounds 3"
            " --openvino_python st-openvino/bin/python --record {output}/speed/seconds.jsonl",
            "benchmarks.speed.training_step --precision bf16 --without_mlm --steps 2 --rounds 3"
            " --record {output}/speed/seconds.jsonl",
            "benchmarks.speed.training_step --precision fp32 --without_mlm --steps 2 --rounds 3"
            " --record {output}/speed/seconds.jsonl",
        ),
    ),
    Recipe("gpu", ("speed/second_gpu_runs.json",), 1, "a GPU", ("benchmarks.speed.gpu --output {output}/gpu",)),
    # Tables that others published
    Recipe(
        "intents",
        ("few_labels/intents.jsonl",),
        0.3,
        "a clone of jianguoz/Few-Shot-Intent-Detection",
        (
            "benchmarks.quality.published.intents measure --repository {clones}/Few-Shot-Intent-Detection"
            f" --output {{output}}/few_labels/intents.jsonl --systems probe fit 'fit, unlabeled' {KEPT}",
        ),
    ),
    Recipe(
        "sib200",
        ("few_labels/sib200.jsonl",),
        0.3,
        "a clone of dadelani/sib-200",
        (
            "benchmarks.quality.published.sib200 measure --repository {clones}/sib-200 --draws 5"
            f" --output {{output}}/few_labels/sib200.jsonl {KEPT}",
        ),
    ),
    # Few labels
    Recipe(
        "style_prior",
        ("few_labels/style_prior.jsonl",),
        1,
        SETS,
        (
            f"{COLLECT} --tasks {{others}} --documents 400 --labels 1 5 20 --draws 1 1 1 --output {{output}}/cells_400",
            f"{COLLECT} --tasks {{versions}} --first --documents 400 --labels 1 5 20 --draws 1 1 1"
            " --output {output}/cells_of_versions",
            "benchmarks.quality.learned_prior.style --cells {output}/cells_400 {output}/cells_of_versions"
            " --kinds {sets}/sets.jsonl --output {output}/few_labels",
        ),
    ),
    Recipe(
        "parts",
        ("few_labels/parts.jsonl", "few_labels/learned_prior.jsonl.gz"),
        2,
        SETS,
        (
            f"{COLLECT} --tasks {{tasks}} --labels 1 5 20 --draws 2 2 1 --output {{output}}/cells",
            "benchmarks.quality.learned_prior.parts --cells {output}/cells --kinds {sets}/sets.jsonl"
            " --output {output}/few_labels",
            "benchmarks.quality.learned_prior.train --cells {output}/cells --kinds {sets}/sets.jsonl"
            " --output {output}/few_labels",
        ),
    ),
    Recipe(
        "compared_versions",
        ("few_labels/compared_versions.jsonl",),
        0.5,
        f"{SETS}; the same cells by an older version of the package, in OUTPUT/cells_before",
        (
            f"{COLLECT} --tasks {{tasks}} --first --documents 400 --labels 1 5 20 --draws 2 6 3"
            " --output {output}/cells_now",
            "benchmarks.quality.learned_prior.compared_versions --before {output}/cells_before"
            " --now {output}/cells_now --output {output}/few_labels",
        ),
    ),
    Recipe(
        "versions",
        ("few_labels/versions.jsonl",),
        1.5,
        SETS,
        (f"benchmarks.quality.versions --data {{sets}} --sets {{sets}} --output {{output}}/few_labels {KEPT}",),
    ),
    Recipe(
        "style",
        ("few_labels/style.jsonl",),
        0.3,
        SETS,
        (f"benchmarks.quality.style --tasks {{tasks}} --output {{output}}/few_labels {KEPT}",),
    ),
    Recipe(
        "style_topics",
        ("few_labels/style_topics.jsonl",),
        0.3,
        SETS,
        (
            "benchmarks.quality.style --tasks {tasks} --test_texts 1000 --systems ours ours_without_style"
            f" --records style_topics.jsonl --output {{output}}/few_labels {KEPT}",
        ),
    ),
    Recipe(
        "many_classes",
        ("few_labels/many_classes.jsonl",),
        1,
        f"{SETS}; the rows of 'before' are of an older version",
        (f"benchmarks.quality.many_classes --tasks {{tasks}} --output {{output}}/few_labels {KEPT}",),
    ),
    Recipe(
        "proportions",
        ("few_labels/proportions.jsonl",),
        0.5,
        SETS,
        (f"benchmarks.quality.proportions --tasks {{tasks}} --output {{output}}/few_labels {KEPT}",),
    ),
    Recipe(
        "label_trees",
        ("few_labels/label_trees.jsonl",),
        0.5,
        SETS,
        (f"benchmarks.quality.label_trees --tasks {{tasks}} --output {{output}}/few_labels {KEPT}",),
    ),
    Recipe(
        "teacher",
        ("few_labels/teacher.jsonl",),
        0.5,
        SETS,
        (f"benchmarks.quality.teacher --tasks {{tasks}} --records {{output}}/few_labels/teacher.jsonl {KEPT}",),
    ),
    Recipe(
        "four_sets",
        ("few_labels/records.jsonl.gz",),
        4,
        f"{DATA}, which were converted otherwise; few_labels/rivals_requirements.txt for SetFit, in output/rivals",
        (
            f"{RUN} --tasks {FOUR} --systems ours ours_without_documents two_way probe tfidf setfit name_cosine"
            f" --per_label 0 1 5 20 100 all --records {{output}}/few_labels/records.jsonl {KEPT}",
        ),
    ),
    Recipe(
        "small",
        ("few_labels/small.jsonl",),
        0.5,
        f"{SETS}: of the eighteen of the record twelve, which are converted anew",
        (
            f"{RUN} --tasks {TWELVE} --systems ours probe --per_label 5 --draws 2 --encoder docsplit-small-en --int8"
            f" --records {{output}}/few_labels/small.jsonl {KEPT}",
        ),
    ),
    # Contracts and reliability
    Recipe(
        "contracts",
        ("contracts/records.jsonl", "contracts/audit.jsonl", "contracts/rejection.jsonl", "contracts/journey.jsonl"),
        2,
        f"{DATA}, contracts and partisan beside them",
        (
            "benchmarks.quality.contracts systems audit rejection journey --tasks {data}/contracts"
            f" --output {{output}}/contracts {KEPT}",
            "benchmarks.quality.contracts systems --doubtful --tasks {data}/contracts"
            f" --output {{output}}/contracts {KEPT}",
            "benchmarks.quality.contracts passages --tasks {data}/contracts {data}/20news {data}/partisan"
            f" --output {{output}}/contracts {KEPT}",
            "benchmarks.quality.contracts report --output {output}/contracts",
        ),
    ),
    Recipe(
        "rejection",
        ("reliability/rejection.jsonl",),
        2,
        f"{DATA}; arXiv had fewer draws",
        (
            f"{REJECTION} --tasks {FOUR} --output {{output}}/reliability",
            f"{REJECTION} --tasks {{data}}/20news --mixed --output {{output}}/reliability",
            f"{REJECTION} --tasks {{data}}/20news --held_out 500 --per_label 0 --output {{output}}/reliability",
        ),
    ),
    Recipe(
        "audit",
        ("reliability/audit.jsonl",),
        2,
        f"{DATA}; the extra benchmark",
        (
            f"benchmarks.quality.audit --tasks {FOUR} --parts labels clean copies strangers"
            f" --output {{output}}/reliability {KEPT}",
            "benchmarks.quality.audit --tasks {data}/20news {data}/bbc_news --parts unequal --seeds 5"
            f" --output {{output}}/reliability {KEPT}",
        ),
    ),
    Recipe(
        "suggestions",
        ("reliability/suggestions.jsonl",),
        1,
        f"{DATA}; the extra benchmark",
        (f"benchmarks.quality.suggestions --tasks {FOUR} --output {{output}}/reliability {KEPT}",),
    ),
    Recipe(
        "label_sets",
        ("reliability/label_sets.jsonl",),
        0.5,
        SETS,
        (f"benchmarks.quality.label_sets --tasks {{tasks}} --output {{output}}/reliability {KEPT}",),
    ),
    Recipe(
        "served_rejection",
        ("reliability/served_rejection.json",),
        0.2,
        "CLINC150 with oos.jsonl; the extra serve",
        (
            "benchmarks.quality.served_rejection --task {data}/clinc150"
            " --output {output}/reliability/served_rejection.json",
        ),
        threads=2,
    ),
    # Encoders, speed and growth
    Recipe(
        "encoders",
        ("encoders/speed.jsonl",),
        0.2,
        "all-mpnet-base-v2; the extra openvino; an idle machine",
        (
            "benchmarks.speed.encoders docsplit-small-en all-MiniLM-L6-v2 all-mpnet-base-v2"
            " --record {output}/encoders/speed.jsonl",
        ),
    ),
    Recipe(
        "int8",
        ("speed/int8.jsonl", "encoders/int8.jsonl"),
        0.5,
        f"{DATA}; the extra openvino",
        (
            f"benchmarks.quality.int8_accuracy {FOUR} --record {{output}}/speed/int8.jsonl",
            f"benchmarks.quality.int8_accuracy {FOUR} --model docsplit-small-en --max_length 64 --seeds 5"
            " --record {output}/encoders/int8.jsonl",
        ),
    ),
    Recipe(
        "fitting_growth",
        ("few_labels/fitting_growth.jsonl",),
        0.1,
        "an idle machine",
        (
            "benchmarks.scale.fitting_growth --record {output}/few_labels/fitting_growth.jsonl"
            " --output {output}/fitting_growth.png",
        ),
    ),
    Recipe(
        "serving",
        ("speed/serving.jsonl",),
        0.2,
        f"{SETS}; the extra serve; an idle machine",
        ("benchmarks.speed.serving --task {sets}/bbc_news --output {output}/speed/serving.jsonl",),
        threads=2,
    ),
    Recipe(
        "cold_start",
        ("speed/cold_start.json",),
        0.2,
        "an environment of examples/serving/requirements-light.txt, in light; an idle machine",
        ("benchmarks.speed.cold_start --light_python light/bin/python --record {output}/speed/cold_start.json",),
        threads=2,
    ),
    Recipe(
        "fitted_answers",
        ("fitted_answers.json",),
        0.2,
        DATA,
        ("benchmarks.scale.fitted_answers {data}/20news --output {output}/fitted_answers.json",),
    ),
    Recipe(
        "datastore_index",
        ("datastore_index.jsonl",),
        1,
        "",
        ("benchmarks.scale.datastore_index --records {output}/datastore_index.jsonl --plot {output}/index_growth.png",),
    ),
    Recipe(
        "ten_million",
        ("ten_million/100000.json", "ten_million/1000000.json", "ten_million/10000000.json"),
        0.7,
        "17 GB of disk",
        ("benchmarks.scale.ten_million --folder {output}/ten_million",),
    ),
    # Files
    Recipe(
        "watched_folder",
        ("watched_folder.json",),
        0.2,
        "the extra watch",
        ("benchmarks.release.watched_folder --output {output}/watched_folder.json",),
    ),
    Recipe(
        "reading_files",
        ("file_readers/scale.jsonl",),
        0.5,
        "the extra files",
        (
            "benchmarks.scale.reading_files speed --count 20000 --folder {output}/small_files"
            " --output {output}/file_readers/scale.jsonl",
            "benchmarks.scale.reading_files kills --count 2000 --folder {output}/small_files"
            " --output {output}/file_readers/scale.jsonl",
            "benchmarks.scale.reading_files hostile --folder {output}/hostile_files"
            " --output {output}/file_readers/scale.jsonl",
        ),
    ),
)
