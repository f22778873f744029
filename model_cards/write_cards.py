"""Write the model cards, and the results.json beside each, from what was measured and what is stated.

    python model_cards/write_cards.py

Released checkpoints are described in checkpoints.py, recipes in recipes.py. The same input gives the same files to the
byte, and tests/model_cards checks that they are what is committed.
"""

from __future__ import annotations

from pathlib import Path

from card_results import ROOT
from checkpoint_card import checkpoint_results, render_checkpoint
from checkpoints import CHECKPOINTS
from recipe_card import recipe_results, render_recipe
from recipes import RECIPES


def render() -> dict[str, str]:
    """All files, by their paths from the root of the project.

    A checkpoint whose results are not there yet has no card yet.

    Returns:
        The text of each file.
    """
    files = {}
    for recipe in RECIPES:
        results = recipe_results(recipe)
        files[f"model_cards/{recipe.name}/README.md"] = render_recipe(recipe, results)
        files[f"model_cards/{recipe.name}/results.json"] = results.text()
    for checkpoint in CHECKPOINTS:
        if not (ROOT / checkpoint.results).exists():
            continue
        results = checkpoint_results(checkpoint, ROOT)
        card = render_checkpoint(checkpoint, results)
        files[f"model_cards/{checkpoint.name}/README.md"] = card
        files[f"{checkpoint.folder}/README.md"] = card
        files[f"model_cards/{checkpoint.name}/results.json"] = results.text()
    return files


def main() -> None:
    for name, text in render().items():
        path = Path(ROOT, name)
        before = path.read_text(encoding="utf-8") if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{'unchanged' if before == text else 'written':10}{name}")
    for checkpoint in CHECKPOINTS:
        if not (ROOT / checkpoint.results).exists():
            print(f"{'left out':10}{checkpoint.name}: {checkpoint.results} is not there yet")


if __name__ == "__main__":
    main()
