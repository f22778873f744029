"""Bare training steps on a GPU, with the batches on it already, beside sentence-transformers at its best.

    python -m benchmarks.speed.gpu_step                                  # BERT base in shape, random weights
    python -m benchmarks.speed.gpu_step --texts articles.jsonl --record output/steps.jsonl
    python -m benchmarks.speed.gpu_step --halves full --batches 256 --only docsplit_hf
    python -m benchmarks.speed.gpu_step --dry_run                        # tiny, also on a CPU

A bare step is forward, backward, clipping and the optimizer, in bfloat16, without data loading, logging and callbacks.
ContrastiveTrainer runs with the defaults of docsplit_hf, without MLM and with it, and with single options changed.
sentence-transformers (MultipleNegativesRankingLoss, scale 20, fused AdamW) gets the same halves, tokenized beforehand:
with bfloat16 autocast, with weights in bfloat16, compiled, with flash attention and its own unpadding if flash-attn is
installed, and with CachedMultipleNegativesRankingLoss.

Halves are "full", of --max_length tokens, made from several documents, or "natural", those of single documents, cut at
--max_length. The competitors take turns in each setting; the figures are medians. The MFU is the share of the peak
that a large matrix product attains. The peak memory is that of a competitor alone. The set-up has its very first steps,
which includes compiling, and the warm-up the first three steps of a setting; graphs are those that torch compiled.
"""

import argparse
import dataclasses
import gc
import importlib.util
import logging
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.util import batch_to_device
from torch._dynamo.utils import counters
from transformers import AutoModelForMaskedLM, PreTrainedModel, PrinterCallback, ProgressCallback, TrainerCallback

from benchmarks.inputs import (
    DEVICE,
    argument_parser,
    prepare_large_checkpoint,
    sentence_transformer,
)
from benchmarks.speed.gpu_record import GIGABYTE, append_record, this_card
from benchmarks.speed.side_by_side import forward_flops, head_flops, matmul_peak, now, ran_on, take_turns
from benchmarks.speed.timed_training import load_segmented, make_collator
from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments
from docsplit_hf.training.markdown import table

Batch = dict[str, torch.Tensor]
Features = dict[str, Any]  # what sentence-transformers makes of texts: tensors, and the numbers of its unpadding

OURS = "docsplit_hf"
OURS_MLM = "docsplit_hf with MLM"
THEIRS = "sentence-transformers"
RATE = 5e-5
RUN_STEPS = 2000  # of the run whose first steps set a trainer up: long enough for what pays in long runs only
SETUP_STEPS = 2
SETUP_BATCH = 8  # documents
WARM_UP_STEPS = 3


class Batches(NamedTuple):
    """The batches of a setting, in each competitor's form."""

    plain: list[Batch]
    masked: list[Batch]  # the same views, and a masked copy
    texts: list[tuple[list[str], list[str]]]  # of each batch, the first halves and the second halves


class Setting(NamedTuple):
    """The batches that the competitors take turns with."""

    halves: str  # "full" or "natural"
    batch: int
    batches: Batches


class Compiling(NamedTuple):
    """The cost of first steps."""

    seconds: float
    graphs: int


class Competitor(NamedTuple):
    """A model in training. A step takes what ``prepare`` made of a batch."""

    name: str
    mlm: bool
    prepare: Callable[[Batches], list[Any]]
    step: Callable[[Any], None]
    own_memory: int  # bytes of its weights and optimizer
    set_up: Compiling  # its very first steps


class Figures(NamedTuple):
    """What was measured of a competitor in a setting."""

    seconds: list[float]  # of each round; NaN where it did not fit into memory
    peak_gb: float
    warm_up: Compiling

    @property
    def fits(self) -> bool:
        return not any(map(math.isnan, self.seconds))


def main() -> None:
    parser = argument_parser(__doc__, rounds=3)
    add = parser.add_argument
    add("--halves", nargs="+", choices=("full", "natural"), default=["full", "natural"], help="Default: both.")
    add("--batches", type=int, nargs="+", default=[256, 128], help="Documents of a step. Default: %(default)s.")
    add("--documents", type=int, default=1024, help="Of each round. Default: %(default)s.")
    add("--mini_batch", type=int, default=64, help="Of the cached loss. Default: %(default)s.")
    add("--only", nargs="+", default=[""], help="First letters of the competitors. Default: all.")
    add("--skip", nargs="+", default=[], help="First letters of competitors to leave out.")
    add("--defaults", action="store_true", help="Only docsplit_hf with its defaults, without MLM and with it.")
    add("--record", type=Path, help="A JSONL file to add a line for each competitor and setting to.")
    add("--dry_run", action="store_true", help="Tiny sizes, also on a CPU.")
    options = parser.parse_args()
    if options.dry_run:
        options.batches = [4]
        options.documents = 8
        options.max_length = 32
        options.mini_batch = 2
        options.rounds = 1
    elif DEVICE == "cpu":
        raise SystemExit("There is no GPU here: --dry_run tries the script on the CPU.")
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    torch._dynamo.config.recompile_limit = 64  # all competitors share the code of the layers
    with tempfile.TemporaryDirectory() as folder:
        prepare_large_checkpoint(options, folder)
        measure(options, folder)


