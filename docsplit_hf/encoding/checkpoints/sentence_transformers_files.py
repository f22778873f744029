"""Read and write a checkpoint's files for sentence-transformers: pooling, maximum length, dense layers, prompts.

The files may come from strangers, so their content is checked.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HFValidationError
from safetensors.torch import load_file
from torch import nn
from transformers import PretrainedConfig

from ...storage.inside_folder import write_file
from ..portable.run_encoder import ACTIVATIONS, UnitNorm
from .checked_files import ANOTHER_ENCODER

logger = logging.getLogger(__name__)

POOLING_MODES = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "last": "lasttoken"}
MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
LIBRARY = "sentence_transformers."  # modules of other packages are code in the checkpoint's repository
WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"  # the only weights of some released checkpoints, such as INSTRUCTOR's
OTHER_EMBEDDINGS = "the embeddings would not be the same. Use sentence-transformers for it."
INSTRUCTOR = "instructor"  # its files do not state that its pooling leaves out the prompt
# The pooling of released checkpoints without a stated one, as in their authors' code, by the beginning of their name.
RELEASED_POOLINGS = {
    "facebook/contriever": "mean",
    "facebook/mcontriever": "mean",
    "Contrastive-Tension/": "mean",
    "princeton-nlp/unsup-simcse-": "cls",  # its MLP head is for training only
}
PROMPTS = "config_sentence_transformers.json"
CLASSIFICATION = "classification"  # the usual name of a prompt for classification, in upper or lower case
# The prompts of released checkpoints whose files state none, as their authors describe them, by their names.
RELEASED_PROMPTS = {
    r"(multilingual-)?e5-(small|base|large)(-v2)?": "query: ",
    r"nomic-embed-text-v1(\.5)?": "classification: ",
}


def checkpoint_settings(
    name: str,
    config: PretrainedConfig | None,
    revision: str | None = None,
    with_projection: bool = False,
    **hub_arguments: Any,
) -> dict[str, Any]:
    """The settings that a checkpoint states, in ``config.docsplit`` or for sentence-transformers.

    They are ``pooling``, ``max_length``, and ``include_prompt``, whether a prompt's own tokens are pooled.

    ``config``: None for an adapter. ``with_projection``: accept dense layers after the pooling.
    """
    saved = getattr(config, "docsplit", None)
    if saved:
        unknown = sorted(set(saved) - {"pooling", "max_length"})
        if unknown:  # a misspelled name would have no effect
            raise ValueError(f"config.docsplit of {name} has {unknown[0]!r}: it may have pooling and max_length only.")
        _check_length(f"config.docsplit of {name} has max_length", saved.get("max_length"))
        return dict(saved)
    settings: dict[str, Any] = {}
    files = {"revision": revision} | hub_arguments
    modules = _modules(name, files)
    _check_order(name, [kind for kind, _ in modules], with_projection)
    pooling_folders = [folder for kind, folder in modules if kind == "Pooling"]
    folder = pooling_folders[-1] if pooling_folders else "1_Pooling"
    pooling = read_json(name, f"{folder}/config.json", **files)
    if pooling is not None:
        settings["pooling"] = _pooling_mode(name, pooling)
        is_instructor = INSTRUCTOR in Path(name).name.lower()
        settings["include_prompt"] = pooling.get("include_prompt", not is_instructor) is not False
    elif known := _released_pooling(name, config):
        logger.warning("%s states no pooling. It was trained with %r, which is used by default.", name, known)
        settings["pooling"] = known
    length = (read_json(name, "sentence_bert_config.json", **files) or {}).get("max_seq_length")
    _check_length(f"sentence_bert_config.json of {name} has max_seq_length", length)
    if length is None and modules:
        length = _length_of_tokenizer(name, config, files)
    if length:
        settings["max_length"] = length
    return settings


def _length_of_tokenizer(name: str, config: PretrainedConfig | None, files: Mapping[str, Any]) -> int | None:
    """The maximum length of the tokenizer, which sentence-transformers 6 saves there; None: that of the model."""
    length = (read_json(name, "tokenizer_config.json", **files) or {}).get("model_max_length")
    positions = getattr(config, "max_position_embeddings", None)
    return length if isinstance(length, int) and positions and length < positions else None


def read_json(name: str, file: str, kind: type = dict, **hub_arguments: Any) -> Any:
    """The content of a checkpoint's JSON file; None if there is no such file, or, with a warning, no access to the Hub.

    ``kind``: the type that the content must have.
    """
    try:
        path = _find_file(name, file, **hub_arguments)
    except OSError as error:
        logger.warning("Could not look for %s of %s: %s", file, name, " ".join(str(error).split()))
        return None
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} of {name} is not JSON: {error}. Download it again, or repair it.") from error
    if not isinstance(content, kind):
        raise ValueError(f"{file} of {name} holds a {type(content).__name__} instead of a {kind.__name__}: repair it.")
    return content


def choose_prompt(
    name: str, prompt: str | None = None, prompt_name: str | None = None, revision: str | None = None
) -> str:
    """Choose the prompt of a checkpoint.

    Args:
        name: A folder, or a model on the Hub.
        prompt: The prompt itself, ``""`` for none. None: one of the checkpoint's.
        prompt_name: The name of one of the checkpoint's prompts. None: the one for classification, or else the default.
        revision: The branch, tag or commit on the Hub.

    Returns:
        The prompt; ``""`` if there is none.

    Raises:
        ValueError: If both arguments are given, the checkpoint has no prompt of that name, or its file is damaged.
    """
    if prompt is not None:
        if prompt_name is not None:
            raise ValueError(f"prompt={prompt!r} and prompt_name={prompt_name!r} are given: leave one of them out.")
        return prompt
    content: dict[str, Any] = read_json(name, PROMPTS, revision=revision) or {}
    prompts = content.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ValueError(f"{PROMPTS} of {name} has prompts that are not texts with names: {prompts!r}. Repair it.")
    default = content.get("default_prompt_name")
    if default is not None and default not in list(prompts):
        raise ValueError(
            f"{PROMPTS} of {name} has the default prompt {default!r}, and no prompt of that name. Repair it."
        )
    if prompt_name is not None:
        if prompt_name not in prompts:
            known = ", ".join(map(repr, prompts)) or "none"
            raise ValueError(
                f"{name} has no prompt {prompt_name!r}. It has {known}; prompt= takes the text of another."
            )
        return prompts[prompt_name] or ""
    chosen = next((known for known in prompts if known.lower() == CLASSIFICATION), default)
    if chosen is not None:
        if prompts[chosen]:
            logger.info("%s reads its prompt %r before each text: %r.", name, chosen, prompts[chosen])
        return prompts[chosen] or ""
    if unused := [known for known, text in prompts.items() if text]:
        logger.warning(
            "%s has the prompts %s, none of them for classification or by default: it reads texts without a prompt. "
            "prompt_name chooses one.",
            name,
            ", ".join(unused),
        )
        return ""
    names = (pattern for pattern in RELEASED_PROMPTS if re.fullmatch(pattern, Path(name).name))
    released = RELEASED_PROMPTS.get(next(names, ""), "")
    if released:
        logger.warning("%s states no prompt. It reads %r before each text, as its authors do.", name, released)
    return released


def load_projection(name: str, revision: str | None = None) -> nn.Sequential | None:
    """Load the modules ``Dense`` of a checkpoint, such as INSTRUCTOR's; None if it has none.

    They map ``(N, H)`` to ``(N, D)``, float32.
    """
    modules = _modules(name, {"revision": revision})
    layers: list[nn.Module] = [UnitNorm()] if _normalizes_first([kind for kind, _ in modules]) else []
    for folder in [folder for kind, folder in modules if kind == "Dense"]:
        config = read_json(name, f"{folder}/config.json", revision=revision) or {}
        activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"{name} has the activation {activation!r} in {folder}, and only {', '.join(ACTIVATIONS)} are "
                f"supported: {OTHER_EMBEDDINGS}"
            )
        if config.get("use_residual"):
            raise ValueError(f"{folder} of {name} has use_residual, which is not supported: {OTHER_EMBEDDINGS}")
        for key in ("module_input_name", "module_output_name"):
            if config.get(key) not in (None, "sentence_embedding"):
                raise ValueError(f"{folder} of {name} has {key}={config[key]!r}, not supported: {OTHER_EMBEDDINGS}")
        layers.append(_load_linear(name, folder, revision))
        layers.append(ACTIVATIONS[activation]())
    return nn.Sequential(*layers).eval().requires_grad_(False) if layers else None


def _load_linear(name: str, folder: str, revision: str | None) -> nn.Linear:
    """Load the linear layer of a module ``Dense``, in float32."""
    weights = _read_weights(name, folder, revision)
    weight = weights.get("linear.weight")
    bias = weights.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        shapes = {key: tuple(tensor.shape) for key, tensor in weights.items()}
        raise ValueError(f"{folder} of {name} holds {shapes} and not the weights of a dense layer.")
    out_features, in_features = weight.shape
    linear = nn.Linear(in_features, out_features, bias=bias is not None)
    state = {"weight": weight.float()}
    if bias is not None:
        state["bias"] = bias.float()
    linear.load_state_dict(state)
    return linear


def save_sentence_transformers_files(folder: str | Path, config: PretrainedConfig) -> None:
    """Write the files that ``SentenceTransformer(folder)`` needs, according to ``config.docsplit``.

    An adapter's folder gets no ``modules.json``: sentence-transformers would put the adapter on the wrong class.
    """
    folder = Path(folder)
    own = POOLING_MODES[config.docsplit["pooling"]]
    pooling = {f"pooling_mode_{name}": name == own for name in POOLING_MODES.values()}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden_size, **pooling})
    _write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": config.docsplit["max_length"], "do_lower_case": False},
    )
    if (folder / "adapter_config.json").exists():
        return
    modules = []
    for number, path in enumerate(("", "1_Pooling", "2_Normalize")):  # the name of a folder has the kind of its module
        (folder / path).mkdir(exist_ok=True)
        kind = f"sentence_transformers.models.{path.partition('_')[2] or 'Transformer'}"
        modules.append({"idx": number, "name": str(number), "path": path, "type": kind})
    _write_json(folder / "modules.json", modules)


def _find_file(name: str, file: str, **hub_arguments: Any) -> Path | None:
    """Find a file in a folder, or in a repository on the Hub; None if there is no such file."""
    if Path(name).is_dir():
        path = Path(name, file)
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(name, file, **hub_arguments))
    except EntryNotFoundError:  # also if the Hub cannot be reached and the cache has no such file
        return None
    except HFValidationError as error:
        raise OSError(str(error)) from error


def _modules(name: str, hub_arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The kind and the folder of each module of sentence-transformers, in their order."""
    modules = []
    for module in read_json(name, "modules.json", kind=list, **hub_arguments) or []:
        if not isinstance(module, dict):
            raise ValueError(f"modules.json of {name} holds {module!r} in place of a module: repair it.")
        kind_name = str(module.get("type", ""))
        if not kind_name.startswith(LIBRARY):
            raise ValueError(
                f"{name} has the module {kind_name!r}, which is code in its repository (trust_remote_code). "
                f"docsplit_hf runs no code of a checkpoint: {ANOTHER_ENCODER}"
            )
        kind = kind_name.rpartition(".")[2]
        folder = str(module.get("path"))
        if not re.fullmatch(r"\w*", folder):
            raise ValueError(f"{name} has its {kind} in {folder!r}, which is not the name of a folder inside it.")
        modules.append((kind, folder))
    return modules


