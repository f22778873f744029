"""Repeated streams over epochs, workers and processes."""

from itertools import islice

import pytest
from datasets import Dataset
from torch.utils.data import DataLoader

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.streaming import EPOCH_KEY, RepeatedStream
from docsplit_hf.training import arguments


def stream(rows=6, shards=1):
    return Dataset.from_dict({"number": list(range(rows))}).to_iterable_dataset(num_shards=shards)


def test_each_row_has_the_number_of_its_epoch():
    rows = list(islice(RepeatedStream(stream(3)), 7))
    assert [(row["number"], row[EPOCH_KEY]) for row in rows] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]


def test_a_shuffled_stream_has_a_new_order_in_each_epoch_and_the_same_in_each_run():
    shuffled = RepeatedStream(stream(20).shuffle(seed=3, buffer_size=20))
    rows = [row["number"] for row in islice(shuffled, 40)]
    assert sorted(rows[:20]) == sorted(rows[20:]) == list(range(20))
    assert rows[:20] != rows[20:]
    assert [row["number"] for row in islice(shuffled, 40)] == rows


@pytest.mark.parametrize("shards, is_read_whole", [(2, False), (5, False), (1, True)])
def test_processes_and_their_workers_divide_a_stream(shards, is_read_whole, caplog):
    shuffled = stream(40, shards).shuffle(seed=3, buffer_size=10)
    for workers in (0, 2) if shards == 5 else (0,):
        numbers = []
        for process in (0, 1):
            loader = DataLoader(
                RepeatedStream(shuffled, process, 2), batch_size=1, num_workers=workers, collate_fn=list
            )
            rows = (row for (row,) in islice(loader, 60))
            numbers.append({row["number"] for row in rows if row[EPOCH_KEY] == 0})
        assert sorted([*numbers[0], *numbers[1]]) == list(range(40))
    assert ("reads and segments all of it" in caplog.text) == is_read_whole


def test_workers_without_a_shard_change_nothing_and_the_others_read_each_document_once(
    tiny_config, tokenizer, documents, tmp_path, monkeypatch
):
    monkeypatch.setattr(arguments, "training_device_type", lambda use_cpu: "cuda")
    monkeypatch.setattr(arguments, "core_count", lambda: 6)
    args = ContrastiveTrainingArguments(str(tmp_path), use_cpu=True, max_steps=9, per_device_train_batch_size=5)
    trainer = ContrastiveTrainer(
        model=AutoModelForDocSplit.from_config(tiny_config),
        args=args,
        train_dataset=documents.select(range(36)).to_iterable_dataset(num_shards=2),
        data_collator=DataCollatorForDocSplit(tokenizer, max_length=32),
    )
    assert args.dataloader_num_workers == 3
    # Each of two workers reads 18 documents, so that its first three batches are of the first epoch.
    batches = islice(trainer.get_train_dataloader(), 6)
    numbers = [number for batch in batches for number in batch["document_ids"].tolist()]
    assert len(set(numbers)) == len(numbers) == 30


def test_an_empty_stream_is_an_error():
    with pytest.raises(ValueError, match="no documents"):
        next(iter(RepeatedStream(stream(4).filter(lambda row: False))))