def measure(options: argparse.Namespace, folder: str) -> None:
    """Run all competitors in all settings, and print a table of each."""
    card = this_card()
    peak = matmul_peak() if DEVICE == "cuda" else math.nan
    print(f"{card.describe()}, peak {peak / 1e12:,.0f} TFLOP/s. {options.rounds} rounds. {ran_on()}", flush=True)
    documents = load_segmented(options, folder, options.documents)
    competitors = set_up(options, folder, documents)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    for halves in options.halves:
        chosen = join_documents(documents, 4 * options.max_length) if halves == "full" else documents
        for batch in options.batches:
            batches = make_batches(options, folder, chosen, batch)
            setting = Setting(halves, batch, batches)
            print(f"\n{describe(setting, options)}", flush=True)
            figures = take_turns_in(setting, competitors, options.rounds)
            documents_of_round = len(batches.plain) * batch
            rates = {name: documents_of_round / statistics.median(found.seconds) for name, found in figures.items()}
            theirs = [rate for name, rate in rates.items() if name.startswith(THEIRS) and figures[name].fits]
            rows = []
            for competitor in competitors:
                found = figures[competitor.name]
                rate = rates[competitor.name]
                share = rate / documents_of_round * step_flops(model, setting, competitor.mlm) / peak
                ratio = math.nan if competitor.mlm or not theirs else rate / max(theirs)
                rows.append(cells(competitor.name, found, rate, share, ratio))
                if options.record:
                    append_record(options.record, record_of(setting, competitor, found, rate, share))
            header = ("", "documents/s", "times theirs at its best", "MFU", "peak GB", "warm-up, s", "graphs")
            print(table(header, rows), flush=True)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()


def cells(name: str, found: Figures, rate: float, share: float, ratio: float) -> tuple[str, ...]:
    if not found.fits:
        return (name, "does not fit", "", "", "", "", "")
    return (
        name,
        f"{rate:,.0f}",
        "" if math.isnan(ratio) else f"{ratio:.2f}",
        "" if math.isnan(share) else f"{100 * share:.1f} %",
        f"{found.peak_gb:.1f}",
        f"{found.warm_up.seconds:.1f}",
        str(found.warm_up.graphs),
    )


def record_of(
    setting: Setting, competitor: Competitor, found: Figures, rate: float, share: float
) -> Mapping[str, object]:
    return {
        "measured": "bare training step",
        "name": competitor.name,
        "halves": setting.halves,
        "batch": setting.batch,
        "tokens_per_half": tokens_per_half(setting.batches.plain),
        "fits": found.fits,
        "seconds": found.seconds if found.fits else None,
        "documents": len(setting.batches.plain) * setting.batch,
        "documents_per_second": rate if found.fits else None,
        "mfu": share if found.fits and not math.isnan(share) else None,
        "peak_gb": found.peak_gb if found.fits else None,
        "warm_up_seconds": found.warm_up.seconds,
        "warm_up_graphs": found.warm_up.graphs,
        "set_up_seconds": competitor.set_up.seconds,
        "set_up_graphs": competitor.set_up.graphs,
    }


# The inputs.


def join_documents(documents: Dataset, tokens: int) -> Dataset:
    """As many documents, each made longer by those that follow it until it has ``tokens`` tokens."""
    ids = list(documents["input_ids"])
    lengths = list(documents["sentence_lengths"])
    joined_ids = []
    joined_lengths = []
    for first in range(len(ids)):
        document_ids: list[int] = []
        sentence_lengths: list[int] = []
        number = first
        while len(document_ids) < tokens:
            document_ids = document_ids + list(ids[number % len(ids)])
            sentence_lengths = sentence_lengths + list(lengths[number % len(ids)])
            number += 1
        joined_ids.append(document_ids)
        joined_lengths.append(sentence_lengths)
    return Dataset.from_dict({"input_ids": joined_ids, "sentence_lengths": joined_lengths})


def make_batches(options: argparse.Namespace, folder: str, documents: Dataset, batch: int) -> Batches:
    plain = make_collator(folder, options.max_length, mlm=False)
    masked = make_collator(folder, options.max_length, mlm=True)
    made = Batches(plain=[], masked=[], texts=[])
    for start in range(0, len(documents) - batch + 1, batch):
        rows = list(documents.select(range(start, start + batch)))
        made.plain.append(plain(rows))
        made.masked.append(masked(rows))
        halves = plain.tokenizer.batch_decode(made.plain[-1]["input_ids"], skip_special_tokens=True)
        made.texts.append((halves[:batch], halves[batch:]))
    return made


