"""Arguments of ``docsplit classify``, in addition to those of TrainingArguments, and checks of their combinations."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.hf_argparser import HfArg

from ...connectors.milvus.connect import connect_datastore, parse_address
from ...connectors.milvus.remote_datastore import RemoteDatastore
from ...encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ...encoding.portable.configuration_knn_classifier import LONG_DOCUMENTS
from ...finetuning.arguments import KNNClassifierTrainingArguments
from ...reading.paper_tasks import TASKS
from ...storage.addresses import is_address
from .hierarchy_option import read_hierarchy

TASK_OPTIONS = (
    "task_name", "validation_size", "max_train_examples", "max_test_examples", "unlabeled_name",
    "teacher", "teacher_texts", "hierarchy",
)  # fmt: skip
# Model options that --no_training refuses. It also refuses all of RunArguments except ANY_RUN_OPTIONS.
TRAINING_OPTIONS = {
    "use_peft", "lora_r", "classifier_activation", "retrieval_pooling", "decouple", "retrieval_dimension",
    "normalize", "neighbors_protocol", "knn_weight",
}  # fmt: skip
ANY_RUN_OPTIONS = {"output_dir", "overwrite_output_dir", "seed", "use_cpu", "bf16"}
EXPERT_OPTIONS = {"predict_explain", "predict_reject", "predict_novelty", "predict_reject_each_label", "labels_at"}
MAIN_OPTIONS = (
    "model_name_or_path", "dataset_name", "text_column", "label_column", "test_size", "no_training", "unlabeled_name",
    "max_length", "long_documents", "num_train_epochs", "learning_rate", "bf16", "predict", "predict_output",
    "predict_explain", "predict_reject", "predict_novelty", "labels_at", "safe_csv", "audit", "seed", "output_dir",
    "resume_from_checkpoint",
)  # fmt: skip


@dataclass
class ModelArguments:
    """Model to train."""

    _argument_group_name = "model"

    model_name_or_path: str | None = HfArg(
        default=None,
        help=f"An encoder on the Hub or a folder, ideally a DocSplit checkpoint. Default: {DEFAULT_CHECKPOINT}, which "
        "is included.",
    )
    pooling: str | None = HfArg(default=None, help="cls, mean, max or last. Default: the encoder's own, or cls.")
    retrieval_pooling: str | None = HfArg(default=None, help="Pooling for the neighbor search. Default: --pooling.")
    classifier_activation: str | None = HfArg(
        default=None,
        help="Add a dense layer with this activation before the last layer of the classifier, such as tanh, as RoBERTa "
        "has it. Default: none.",
    )
    decouple: bool = HfArg(default=True, help="Use a separate representation for the neighbor search.")
    retrieval_dimension: int | None = HfArg(
        default=None, help="Dimensions of that representation. Default: the encoder's."
    )
    normalize: bool = HfArg(default=False, help="Scale that representation to norm 1. The paper does not.")
    neighbors_protocol: str = HfArg(
        default="calibrated",
        help="How to choose k, T and lambda for the neighbors: 'calibrated' on held-out examples, or 'fixed' to k 64 "
        "and T 10 as in the paper, with lambda from --knn_weight.",
        metadata={"choices": ["calibrated", "fixed"]},
    )
    knn_weight: float | None = HfArg(
        default=None, help="Lambda for 'fixed', from 0 to 1. Default: the value of the paper, for its tasks."
    )
    max_length: int | None = HfArg(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str | None = HfArg(
        default=None,
        help="Part of texts longer than --max_length to read: the beginning ('first', the default in training), the "
        "beginning, and all of it ('whole'), beginning and end ('head_tail'), or all of it in passages, with one "
        "embedding in total ('average') or one per passage ('passages', 'late'), so that answers name the decisive "
        "passage. Training always reads the beginning. Default with --no_training: 'whole' if that takes at most 10 "
        "minutes, otherwise 'first'; the minutes are estimated and printed before.",
        metadata={"choices": list(LONG_DOCUMENTS)},
    )
    passage_length: int | None = HfArg(
        default=None, help="Longest passage in tokens. Default: --max_length; 256 with 'late'."
    )
    use_peft: bool = HfArg(default=False, help="Train LoRA adapters in the encoder, and merge them at the end.")
    lora_r: int = HfArg(default=16, help="Rank of the LoRA adapters.")
    no_training: bool = HfArg(
        default=False,
        help="Do not train the encoder. Experts learn from its embeddings and the words of the labeled examples and of "
        "--unlabeled_name. Takes seconds after embedding; best with few labels.",
    )


@dataclass
class DataArguments:
    """Training data."""

    _argument_group_name = "data"

    dataset_name: str | None = HfArg(
        default=None,
        help="A file, a folder, or a data set on the Hub. A file is .jsonl, .json, .csv, .tsv or .parquet; a folder "
        "has such files named train and optionally validation and test, or a folder of .txt files or documents (PDF, "
        "Word, HTML, mail and others) for each class. To try it: 'documentation', the documentation of installed "
        "packages, by package.",
    )
    task_name: str | None = HfArg(
        default=None,
        help=f"Instead of --dataset_name: a task of the paper, one of {', '.join(TASKS)}. Encoder, batch, learning "
        "rate, epochs, warm-up and length are those of the paper (table 3), unless you give others.",
    )
    unlabeled_name: str | None = HfArg(
        default=None,
        help="Unlabeled documents, from which experts also learn. A file as for --dataset_name, with the same "
        "--text_column; a .txt file with one document per line; a folder, or a pattern such as 'inbox/**/*.pdf', of "
        ".txt files or documents; or a data set on the Hub.",
    )
    teacher: str | None = HfArg(
        default=None,
        help="Address of a decision model, http://HOST/v1#MODEL, that is asked about some of the documents of "
        "--unlabeled_name: their texts are sent there. Its answers are one more expert. With --no_training. Needs "
        "pip install -e '.[endpoint]'.",
    )
    teacher_texts: int = HfArg(default=200, help="Number of documents that the teacher is asked about.")
    hierarchy: str | None = HfArg(
        default=None,
        help="Tree of the labels, so that --predict_reject answers with a parent where a label is too uncertain: the "
        "separator in their names, such as '/', or a .json file with the parent of each label, as in "
        '{"lease": "contracts", "contracts": "law"}. Default: names such as "law > contracts > lease" are a tree.',
    )
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    text_pair_column: str | None = HfArg(default=None, help="The column with the second texts, for pairs.")
    label_column: str = HfArg(default="label", help="The column with the labels: names or numbers, or lists of them.")
    label_separator: str | None = HfArg(default=None, help="Separator of the labels of a text in one string.")
    merge_labels: bool = HfArg(
        default=False,
        help="Merge labels that differ only by case, Unicode form or surrounding white space into the most frequent "
        "one. Without this option, a warning names them.",
    )
    id_column: str | None = HfArg(default=None, help="The column with ids of the examples.")
    csv_separator: str | None = HfArg(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    train_split: str = HfArg(default="train", help="Split of a data set on the Hub to train on.")
    validation_split: str | None = HfArg(default=None, help="Split to calibrate on. Default: hold out examples.")
    test_split: str | None = HfArg(default=None, help="Split to report metrics on.")
    validation_size: float = HfArg(
        default=0.1,
        help="Without a validation split: the fraction or number of examples to hold out. --no_training uses "
        "cross-validation instead, unless you give this option.",
    )
    test_size: float = HfArg(
        default=0, help="Without a test split: the fraction or number of examples to report metrics on."
    )
    max_train_examples: int | None = HfArg(default=None, help="Train on a random sample of this size.")
    max_test_examples: int | None = HfArg(default=None, help="Report metrics on a random sample of this size.")

    def __post_init__(self) -> None:
        if self.dataset_name is not None and self.task_name is not None:
            raise ValueError("Give either --dataset_name or --task_name, not both: each names the training data.")
        for field in dataclasses.fields(self) if self.task_name else ():
            if field.name not in TASK_OPTIONS and getattr(self, field.name) != field.default:
                raise ValueError(
                    f"--{field.name} is for --dataset_name, because a task of the paper has its own columns."
                )


@dataclass
class DatastoreArguments:
    """Datastore of the training examples."""

    _argument_group_name = "datastore"

    store_texts: bool = HfArg(default=True, help="Store the texts, to show them as neighbors.")
    keys_dtype: str = HfArg(
        default="float32",
        help="Data type of the embeddings: float32, or float16 for half the size.",
        metadata={"choices": ["float32", "float16"]},
    )
    index: str = HfArg(
        default="Flat", help="A FAISS index_factory string. Flat is exact, and suits up to 200,000 rows."
    )
    nprobe: int | None = HfArg(default=None, help="Number of lists of an IVF index to search.")
    rerank: int | None = HfArg(default=None, help="Fetch this many times k candidates, and rank them exactly.")
    datastore: str | None = HfArg(
        default=None,
        help="A collection of Milvus, milvus://HOST:19530/COLLECTION. After training, the examples are also added "
        "there. With --predict alone, neighbors are searched there. Needs pip install -e '.[milvus]'.",
    )
    datastore_token_variable: str | None = HfArg(
        default=None, help="Name of the environment variable with the token of that server, if it needs one."
    )

    def index_options(self) -> dict[str, str | int | None]:
        """Return the options of ``KNNDatastore`` for its embeddings and index."""
        return {"dtype": self.keys_dtype, "index": self.index, "nprobe": self.nprobe, "rerank": self.rerank}

    def connect(self, **new: Any) -> RemoteDatastore:
        """Connect to the collection; ``new``: properties for creating it if it does not exist."""
        return connect_datastore(self.datastore, token_variable=self.datastore_token_variable, **new)


@dataclass
class PredictionArguments:
    """Texts to classify, after training, or by a saved classifier without --dataset_name and --task_name."""

    _argument_group_name = "prediction"

    predict: str | None = HfArg(
        default=None,
        help="Texts to classify: a .jsonl, .json, .csv, .tsv, .parquet or .txt file (also .gz), with the same "
        "--text_column; or a folder, or a pattern such as 'inbox/**/*.pdf', of .txt files or documents. Without "
        "--dataset_name and --task_name nothing is trained, and the classifier is --model_name_or_path, or the one in "
        "--output_dir.",
    )
    predict_output: str = HfArg(
        default="answers.csv",
        help="The .csv, .jsonl or .parquet file for the answers: the columns of --predict, label and score; of "
        "documents file, label, score, page and reason. A folder: the documents are also copied into sub-folders by "
        "label, those without a label into _unsure, those that cannot be read into _failed; docsplit undo removes "
        "them. To continue after an interruption, run the same command again; if the training was finished, without "
        "--dataset_name and --task_name, and with the classifier as --model_name_or_path. An existing file is "
        "refused; --overwrite_output_dir replaces it, and a classifier in --output_dir that is made anew.",
    )
    link: str | None = HfArg(
        default=None,
        help="With a folder as --predict_output: make links to the documents instead of copies.",
        metadata={"choices": ["hard", "symbolic"]},
    )
    predict_top_k: int | None = HfArg(default=None, help="Also write this many labels per text, with their scores.")
    predict_neighbors: int = HfArg(default=0, help="Also write this many of the nearest examples of each text.")
    predict_explain: bool = HfArg(
        default=False,
        help="Also write an explanation of each label. Needs experts (--no_training or --unlabeled_name).",
    )
    predict_reject: float | None = HfArg(
        default=None,
        help="Target error rate, such as 0.05: uncertain texts get no label, so that at most this fraction of the "
        "labels is wrong. Needs experts (--no_training or --unlabeled_name). Also writes the novelty of each text, "
        "from 0 to 1.",
    )
    predict_novelty: float | None = HfArg(
        default=None,
        help="With --predict_reject: give no label to out-of-scope texts, rejecting at most this fraction of the texts "
        "with known labels, such as 0.05; 0 rejects only the least familiar hundredth. Default: 0.05 if unlabeled "
        "documents seem to have other labels, which is printed after the fit, otherwise 0.",
    )
    predict_reject_each_label: bool = HfArg(
        default=False,
        help="With --predict_reject: the error rate holds among the answers with each label, not only among all "
        "answers together. Takes more examples of each label.",
    )
    labels_at: float | None = HfArg(
        default=None,
        help="Also write a set of labels for each text, as small as possible, that holds the right label with this "
        "probability, such as 0.95. Needs experts (--no_training or --unlabeled_name).",
    )
    max_passages: int | None = HfArg(
        default=None,
        help="Read at most this many passages per text, if long texts are read whole or in passages. The unread "
        "fraction is logged. Default: all.",
    )
    safe_csv: bool = HfArg(
        default=False,
        help="Make a .csv file of answers safe to open in a spreadsheet, which runs cells that begin with =, +, -, @ "
        "or a tab as formulas; a formula in an untrusted text may leak your data. Texts, labels and column names are "
        "quoted, with an apostrophe before such a character; numbers stay unchanged. A last column marks the file, so "
        "that docsplit removes the apostrophes when it reads the file. Other programs show them, so this is not the "
        "default.",
    )

    def __post_init__(self) -> None:
        if self.predict_top_k is not None and self.predict_top_k < 1:
            raise ValueError(f"--predict_top_k must be at least 1, got {self.predict_top_k}.")
        if self.predict_neighbors < 0:
            raise ValueError(f"--predict_neighbors must be at least 0, got {self.predict_neighbors}.")
        if self.labels_at is not None and not 0 < self.labels_at < 1:
            raise ValueError(f"--labels_at must be between 0 and 1, such as 0.95, got {self.labels_at}.")
        if self.labels_at is not None and self.predict_top_k is not None:
            raise ValueError("--labels_at chooses the number of labels: leave out --predict_top_k.")
        if self.predict_reject is None:
            if self.predict_novelty is not None:
                raise ValueError("--predict_novelty needs --predict_reject: give both.")
            if self.predict_reject_each_label:
                raise ValueError("--predict_reject_each_label needs --predict_reject: give both.")
            return
        if not 0 < self.predict_reject < 1:
            raise ValueError(f"--predict_reject must be between 0 and 1, such as 0.05, got {self.predict_reject}.")
        if self.predict_novelty is not None and not 0 <= self.predict_novelty < 1:
            raise ValueError(f"--predict_novelty must be from 0 to below 1, such as 0.05, got {self.predict_novelty}.")
        if self.predict_top_k is not None:
            raise ValueError("--predict_reject gives one label or none per text: leave out --predict_top_k.")


@dataclass
class AuditArguments:
    """Search for wrong labels and duplicate examples: after --no_training, or in a saved classifier."""

    _argument_group_name = "audit"

    audit: str | None = HfArg(
        default=None,
        help="A .json file for possible errors in the examples: labels that other examples contradict, duplicates, "
        "examples without similar ones, and labels that are often confused. Audits the examples after --no_training, "
        "or, without --dataset_name, those of the classifier in --model_name_or_path. Nothing is changed.",
    )
    apply_audit: str | None = HfArg(
        default=None,
        help="A file from --audit, after you edited it: assign the suggested labels to the label_issues with 'apply', "
        "remove the examples under 'remove', fit again, and save the classifier in --model_name_or_path.",
    )

    def audits_saved_classifier(self, model: ModelArguments, data: DataArguments) -> bool:
        """Return whether to audit a saved classifier, without fitting one first."""
        return bool(self.audit or self.apply_audit) and not (data.dataset_name or data.task_name or model.no_training)

    def check_target(self, overwrite: bool) -> None:
        """Raise if --audit would overwrite a file, which may have been edited, or is not JSON."""
        if self.audit and Path(self.audit).suffix.lower() != ".json":
            raise ValueError(f"{self.audit}: an audit is written as JSON, so --audit must end in .json.")
        if self.audit and Path(self.audit).exists() and not overwrite:
            raise ValueError(f"{self.audit} exists already: give --audit another name, or pass --overwrite_output_dir.")
        if self.audit:
            Path(self.audit).parent.mkdir(parents=True, exist_ok=True)


@dataclass
class RunArguments(KNNClassifierTrainingArguments):
    """Training options: the recipe of the paper, with evaluation and a checkpoint after each epoch."""

    _argument_group_name = "training"

    output_dir: str = HfArg(default="output/classification", help="Folder for checkpoints and the classifier.")
    overwrite_output_dir: bool = HfArg(
        default=False,
        help="Write to output_dir even if it is not empty; its checkpoints are moved to _overwritten/.",
    )
    per_device_eval_batch_size: int = HfArg(default=64, help="Texts per process and evaluation batch.")
    logging_steps: float = HfArg(default=10, help="Steps between two logs.")
    eval_strategy: str = HfArg(default="epoch", help="When to evaluate: no, steps or epoch.")
    save_strategy: str = HfArg(default="epoch", help="When to save a checkpoint: no, steps, epoch or best.")
    save_total_limit: int | None = HfArg(default=1, help="Number of checkpoints to keep besides the best.")
    load_best_model_at_end: bool = HfArg(
        default=True, help="Load the checkpoint that is best on held-out data at the end."
    )
    resume_from_checkpoint: str | None = HfArg(
        default=None, help="Checkpoint to continue from: 'last', or a folder checkpoint-<step>."
    )


def check_options(
    given: set[str], model: ModelArguments, data: DataArguments, datastore: DatastoreArguments, run: RunArguments
) -> None:
    """Raise if options contradict each other; ``given``: the names of those on the command line."""
    answer_options = {name for name in given if name.startswith("predict_")} | given & {
        "safe_csv",
        "max_passages",
        "link",
    }
    if answer_options and "predict" not in given:
        raise ValueError(f"--{sorted(answer_options)[0]} is for the answers to a file: give the file by --predict.")
    has_examples = bool(data.dataset_name or data.task_name)
    makes_experts = model.no_training or data.unlabeled_name
    expert_options = given & EXPERT_OPTIONS
    if expert_options and has_examples and not makes_experts:
        raise ValueError(
            f"--{min(expert_options)} needs fitted experts, which training alone does not make: add unlabeled "
            "documents by --unlabeled_name, or pass --no_training."
        )
    uses_classifier = given & ({"predict"} if model.no_training else {"predict", "audit", "apply_audit"})
    if datastore.datastore is not None:
        _check_remote(datastore.datastore, has_examples or model.no_training or "predict" in given)
    if "audit" in given and has_examples and not model.no_training:
        raise ValueError(
            "--audit cannot check labels that the classifier was trained on. Audit them with --no_training, correct "
            "them by --apply_audit, then train."
        )
    if "apply_audit" in given and (has_examples or model.no_training or not model.model_name_or_path):
        raise ValueError(
            "--apply_audit corrects a saved classifier: give it by --model_name_or_path, without --dataset_name, "
            "--task_name and --no_training."
        )
    if data.teacher:
        from ...classifier.teacher.endpoint_teacher import load_teacher

        load_teacher(data.teacher)  # a mistake in the address is found before the texts are embedded
    if data.teacher and not (data.unlabeled_name and model.no_training):
        raise ValueError(
            "--teacher is asked about documents: also give --no_training and documents by --unlabeled_name."
        )
    if data.hierarchy:
        if not (has_examples and makes_experts):
            raise ValueError(
                "--hierarchy is for experts that are fitted on labeled examples: also give --dataset_name, and "
                "--no_training or documents by --unlabeled_name."
            )
        read_hierarchy(data.hierarchy)  # a mistake in the file is found before the texts are embedded
    if data.unlabeled_name and not (data.dataset_name or data.task_name):
        raise ValueError("--unlabeled_name adds documents to labeled examples: give these by --dataset_name.")
    if not has_examples and not uses_classifier:
        raise ValueError(
            "--dataset_name must be given: a file, a folder, a data set on the Hub, or 'documentation' to try it on "
            "the documentation of installed packages. Or give a finished classifier, and texts by --predict."
        )
    if (data.unlabeled_name or model.no_training) and not datastore.store_texts:
        raise ValueError(
            "--no_store_texts does not work with --no_training or --unlabeled_name, because experts need the texts: "
            "leave it out."
        )
    if not model.no_training:
        _check_neighbors(given, model)
        return
    if run.world_size > 1:
        raise ValueError(
            f"--no_training runs in one process, not in {run.world_size}: run docsplit without accelerate launch."
        )
    training_options = {field.name for field in dataclasses.fields(RunArguments)} - ANY_RUN_OPTIONS | TRAINING_OPTIONS
    wrong = sorted(given & training_options)
    if wrong:
        advice = ""
        if "push_to_hub" in wrong:
            advice = " To push a finished classifier, call pipe.push_to_hub(name) in Python."
        raise ValueError(
            f"--no_training does not train the encoder, so it excludes --{', --'.join(wrong)}: leave out one or the "
            f"other.{advice}"
        )


def _check_remote(address: str, is_used: bool) -> None:
    if not is_address(address):
        raise ValueError(f"--datastore {address}: write milvus://HOST:19530/COLLECTION.")
    parse_address(address)
    if not is_used:
        raise ValueError("--datastore is for examples (--dataset_name) or answers (--predict): also give one of these.")


def _check_neighbors(given: set[str], model: ModelArguments) -> None:
    if model.neighbors_protocol != "fixed" and "knn_weight" in given:
        raise ValueError("--knn_weight needs --neighbors_protocol fixed: otherwise lambda is calibrated on examples.")
    if model.neighbors_protocol == "fixed" and model.knn_weight is None:
        raise ValueError("--neighbors_protocol fixed needs lambda, unless --task_name is given: add --knn_weight.")
    if model.knn_weight is not None and not 0 <= model.knn_weight <= 1:
        raise ValueError(f"--knn_weight must be from 0 to 1, got {model.knn_weight:g}.")
