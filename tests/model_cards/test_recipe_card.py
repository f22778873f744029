"""The card of a recipe: the papers' numbers, and none that were not measured."""

import dataclasses

import pytest


def test_a_recipe_whose_lengths_were_not_measured_is_refused(generator):
    recipe = generator.recipes.RECIPES[0]
    for old, new, message in (
        ("--max_length 512", "--max_length 500", "lengths of views of .*500.* were not measured"),
        ("--max_steps 172745", "", r"lacks \['max_steps'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            generator.recipe_card.recipe_results(dataclasses.replace(recipe, command=recipe.command.replace(old, new)))


def test_the_papers_numbers_are_the_papers(generator):
    """As many documents as theirs, less than a batch left over; and the row of their model."""
    from docsplit_hf.experiments.report.paper_results import FULL

    for recipe in generator.recipes.RECIPES:
        results = generator.recipe_card.recipe_results(recipe)
        documents = results.metrics("cost")["documents"]
        assert 0 <= 6_218_825 - documents < results.metrics("cost")["batch"]
        printed = [r["metrics"] for r in results.of("full") if r["system"] == recipe.paper_system]
        assert bool(printed) == (recipe.paper_system is not None)
        if printed:
            shares = [round(value / 100, 6) for value in FULL.rows[recipe.paper_system]]
            assert [value for metrics in printed for value in metrics.values()] == shares
