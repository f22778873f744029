"""Arguments of ``docsplit classify``, in addition to those of TrainingArguments, and checks of their combinations."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.hf_argparser import HfArg

from ..datastore.milvus.connect import connect_datastore, is_remote, parse_address
from ..datastore.milvus.remote_datastore import RemoteDatastore
from ..encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..encoders.portable.configuration_knn_classifier import LONG_DOCUMENTS
from ..finetuning.arguments import KNNClassifierTrainingArguments
from ..text.paper_tasks import TASKS

TASK_OPTIONS = ("task_name", "validation_size", "max_train_examples", "max_test_examples", "unlabeled_name")
# Model options that --no_training refuses. It also refuses all of RunArguments except ANY_RUN_OPTIONS.
TRAINING_OPTIONS = {
    "use_peft", "lora_r", "classifier_activation", "retrieval_pooling", "decouple", "retrieval_dimension",
    "normalize", "neighbors_protocol", "knn_weight",
}  # fmt: skip
ANY_RUN_OPTIONS = {"output_dir", "overwrite_output_dir", "seed", "use_cpu", "bf16"}
EXPERT_OPTIONS = {"predict_explain", "predict_reject", "predict_novelty"}
MAIN_OPTIONS = (
    "model_name_or_path", "dataset_name", "text_column", "label_column", "test_size", "no_training", "unlabeled_name",
    "max_length", "long_documents", "num_train_epochs", "learning_rate", "bf16", "predict", "predict_output",
    "predict_explain", "predict_reject", "predict_novelty", "safe_csv", "audit", "seed", "output_dir",
    "resume_from_checkpoint",
)  # fmt: skip


@dataclass
class ModelArguments:
    """What to train."""

    _argument_group_name = "model"

    model_name_or_path: str | None = HfArg(
        default=None,
        help="An encoder on the Hub or a folder, a DocSplit checkpoint first of all. "
        f"Default: {DEFAULT_CHECKPOINT}, which ships.",
    )
    pooling: str | None = HfArg(default=None, help="cls, mean, max or last. Default: the encoder's own, or cls.")
    retrieval_pooling: str | None = HfArg(default=None, help="The same for looking up neighbors. Default: --pooling.")
    classifier_activation: str | None = HfArg(
        default=None,
        help="Put a dense layer with this activation before the classifier's last one, such as tanh: the stock head of "
        "RoBERTa. Default: none.",
    )
    decouple: bool = HfArg(default=True, help="Look for neighbors with a representation of their own.")
    retrieval_dimension: int | None = HfArg(default=None, help="Dimensions of it. Default: the encoder's.")
    normalize: bool = HfArg(default=False, help="Scale it to norm 1. The paper does not.")
    neighbors_protocol: str = HfArg(
        default="calibrated",
        help="How k, T and lambda of the neighbors are chosen: 'calibrated' on held-out examples; or 'fixed': the "
        "paper's k 64 and T 10, and lambda by --knn_weight.",
        metadata={"choices": ["calibrated", "fixed"]},
    )
    knn_weight: float | None = HfArg(
        default=None, help="Lambda of 'fixed', from 0 to 1. Default: the paper's, for a task of the paper."
    )
    max_length: int | None = HfArg(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str | None = HfArg(
        default=None,
        help="What is read of texts longer than --max_length. Their beginning ('first', the default in training), "
        "beginning and all together ('whole', the default with --no_training), beginning and end ('head_tail'), or all "
        "of it in passages, with one embedding ('average') or one for each ('passages', 'late'), so that an answer "
        "names the passage that decided. Training reads beginnings in any case.",
        metadata={"choices": list(LONG_DOCUMENTS)},
    )
    passage_length: int | None = HfArg(
        default=None, help="Longest passage in tokens. Default: --max_length; 256 with 'late'."
    )
    use_peft: bool = HfArg(
        default=False,
        help="Train LoRA adapters in the encoder; they are merged at the end. Needs pip install -e '.[peft]'.",
    )
    lora_r: int = HfArg(default=16, help="Rank of the LoRA adapters.")
    no_training: bool = HfArg(
        default=False,
        help="Take the encoder as it is, and train nothing. Experts on its embeddings and on the words learn from the "
        "labeled examples, and from --unlabeled_name. Takes seconds once all is embedded; best where labels are "
        "few.",
    )


@dataclass
class DataArguments:
    """What to train on."""

    _argument_group_name = "data"

    dataset_name: str | None = HfArg(
        default=None,
        help="A file, a folder, or a data set on the Hub. A file is .jsonl, .json, .csv, .tsv or .parquet; a folder "
        "has train, and maybe validation and test, in such files, or a folder of .txt files for each class. "
        "'documentation', that of installed packages, by package, is there to try it on.",
    )
    task_name: str | None = HfArg(
        default=None,
        help=f"Instead: a task of the paper, one of {', '.join(TASKS)}. Its encoder, batch, learning rate, epochs, "
        "warm-up and length are the paper's (table 3), but for those that you give.",
    )
    unlabeled_name: str | None = HfArg(
        default=None,
        help="Documents without labels, from which experts learn too. A file as for --dataset_name, with the same "
        "--text_column; a .txt file with one in each line; a folder of .txt files; or a data set on the Hub.",
    )
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    text_pair_column: str | None = HfArg(default=None, help="The column with the second texts, for pairs.")
    label_column: str = HfArg(default="label", help="The column with the labels: names or numbers, or lists of them.")
    label_separator: str | None = HfArg(default=None, help="What separates the labels of a text in one string.")
    merge_labels: bool = HfArg(
        default=False,
        help="Make one of labels that differ only by case, Unicode form or white space around them: the most frequent. "
        "Without it, a warning names them.",
    )
    id_column: str | None = HfArg(default=None, help="The column with names for the examples.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of a .csv file, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    train_split: str = HfArg(default="train", help="Split of a data set on the Hub to train on.")
    validation_split: str | None = HfArg(default=None, help="Split of it to calibrate on. Default: held out.")
    test_split: str | None = HfArg(default=None, help="Split of it to report on.")
    validation_size: float = HfArg(
        default=0.1,
        help="Where there is no validation split: the share, or the number, of examples to hold out. With "
        "--no_training none is held out unless you give it: folds of the examples choose.",
    )
    test_size: float = HfArg(
        default=0, help="Where there is no test split: the share, or the number, of examples to report on."
    )
    max_train_examples: int | None = HfArg(default=None, help="Train on a random sample of this many.")
    max_test_examples: int | None = HfArg(default=None, help="Report on a random sample of this many.")

    def __post_init__(self) -> None:
        if self.dataset_name is not None and self.task_name is not None:
            raise ValueError("Give one of --dataset_name and --task_name, not both: both name what to train on.")
        for field in dataclasses.fields(self) if self.task_name else ():
            if field.name not in TASK_OPTIONS and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name} is for --dataset_name: a task of the paper has its own columns.")


@dataclass
class DatastoreArguments:
    """How the training set is kept."""

    _argument_group_name = "datastore"

    store_texts: bool = HfArg(default=True, help="Keep the texts, to show them as neighbors.")
    keys_dtype: str = HfArg(
        default="float32", help="float32, or float16 for half the size.", metadata={"choices": ["float32", "float16"]}
    )
    index: str = HfArg(default="Flat", help="A FAISS index_factory string. Flat is exact, and right to 200,000 rows.")
    nprobe: int | None = HfArg(default=None, help="Lists of an IVF index to search.")
    rerank: int | None = HfArg(default=None, help="Look up this many times k, and choose exactly among them.")
    datastore: str | None = HfArg(
        default=None,
        help="A collection of Milvus, milvus://HOST:19530/COLLECTION: the examples are put there too, after they were "
        "learned from. With --predict alone, neighbors are looked up there. Needs pip install -e '.[milvus]'.",
    )
    datastore_token_variable: str | None = HfArg(
        default=None, help="The name of the environment variable with the token of that server, if it asks for one."
    )

    def index_options(self) -> dict[str, str | int | None]:
        """Return the options of ``KNNDatastore`` for its keys and its index."""
        return {"dtype": self.keys_dtype, "index": self.index, "nprobe": self.nprobe, "rerank": self.rerank}

    def connect(self, **new: Any) -> RemoteDatastore:
        """Connect to the collection; ``new`` has the properties to create it with, if it does not exist."""
        return connect_datastore(self.datastore, token_variable=self.datastore_token_variable, **new)


@dataclass
class PredictionArguments:
    """What to classify, after training or, without --dataset_name and --task_name, by a saved classifier."""

    _argument_group_name = "prediction"

    predict: str | None = HfArg(
        default=None,
        help="Texts to classify, in a file or a folder. A .jsonl, .json, .csv, .tsv, .parquet or .txt file, .gz too, "
        "or a folder of .txt files, with the same --text_column. Nothing is trained if neither --dataset_name nor "
        "--task_name is given: the classifier is then --model_name_or_path, or the one in --output_dir.",
    )
    predict_output: str = HfArg(
        default="answers.csv",
        help="The file for the answers, .csv, .jsonl or .parquet. It has the columns of --predict, label and score. "
        "After an interruption the same command continues; after training, without --dataset_name and --task_name, "
        "and with the classifier as --model_name_or_path. --overwrite_output_dir replaces it.",
    )
    predict_top_k: int | None = HfArg(default=None, help="Also give this many labels of each text, with their scores.")
    predict_neighbors: int = HfArg(default=0, help="Also give this many of the nearest examples of each text.")
    predict_explain: bool = HfArg(
        default=False, help="Also give why each text has its label, by experts (--no_training or --unlabeled_name)."
    )
    predict_reject: float | None = HfArg(
        default=None,
        help="Give a label only where at most this share of the labels is wrong, such as 0.05, by experts "
        "(--no_training or --unlabeled_name). Also gives how novel each text is, from 0 to 1.",
    )
    predict_novelty: float | None = HfArg(
        default=None,
        help="With --predict_reject: give no label to texts that seem to be of none, so that at most this share of the "
        "texts of known labels is lost, such as 0.05; 0: only to the least familiar in a hundred. Default: 0.05 where "
        "documents without labels seem to be of other labels, which is printed when all is fitted, and 0 elsewhere.",
    )
    max_passages: int | None = HfArg(
        default=None,
        help="Read so many passages of each of these texts at most, where long ones are read whole or in passages. How "
        "much is not read is logged. Default: all.",
    )
    safe_csv: bool = HfArg(
        default=False,
        help="Make a .csv file of answers safe to open in a spreadsheet, which runs cells that begin with =, +, -, @ "
        "or a tab as formulas: one in a stranger's text may send your data away. Texts, labels and column names are "
        "quoted, and an apostrophe is put before such a character; numbers stay as they are. A last column then marks "
        "the file, and docsplit reads it without the apostrophes. Other programs see them, so this is not the default.",
    )

    def __post_init__(self) -> None:
        if self.predict_top_k is not None and self.predict_top_k < 1:
            raise ValueError(f"--predict_top_k must be at least 1, got {self.predict_top_k}.")
        if self.predict_neighbors < 0:
            raise ValueError(f"--predict_neighbors must be at least 0, got {self.predict_neighbors}.")
        if self.predict_reject is None:
            if self.predict_novelty is not None:
                raise ValueError("--predict_novelty is a second limit beside that of --predict_reject: give both.")
            return
        if not 0 < self.predict_reject < 1:
            raise ValueError(f"--predict_reject must be between 0 and 1, such as 0.05, got {self.predict_reject}.")
        if self.predict_novelty is not None and not 0 <= self.predict_novelty < 1:
            raise ValueError(f"--predict_novelty must be from 0 to below 1, such as 0.05, got {self.predict_novelty}.")
        if self.predict_top_k is not None:
            raise ValueError("--predict_reject gives a text one answer or none: leave out --predict_top_k.")


@dataclass
class AuditArguments:
    """Find wrong labels and duplicate examples: after --no_training, or in a saved classifier."""

    _argument_group_name = "audit"

    audit: str | None = HfArg(
        default=None,
        help="A .json file for possible errors in the examples. It lists which labels the others contradict, which "
        "examples are copies or near nothing, and which labels are hard to tell apart. After --no_training, "
        "where folds choose what each expert counts; or, without --dataset_name, of the classifier in "
        "--model_name_or_path. Nothing is changed.",
    )
    apply_audit: str | None = HfArg(
        default=None,
        help="Such a file, which you have read and edited: give the suggested labels to the label_issues with "
        "'apply', remove the examples under 'remove', fit again, and save the classifier in --model_name_or_path.",
    )

    def is_alone(self, model: ModelArguments, data: DataArguments) -> bool:
        """Return whether a saved classifier is audited, and none is fitted first."""
        return bool(self.audit or self.apply_audit) and not (data.dataset_name or data.task_name or model.no_training)

    def check_target(self, overwrite: bool) -> None:
        """Refuse to overwrite an audit that a person may have edited, or to write another format than JSON."""
        if self.audit and Path(self.audit).suffix.lower() != ".json":
            raise ValueError(f"{self.audit}: an audit is written as JSON, so let --audit end in .json.")
        if self.audit and Path(self.audit).exists() and not overwrite:
            raise ValueError(f"{self.audit} is there: give --audit another name, or --overwrite_output_dir.")
        if self.audit:
            Path(self.audit).parent.mkdir(parents=True, exist_ok=True)


@dataclass
class RunArguments(KNNClassifierTrainingArguments):
    """How to train: the paper's recipe, evaluated and saved after each epoch."""

    _argument_group_name = "training"

    output_dir: str = HfArg(default="output/classification", help="Where checkpoints and the classifier are saved.")
    overwrite_output_dir: bool = HfArg(
        default=False,
        help="Write to output_dir even if it is not empty; checkpoints there are set aside, in _overwritten/.",
    )
    per_device_eval_batch_size: int = HfArg(default=64, help="Texts per process in evaluation.")
    logging_steps: float = HfArg(default=10, help="Steps between two logs.")
    eval_strategy: str = HfArg(default="epoch", help="When to evaluate: no, steps or epoch.")
    save_strategy: str = HfArg(default="epoch", help="When to save a checkpoint: no, steps, epoch or best.")
    save_total_limit: int | None = HfArg(default=1, help="Checkpoints to keep beside the best.")
    load_best_model_at_end: bool = HfArg(default=True, help="End with the checkpoint that is best on held-out data.")
    resume_from_checkpoint: str | None = HfArg(
        default=None, help="'last', or a folder checkpoint-<step>, to go on from."
    )