def _normalizes_first(kinds: list[str]) -> bool:
    """Whether embeddings are scaled to norm 1 between the pooling and the first dense layer."""
    return kinds[:4] == ["Transformer", "Pooling", "Normalize", "Dense"]


def _check_order(name: str, kinds: list[str], with_projection: bool) -> None:
    """Refuse modules that are not supported, or not in this order."""
    known = [kind for kind in MODULES if with_projection or kind != "Dense"]
    if unknown := [kind for kind in kinds if kind not in known]:
        raise ValueError(f"{name} has the module {unknown[0]!r}, which is not supported: {OTHER_EMBEDDINGS}")
    order = [known.index(kind) for kind in kinds]
    if _normalizes_first(kinds):
        del order[2]
    if order != sorted(order):
        raise ValueError(
            f"{name} has its modules in the order {', '.join(kinds)}, and only {', '.join(known)} is supported: "
            f"{OTHER_EMBEDDINGS}"
        )


def _released_pooling(name: str, config: PretrainedConfig | None) -> str | None:
    """The pooling that a checkpoint was trained with, according to its class or its name; None if it is unknown."""
    if "Contriever" in (getattr(config, "architectures", None) or ()):  # copies under other names too
        return "mean"
    return next((pooling for start, pooling in RELEASED_POOLINGS.items() if name.startswith(start)), None)


