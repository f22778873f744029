"""Load labeled texts from the Hub, a file or a folder, as train, validation and test."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .characters import replace_lone_surrogates
from .holding_out import fingerprints_of, groups_to_hold_out, hold_out
from .labels import (
    describe_alike,
    joined_labels_hint,
    label_name,
    label_names_of,
    number_or_name,
    separate_labels,
)
from .origins import FILE_COLUMN, PLACES_COLUMN
from .source import SPLIT_NAMES, find_splits, kind_of, load_path
from .tables import file_format, file_state, naming, read_json_rows, refuse_separator
from .usable_rows import KEPT, NO_LABEL, check_columns, describe_dropped, keep_usable, outcome_of, refuse_other_types

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict

logger = logging.getLogger(__name__)

# Temporary columns of an example.
OUTCOME = "_docsplit_outcome"  # kept, or the reason to drop it
IS_LIST = "_docsplit_is_list"  # whether its label is a list
REPLACED = "_docsplit_replaced"  # whether a lone surrogate was replaced
TEMPORARY_COLUMNS = (OUTCOME, IS_LIST, REPLACED)


Example = dict[str, str | list[str] | bool | None]  # texts, names of labels, id, and the temporary columns


def load_labeled_examples(
    source: str | Path | Dataset | DatasetDict | pd.DataFrame,
    config_name: str | None = None,
    *,
    text_column: str = "text",
    text_pair_column: str | None = None,
    label_column: str = "label",
    id_column: str | None = None,
    train_split: str = "train",
    validation_split: str | None = None,
    test_split: str | None = None,
    validation_size: float = 0.1,
    test_size: float = 0,
    seed: int = 0,
    label_separator: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> DatasetDict:
    """Load labeled texts, or labeled pairs of texts, from any source.

    A label is a string, a whole number or a boolean, or a list of them if texts have several labels. Classes keep the
    order of a ``ClassLabel``; otherwise they are sorted, numbers by size, classes of the training set first. Unusable
    examples are dropped and counted in the log: those without a label (in a ``ClassLabel`` also -1), and those with a
    text that is not a string, or blank. A validation or test set without any label is left out.

    Args:
        source: A data set on the Hub or in memory; a pandas DataFrame; a ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or
            ``.parquet`` file (also compressed with gzip), used as training set; a folder with files named after their
            split; a folder with a folder of ``.txt`` files or documents (PDF, Word, HTML, mail, ..., which also get the
            columns ``file`` and ``places``) for each class; or a folder with such a folder for each split:
            ``train/sci.med/1.txt`` has the label ``sci.med``. In a ``.csv`` file only empty fields are missing:
            ``NA``, ``true`` and ``007`` are strings.
        config_name: Configuration of a data set on the Hub.
        text_column: Column with the texts.
        text_pair_column: Column with the second texts, for pairs.
        label_column: Column with the labels.
        id_column: Column with a unique id for each example of a split, to be kept.
        train_split: Training split. ``"a+b"`` joins splits, here and below.
        validation_split: Validation split. None: ``validation``, ``valid`` or ``dev``, if it exists and has no other
            use.
        test_split: Test split. None: ``test``, if it exists and has no other use.
        validation_size: Number of training examples (1 or more), or fraction of them (below 1), to hold out if there is
            no validation split. Stratified by label, or by the rarest label of a text with several. Equal texts, and
            versions of one text (``group_versions``), stay together, and every class keeps an example, so fewer may be
            held out. 0 holds none out.
        test_size: The same for the test split. The test set is held out first.
        seed: Seed of the draw of held-out examples.
        label_separator: Separator of labels in one string, such as ``";"`` in ``"a;b"``. With a separator, strings that
            are lists in JSON or Python, such as ``"['a', 'b']"``, are read as lists.
        csv_separator: Column separator of a ``.csv`` file. None: a comma, or a tab in ``.tsv``.
        encoding: Encoding of text files, such as ``"cp1252"``. None: UTF-8, or UTF-16 if a file begins with its byte
            order mark.

    Returns:
        ``train``, ``validation`` unless none is held out, and ``test`` if there is one, with the columns ``text``,
        ``text_pair`` (with ``text_pair_column``), ``label`` (a ``ClassLabel``, or a list of it) and ``id`` (with
        ``id_column``).

    Raises:
        FileNotFoundError: If the source looks like a path that does not exist.
        TypeError: If the source is a stream, or none of the above.
        ValueError: If a file cannot be read or is empty, a split or a column does not exist, a label is not a class, an
            id is missing or repeated, no usable example is left, there are too few examples to hold any out, or all
            training examples have the same label.

    Example:

        >>> import json, tempfile
        >>> file = Path(tempfile.mkdtemp()) / "reviews.jsonl"
        >>> rows = [{"text": f"Review {i}.", "label": "good" if i % 2 else "bad"} for i in range(20)]
        >>> _ = file.write_text("".join(json.dumps(row) + chr(10) for row in rows))
        >>> examples = load_labeled_examples(file)
        >>> {name: len(split) for name, split in examples.items()}, examples["train"].features["label"].names
        ({'train': 18, 'validation': 2}, ['bad', 'good'])
    """
    for name, size in (("validation_size", validation_size), ("test_size", test_size)):
        if not (0 <= size < 1 or (size >= 1 and float(size).is_integer())):
            raise ValueError(f"{name} must be a fraction below 1 or a whole number of examples, got {size}.")
    if label_separator == "":
        raise ValueError("label_separator must not be empty: leave it out if every text has one label.")
    if text_pair_column is not None and kind_of(source) == "documents":
        raise ValueError(
            f"text_pair_column={text_pair_column!r} is for tables, and the documents of {source} have one text each: "
            "for pairs, give a table with both texts in columns."
        )
    named = {"text": text_column, "text_pair": text_pair_column, "label": label_column, "id": id_column}
    columns = {name: column for name, column in named.items() if column is not None}
    available = find_splits(source, config_name, csv_separator, encoding)
    import datasets  # only now: a missing file is refused at once

    parts = _choose_splits(available, train=train_split, validation=validation_split, test=test_split)
    splits = {}
    train_classes: list[str] = []  # declared by a ClassLabel
    for name, part_names in parts.items():
        read = [
            _read_rows(available[part], part, columns, label_separator, csv_separator, encoding) for part in part_names
        ]
        usable = _keep_usable(datasets.concatenate_datasets([examples for examples, _ in read]), name)
        if usable is not None:
            splits[name] = usable
        if name == "train":
            train_classes = list(dict.fromkeys(chain.from_iterable(class_names for _, class_names in read)))
    train_labels = zip(splits["train"]["label"][:], splits["train"][IS_LIST][:], strict=True)
    hint = joined_labels_hint([names[0] for names, is_list in train_labels if not is_list])
    if hint:
        logger.warning(f"Of column {label_column!r} {hint}")
    counts = Counter(chain.from_iterable(chain.from_iterable(split["label"][:] for split in splits.values())))
    spellings = describe_alike(counts)
    if spellings is not None:
        logger.warning(spellings)
    splits = _number_labels(splits, train_classes, label_column)
    _check_classes(splits, label_column)
    for name, size in (("test", test_size), ("validation", validation_size)):
        if name not in splits and size > 0:
            splits |= _hold_out(splits["train"], name, size, seed)
    return datasets.DatasetDict({name: splits[name] for name in ("train", "validation", "test") if name in splits})


def _choose_splits(available: Mapping[str, Any], **wanted: str | None) -> dict[str, list[str]]:
    """Names of the source splits that make up train, validation and test."""
    parts = {name: split.split("+") for name, split in wanted.items() if split is not None}
    for name, splits in parts.items():
        missing = [split for split in splits if split not in available]
        if missing:
            raise ValueError(f"There is no split {missing[0]!r}, only {sorted(available)}: choose {name}_split.")
    for name in [name for name in wanted if name not in parts]:
        used = set(chain(*parts.values()))
        found = [split for split in SPLIT_NAMES[name] if split in available and split not in used]
        if len(found) > 1:
            raise ValueError(f"Any of the splits {found} may be for {name}: choose {name}_split.")
        parts |= {name: found} if found else {}
    split, times = Counter(chain(*parts.values())).most_common(1)[0]
    if times > 1:
        raise ValueError(f"The split {split!r} is used {times} times in {parts}: use each split once.")
    return parts


def _read_rows(
    split: Dataset | Path,
    split_name: str,
    columns: dict[str, str],
    label_separator: str | None,
    csv_separator: str | None,
    encoding: str | None,
) -> tuple[Dataset, list[str]]:
    """Make an example of each row of a split, also of those to drop; also returns the names of a ``ClassLabel``.

    ``columns``: names of the columns in the source, by text, text_pair, label, id.
    """
    import datasets

    kind = kind_of(split)
    if kind == "documents":
        if split.is_file():
            file_format(split)  # raises: a single document has no label
        columns = columns | {"text": "text", "label": "label"}  # theirs are not those of a table
    string = datasets.Value("string")
    boolean = datasets.Value("bool")
    example_features = {name: datasets.List(string) if name == "label" else string for name in columns}
    features = datasets.Features({**example_features, OUTCOME: string, IS_LIST: boolean, REPLACED: boolean})
    if kind == "table" and file_format(split) == "json":
        with naming(split):
            refuse_separator("json", csv_separator)
            examples = datasets.Dataset.from_generator(
                _read_json_examples,
                features,
                gen_kwargs={
                    "path": split.absolute(),
                    "encoding": encoding,
                    "columns": columns,
                    "label_separator": label_separator,
                    "state": file_state(split),
                },
            )
        return examples, []
    if isinstance(split, datasets.IterableDataset):
        raise TypeError(f"The split {split_name!r} is a stream, not a data set: give Dataset.from_list(list(stream)).")
    if isinstance(split, Path):
        rows = load_path(split, csv_separator=csv_separator, encoding=encoding)
    else:
        rows = split.with_format(None)
    if len(rows) == 0:
        raise ValueError(f"The split {split_name!r} is empty: leave it out, or check where it comes from.")
    check_columns(rows.column_names, columns, split_name)
    for name in [name for name in columns if name.startswith("text")]:
        refuse_other_types(rows.features[columns[name]], columns[name], f"{name}_column")
    label = rows.features[columns["label"]]
    class_names = getattr(getattr(label, "feature", label), "names", None)
    needed = list(dict.fromkeys(columns.values()))
    examples = rows.select_columns(needed).map(
        _make_example,
        fn_kwargs={"columns": columns, "label_separator": label_separator, "class_names": class_names},
        remove_columns=needed,
        features=features,
        desc=f"Reading {split_name}",
    )
    if {FILE_COLUMN, PLACES_COLUMN} <= set(rows.column_names):
        origins = rows.select_columns([FILE_COLUMN, PLACES_COLUMN])
        examples = datasets.concatenate_datasets([examples, origins], axis=1)
    return examples, class_names or []


def _read_json_examples(
    path: Path,
    encoding: str | None,
    columns: dict[str, str],
    label_separator: str | None,
    state: tuple[int, int],
) -> Iterator[Example]:
    """Examples of a JSON file. ``datasets`` names its cache after the arguments: ``state`` changes with the file."""
    found: set[str] = set()
    is_empty = True
    for row in read_json_rows(path, encoding):
        is_empty = False
        found.update(row)
        yield _make_example(row, columns, label_separator)
    if is_empty:
        raise ValueError("it holds no rows")
    check_columns(found, columns, path.name)


def _make_example(
    row: Mapping[str, Any],
    columns: dict[str, str],
    label_separator: str | None = None,
    class_names: list[str] | None = None,
) -> Example:
    """Make an example of a row of any source."""
    values = {name: row.get(column) for name, column in columns.items()}
    label = values.pop("label")
    if label_separator is not None and label is not None:
        label = separate_labels(label, label_separator)
    is_list = isinstance(label, list)
    names = [label_name(one, class_names) for one in (label if is_list else [label])]
    outcome = NO_LABEL if None in names else outcome_of(values[name] for name in values if name != "id")
    if outcome != KEPT:
        return {**dict.fromkeys(columns), OUTCOME: outcome, IS_LIST: is_list, REPLACED: False}
    if len(set(names)) < len(names):
        raise ValueError(f"The label {label!r} names a class twice: list those that apply, not 0 and 1.")
    strings = {name: "" if value is None else str(value) for name, value in values.items()}
    valid = {name: replace_lone_surrogates(string) for name, string in strings.items()}
    valid_names = [replace_lone_surrogates(name) for name in names]
    return {
        **valid,
        "label": valid_names,
        OUTCOME: KEPT,
        IS_LIST: is_list,
        REPLACED: valid != strings or valid_names != names,
    }


def _keep_usable(examples: Dataset, name: str) -> Dataset | None:
    """Drop unusable examples; None for a validation or test set without labels."""
    outcomes = examples[OUTCOME][:]
    counts = Counter(outcomes)
    replaced = sum(examples[REPLACED][:])
    dropped = describe_dropped(counts)
    message = f"{name}: kept {counts[KEPT]} of {len(outcomes)} examples." + (f" Dropped: {dropped}." if dropped else "")
    message += f" Lone surrogates were replaced in {replaced}." if replaced else ""
    if name != "train" and counts[NO_LABEL] == len(outcomes) > 0:
        logger.warning(f"{message} There are no labels to evaluate with: the split is left out.")
        return None
    logger.log(logging.WARNING if dropped or replaced else logging.INFO, message)
    if counts[KEPT] == 0:
        raise ValueError(f"Nothing is left: {message} Check the columns of texts and labels.")
    usable = keep_usable(examples, outcomes)
    if "id" in usable.column_names:
        ids = Counter(usable["id"][:])
        repeated, times = ids.most_common(1)[0]
        if times > 1 or "" in ids:
            problem = f"without an id: {ids['']}" if "" in ids else f"with the id {repeated!r}: {times}"
            raise ValueError(f"{name}: examples {problem}. Each needs an id of its own: choose another id_column.")
    return usable


def _number_labels(splits: dict[str, Dataset], declared: list[str], label_column: str) -> dict[str, Dataset]:
    """Replace names of labels by numbers, equal in all splits."""
    import datasets

    is_list = set(chain.from_iterable(split[IS_LIST][:] for split in splits.values()))
    if len(is_list) > 1:
        raise ValueError(f"Some labels in column {label_column!r} are lists and some are not: make all of them lists.")
    found = {name: set(chain.from_iterable(split["label"][:])) for name, split in splits.items()}
    names = list(declared)
    for new in (found["train"], set().union(*found.values())):
        names += sorted(new - set(names), key=number_or_name)
    label = datasets.ClassLabel(names=names)
    label = datasets.List(label) if is_list == {True} else label
    numbers = {name: number for number, name in enumerate(names)}
    return {
        name: split.map(
            _number_batch,
            batched=True,
            fn_kwargs={"numbers": numbers},
            remove_columns=list(TEMPORARY_COLUMNS),
            features=datasets.Features({**split.remove_columns(list(TEMPORARY_COLUMNS)).features, "label": label}),
            desc=f"Numbering the labels of {name}",
        )
        for name, split in splits.items()
    }


def _number_batch(batch: dict[str, list[Any]], numbers: dict[str, int]) -> dict[str, list[Any]]:
    labels = [sorted({numbers[name] for name in names}) for names in batch["label"]]
    return {"label": [label if is_list else label[0] for label, is_list in zip(labels, batch[IS_LIST], strict=True)]}


def _hold_out(train: Dataset, name: str, size: float, seed: int) -> dict[str, Dataset]:
    """Split a training set into ``train`` and the split ``name``."""
    count = int(size) if size >= 1 else max(1, round(size * len(train)))
    if count >= len(train):
        raise ValueError(
            f"Holding {count} of {len(train)} training examples out for {name} leaves none to train on: lower "
            f"{name}_size, or choose a {name}_split."
        )
    text_columns = [name for name in train.column_names if name.startswith("text")]
    fingerprints = fingerprints_of(train, text_columns)
    labels = _label_lists(train)
    texts = [" ".join(columns) for columns in zip(*(train[name][:] for name in text_columns), strict=True)]
    groups = np.unique(groups_to_hold_out(texts, labels), return_inverse=True)[1]
    # Groups are named by a text's fingerprint: without versions, the draw is that of the texts themselves.
    of_group = fingerprints[np.unique(groups, return_index=True)[1]]
    kept, held_out = hold_out(of_group[groups], count, seed, labels)
    versions = len(set(fingerprints.tolist())) - len(of_group)
    repeated = len(train) - len(set(fingerprints.tolist()))
    only_once = sorted(label for label, times in Counter(chain.from_iterable(labels)).items() if times == 1)
    names = label_names_of(train)
    message = f"Held {len(held_out)} of {len(train)} training examples out for {name}, stratified by label."
    if repeated:
        message += f" {repeated} repeat the text of another one; the same text is never on both sides."
    if versions:
        message += f" {versions} are versions of another one, such as drafts, and on the same side."
    if only_once:
        more = ", and others" if len(only_once) > 5 else ""
        shown = ", ".join(repr(names[label]) for label in only_once[:5]) + more
        message += f" Classes with one example only, which is kept to train on: {shown}."
    if len(held_out) < count:
        message += (
            f" This is less than the requested {count}: other texts have too many copies or versions, or are the last "
            "of a class."
        )
    if len(held_out) == 0:
        raise ValueError(f"{message} Give more examples, change {name}_size, or choose a {name}_split.")
    logger.log(logging.WARNING if repeated or versions or only_once or len(held_out) < count else logging.INFO, message)
    return {"train": train.select(kept), name: train.select(held_out)}


def _label_lists(split: Dataset) -> list[list[int]]:
    return [label if isinstance(label, list) else [label] for label in split["label"][:]]


def _check_classes(splits: dict[str, Dataset], label_column: str) -> None:
    """Refuse a training set of one class, and warn about classes without training examples."""
    names = label_names_of(splits["train"])
    labels = {name: _label_lists(split) for name, split in splits.items()}
    if len(set(map(tuple, labels["train"]))) < 2:
        given = [names[number] for number in labels["train"][0]]
        raise ValueError(
            f"Each of the {len(labels['train'])} training examples has the label {given}: classification needs two "
            f"labels. Check column {label_column!r}."
        )
    for name, given in labels.items():
        if untrained := sorted(set(chain(*given)) - set(chain(*labels["train"]))):
            logger.warning(f"{name} has classes that are never trained on: {[names[number] for number in untrained]}.")