def check_options(
    given: set[str], model: ModelArguments, data: DataArguments, datastore: DatastoreArguments, run: RunArguments
) -> None:
    """Refuse options that contradict each other; ``given`` are the names of those on the command line."""
    answer_options = {name for name in given if name.startswith("predict_")} | given & {"safe_csv", "max_passages"}
    if answer_options and "predict" not in given:
        raise ValueError(f"--{sorted(answer_options)[0]} is about the answers to a file: give it by --predict.")
    has_examples = bool(data.dataset_name or data.task_name)
    makes_experts = model.no_training or data.unlabeled_name
    if (expert_options := given & EXPERT_OPTIONS) and has_examples and not makes_experts:
        raise ValueError(
            f"--{min(expert_options)} needs fitted experts, which training alone does not make: give documents without "
            "labels by --unlabeled_name, or --no_training."
        )
    uses_classifier = given & ({"predict"} if model.no_training else {"predict", "audit", "apply_audit"})
    if datastore.datastore is not None:
        _check_remote(datastore.datastore, has_examples or model.no_training or "predict" in given)
    if "audit" in given and has_examples and not model.no_training:
        raise ValueError(
            "--audit cannot check labels that a classifier was trained on: it has seen them all. Audit them with the "
            "encoder as it is (--no_training), correct them (--apply_audit), then train."
        )
    if "apply_audit" in given and (has_examples or model.no_training or not model.model_name_or_path):
        raise ValueError(
            "--apply_audit corrects a classifier that is there: give it by --model_name_or_path, without "
            "--dataset_name, --task_name and --no_training."
        )
    if data.unlabeled_name and not (data.dataset_name or data.task_name):
        raise ValueError(
            "--unlabeled_name adds documents to labeled examples, and there are none: give them by --dataset_name."
        )
    if not has_examples and not uses_classifier:
        raise ValueError(
            "--dataset_name must be given: a file, a folder, or a data set on the Hub; 'documentation', that of "
            "installed packages, by package, is there to try it on. Or a finished classifier, and texts to --predict."
        )
    if (data.unlabeled_name or model.no_training) and not datastore.store_texts:
        raise ValueError(
            "--no_store_texts does not go with --no_training and --unlabeled_name: experts read the words of the texts "
            "that are kept."
        )
    if not model.no_training:
        _check_neighbors(given, model)
        return
    if run.world_size > 1:
        raise ValueError(
            f"--no_training is the work of one process, not of {run.world_size}: run the script by python, without "
            "accelerate launch."
        )
    training_options = {field.name for field in dataclasses.fields(RunArguments)} - ANY_RUN_OPTIONS | TRAINING_OPTIONS
    if wrong := sorted(given & training_options):
        to_push = " A finished classifier is pushed from Python: pipe.push_to_hub(name)." * ("push_to_hub" in wrong)
        raise ValueError(
            f"--no_training takes the encoder as it is, and has no use for --{', --'.join(wrong)}: leave out one or "
            f"the other.{to_push}"
        )


def _check_remote(address: str, is_used: bool) -> None:
    if not is_remote(address):
        raise ValueError(f"--datastore {address}: write milvus://HOST:19530/COLLECTION.")
    parse_address(address)
    if not is_used:
        raise ValueError("--datastore is for examples (--dataset_name) or answers (--predict): give one of them, too.")


def _check_neighbors(given: set[str], model: ModelArguments) -> None:
    if model.neighbors_protocol != "fixed" and "knn_weight" in given:
        raise ValueError("--knn_weight is for --neighbors_protocol fixed: otherwise lambda is chosen on examples.")
    if model.neighbors_protocol == "fixed" and model.knn_weight is None:
        raise ValueError("--neighbors_protocol fixed needs lambda, as this is no task of the paper: add --knn_weight.")
    if model.knn_weight is not None and not 0 <= model.knn_weight <= 1:
        raise ValueError(f"--knn_weight must be from 0 to 1, got {model.knn_weight:g}.")
