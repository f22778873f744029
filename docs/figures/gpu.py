"""Runs on a GPU: docs/results/performance.md, and the papers' runs in docs/baselines.md."""

from __future__ import annotations

from typing import Any

from .pages import Figures, Row
from .records import chosen, content

ARTICLES = 172_745 * 36  # of the papers' epoch of English Wikipedia


def gpu() -> Figures:
    """Return the figures of the section about a GPU."""
    compiled = rate("BERT base", "compile_layers", mlm=False)
    before = rate("BERT base", "as before: not compiled", mlm=False)
    found = record()
    end_to_end = found["end_to_end"]
    return {
        "training on a GPU": step_rows(),
        "long documents on a GPU": long_rows(),
        "inference on a GPU": inference_rows(),
        "compiled over not": compiled / before,
        "tf32 over float32": one_step("float32 with --tf32")["documents_per_second"] / float32_rate(),
        "bf16 over float32": before / float32_rate(),
        "end to end": end_to_end["documents_per_second"],
        "bare": end_to_end["bare_documents_per_second"],
    }


def papers_on_a_gpu() -> Figures:
    """Return the hours of the papers' epoch on one GPU."""
    return {"papers on a GPU": papers_rows()}


def record() -> Any:
    return content("speed/second_gpu_runs.json")


def first_record() -> Any:
    return content("speed/first_gpu_runs.json")


def one_step(variant: str) -> Any:
    return next(row for row in record()["training_step"] if row["variant"].startswith(variant))


def rate(encoder: str, variant: str, mlm: bool) -> float:
    """Return the documents a second of the bare step with 128 documents."""
    [row] = chosen(record()["training_step"], encoder=encoder, variant=variant, mlm=mlm, documents=128)
    return row["documents_per_second"]


def float32_rate() -> float:
    return one_step("float32, not compiled")["documents_per_second"]


def step_rows() -> list[Row]:
    rows = []
    for row in record()["training_step"]:
        if "bf16_residual" in row["variant"]:  # an option that was not kept
            continue
        name = f"{row['encoder']}{' with MLM' if row['mlm'] else ''}, {row['variant']}"
        rows.append((
            name,
            str(row["documents"]),
            f"{row['documents_per_second']:,}",
            f"{100 * row['mfu']:.1f} %",
            f"{row['peak_gb']:.1f}",
        ))  # fmt: skip
    theirs = first_record()["training_step"]["rows"][-1]
    cells = (f"{theirs['documents_per_second']:,}", f"{100 * theirs['mfu']:.1f} %", f"{theirs['peak_gb']:.1f}")
    rows.append(("BERT base, sentence-transformers in bfloat16, tokenized beforehand (first runs)", "128", *cells))
    return rows


def long_rows() -> list[Row]:
    rows = []
    for row in record()["long_documents"]:
        limit = "the whole card" if row["memory_limit_gb"] is None else f"{row['memory_limit_gb']} GB"
        compiled = "compiled" if row["compiled"] else "not compiled"
        cells = (str(row["documents_per_forward"]), f"{row['documents_per_second']:.1f}", f"{row['peak_gb']:.1f}")
        rows.append((f"{row['encoder']}, {compiled}", limit, *cells))
    return rows


def inference_rows() -> list[Row]:
    rows = []
    for row in record()["inference"]["rows"]:
        rows.append((row["variant"], f"{row['max_tokens_per_batch']:,}", f"{row['best']:,}", f"{row['median']:,}"))
    return rows


def papers_rows() -> list[Row]:
    """Return documents a second with MLM and halves of the full length, hours, and memory."""
    long_documents = record()["long_documents"]
    [bert] = chosen(record()["training_step"], encoder="BERT base", variant="compile_layers", mlm=True)
    [longformer] = chosen(long_documents, encoder="Longformer base")
    [modernbert] = chosen(long_documents, encoder="ModernBERT base", compiled=True)
    rows = []
    for name, length, run in (
        ("BERT base", 256, bert),
        ("Longformer base", 4096, longformer),
        ("ModernBERT base", 4096, modernbert),
    ):
        per_second = run["documents_per_second"]
        hours = ARTICLES / per_second / 3600
        rows.append((name, f"{length:,}", f"{per_second:,.1f}", f"{hours:,.0f}", f"{run['peak_gb']:.0f}"))
    return rows