def tokens_per_half(batches: Sequence[Batch]) -> float:
    return float(np.mean([batch["attention_mask"].sum(1).float().mean().item() for batch in batches]))


def describe(setting: Setting, options: argparse.Namespace) -> str:
    tokens = tokens_per_half(setting.batches.plain)
    steps = len(setting.batches.plain)
    return (
        f"{setting.halves} halves of {tokens:.0f} tokens, cut at {options.max_length}: "
        f"{steps} steps of {setting.batch} documents a round."
    )


def step_flops(model: PreTrainedModel, setting: Setting, mlm: bool) -> float:
    """Operations of all steps of a round: three forward passes of each view, and of the head on masked tokens only."""
    batches = setting.batches.masked
    lengths = [length for batch in batches for length in batch["attention_mask"].sum(1).tolist()]
    views = 3 * forward_flops(model, lengths)
    if not mlm:
        return views
    masked = sum(int((batch["mlm_labels"] >= 0).sum()) for batch in batches)
    return 2 * views + 3 * head_flops(model, masked)


# The competitors.


def set_up(options: argparse.Namespace, folder: str, documents: Dataset) -> list[Competitor]:
    """Make all competitors, and print why others are left out."""
    makers: dict[str, Callable[[str], Competitor]] = {}
    for mlm in (False, True):
        own = OURS_MLM if mlm else OURS
        for changed in ({}, {"compile_layers": "off"}):
            name = ", ".join([own, *(f"{option}={value}" for option, value in changed.items())])
            makers[name] = lambda name, mlm=mlm, changed=changed: our_competitor(name, folder, documents, mlm, changed)
    for kind in (Theirs("autocast"), Theirs("bfloat16 weights", dtype="bfloat16"), Theirs("compiled", compiled=True)):
        makers[f"{THEIRS}, {kind.name}"] = lambda name, kind=kind: their_competitor(name, folder, options, kind)
    flash = Theirs("flash attention, unpadded", dtype="bfloat16", attention="flash_attention_2")
    makers[f"{THEIRS}, {flash.name}"] = lambda name: their_competitor(name, folder, options, flash)
    cached = Theirs("cached loss", mini_batch=options.mini_batch)
    makers[f"{THEIRS}, {cached.name}"] = lambda name: their_competitor(name, folder, options, cached)
    competitors = []
    for name, make in makers.items():
        if not name.startswith(tuple(options.only)) or (options.defaults and name not in (OURS, OURS_MLM)):
            continue
        if options.skip and name.startswith(tuple(options.skip)):
            continue
        try:
            competitor = make(name)
        except UnavailableError as reason:
            print(f"Left out: {name}: {reason}.", flush=True)
        else:
            set_up = competitor.set_up
            print(f"{name}: set up in {set_up.seconds:.1f} s, {set_up.graphs} graphs.", flush=True)
            competitors.append(competitor)
    return competitors


class UnavailableError(Exception):
    """A competitor cannot run with the installed libraries."""


class StopAfterSetup(TrainerCallback):
    """Stop after the steps that set a trainer up."""

    def on_step_end(self, args, state, control, **kwargs) -> None:
        control.should_training_stop = state.global_step >= SETUP_STEPS


def our_competitor(name: str, folder: str, documents: Dataset, mlm: bool, changed: Mapping[str, object]) -> Competitor:
    fields = {field.name for field in dataclasses.fields(ContrastiveTrainingArguments)}
    for option in changed:
        if option not in fields:
            raise UnavailableError(f"there is no option {option}")
    before = allocated()
    with tempfile.TemporaryDirectory() as output:
        arguments = ContrastiveTrainingArguments(
            output,
            max_steps=RUN_STEPS,
            per_device_train_batch_size=SETUP_BATCH,
            learning_rate=RATE,
            forward_chunk_size=None,  # a batch that does not fit is shown as such
            bf16=True,
            use_cpu=DEVICE == "cpu",
            dataloader_num_workers=0,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            mlm_weight=0.1 if mlm else 0.0,
            **changed,
        )
        trainer = ContrastiveTrainer(
            model=AutoModelForDocSplit.from_pretrained(folder, pooling="mean", mlm_head=mlm),
            args=arguments,
            train_dataset=documents.select(range(min(len(documents), SETUP_STEPS * SETUP_BATCH))),
            data_collator=make_collator(folder, 32, mlm),
            callbacks=[StopAfterSetup()],
        )
        for printing in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(printing)
        set_up = measure_compiling(trainer.train)

    def prepare(batches: Batches) -> list[Batch]:
        return [batch_to_device(dict(batch), DEVICE) for batch in (batches.masked if mlm else batches.plain)]

    def step(batch: Batch) -> None:
        trainer.training_step(trainer.model, batch)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()

    trainer.optimizer.zero_grad()
    return Competitor(name, mlm, prepare, step, own_memory=allocated() - before, set_up=set_up)