def _check_length(place: str, length: Any) -> None:
    """Refuse a maximum length that is not a whole number from 1."""
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise ValueError(f"{place}={length!r}, which is not a length: correct it, or leave it out.")


def _pooling_mode(name: str, pooling: Mapping[str, Any]) -> str:
    """The pooling in ``1_Pooling/config.json``, under its name here."""
    # sentence-transformers 6 writes one name or a list of names; older versions wrote a flag for each.
    modes = pooling.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, on in pooling.items() if key.startswith("pooling_mode_") and on
    ]
    modes = [modes] if isinstance(modes, str) else modes
    known = {theirs: ours for ours, theirs in POOLING_MODES.items()} | {mode: mode for mode in ("cls", "mean", "max")}
    if len(modes) != 1 or modes[0] not in known:
        raise ValueError(f"{name} has the pooling {modes}, which is not supported: pass pooling=.")
    return known[modes[0]]


def _read_weights(name: str, folder: str, revision: str | None) -> Mapping[str, torch.Tensor]:
    """Read a module's tensors, by name. No code in a pickle is executed."""
    if path := _find_file(name, f"{folder}/{WEIGHTS}", revision=revision):
        return load_file(path)
    path = _find_file(name, f"{folder}/{PICKLE}", revision=revision)
    if path is None:
        raise OSError(f"{name} has neither {WEIGHTS} nor {PICKLE} in {folder!r}: download it again.")
    refusal = (
        f"{folder}/{PICKLE} of {name} is damaged, or holds more than tensors with names: it is not read. Ask its "
        f"author for {WEIGHTS}. If you trust the author, load the file with torch.load and write its tensors to "
        f"{WEIGHTS} beside it, with safetensors.torch.save_file."
    )
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken pickle can raise anything
        raise ValueError(refusal) from error
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError(refusal)
    return weights


def _write_json(path: Path, content: Any) -> None:
    """Write JSON to a file, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(content, indent=2) + "\n")