class Theirs(NamedTuple):
    """A way to train with sentence-transformers."""

    name: str
    dtype: str = "float32"  # of the weights; float32 weights run under bfloat16 autocast
    attention: str | None = None
    compiled: bool = False
    mini_batch: int | None = None


def their_competitor(name: str, folder: str, options: argparse.Namespace, kind: Theirs) -> Competitor:
    if kind.attention == "flash_attention_2":
        if DEVICE == "cpu":
            raise UnavailableError("flash attention needs a GPU")
        if importlib.util.find_spec("flash_attn") is None:
            raise UnavailableError("flash-attn is not installed")
    before = allocated()
    model = sentence_transformer(folder, options.max_length, kind.dtype, kind.attention).train()
    if kind.attention == "flash_attention_2" and not model[0].can_flatten_inputs:
        raise UnavailableError("this version does not leave the padding out with it")
    if kind.compiled:
        encoder = model[0].auto_model
        backend = "eager" if DEVICE == "cpu" else "inductor"  # a dry run is short
        encoder.forward = torch.compile(encoder.forward, dynamic=True, backend=backend)  # called without __call__
    if kind.mini_batch is None:
        loss = MultipleNegativesRankingLoss(model, scale=20.0)
    else:
        loss = CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=kind.mini_batch)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0, fused=True)

    def autocast() -> AbstractContextManager:
        return torch.autocast(DEVICE, torch.bfloat16) if kind.dtype == "float32" else nullcontext()

    def prepare(batches: Batches) -> list[list[Features]]:
        pairs = []
        for halves in batches.texts:
            pairs.append([batch_to_device(model.preprocess(texts), DEVICE) for texts in halves])
        return pairs

    def step(pair: list[Features]) -> None:
        features = [dict(half) for half in pair]  # the model adds its outputs to them
        with autocast():
            value = loss(features, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    texts = [f"Text number {number}, of some words." for number in range(2 * SETUP_BATCH)]
    pair = prepare(Batches(plain=[], masked=[], texts=[(texts[:SETUP_BATCH], texts[SETUP_BATCH:])]))[0]
    set_up = measure_compiling(lambda: step(pair))
    return Competitor(name, False, prepare, step, own_memory=allocated() - before, set_up=set_up)


def measure_compiling(steps: Callable[[], object]) -> Compiling:
    graphs = counters["stats"]["unique_graphs"]
    start = now()
    steps()
    return Compiling(now() - start, counters["stats"]["unique_graphs"] - graphs)


# The turns.


def allocated() -> int:
    """Bytes that torch holds on the GPU."""
    if DEVICE == "cpu":
        return 0
    gc.collect()
    return torch.cuda.memory_allocated()


class Turn:
    """The turns of a competitor in a setting: its seconds, its peak memory, and its warm-up."""

    def __init__(self, competitor: Competitor, batches: Batches) -> None:
        self.competitor = competitor
        self.prepared = competitor.prepare(batches)
        self.peak = 0
        self.warm_up: Compiling | None = None

    def run(self) -> float:
        """Run all steps, and return their seconds; the first turn begins with the warm-up."""
        if self.warm_up is None:
            self.warm_up = Compiling(math.nan, 0)
            self.warm_up = measure_compiling(self.first_steps)
        self.competitor.step(self.prepared[0])  # the allocator's blocks are those of the competitor before
        if DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        start = now()
        for batch in self.prepared:
            self.competitor.step(batch)
        seconds = now() - start
        if DEVICE == "cuda":
            self.peak = torch.cuda.max_memory_allocated() - before + self.competitor.own_memory
        return seconds

    def first_steps(self) -> None:
        for number in range(WARM_UP_STEPS):
            self.competitor.step(self.prepared[number % len(self.prepared)])

    def figures(self, seconds: list[float]) -> Figures:
        return Figures(seconds, self.peak / GIGABYTE, self.warm_up or Compiling(math.nan, 0))


def take_turns_in(setting: Setting, competitors: Sequence[Competitor], rounds: int) -> dict[str, Figures]:
    """The figures of all competitors in a setting."""
    turns = {competitor.name: Turn(competitor, setting.batches) for competitor in competitors}
    seconds = take_turns(rounds, {name: turn.run for name, turn in turns.items()})
    return {name: turn.figures(seconds.rounds[name]) for name, turn in turns.items()}


if __name__ == "__main__":
    main()
