"""Every number in a card is in the results.json beside it."""

import json
import re
import statistics

import yaml

from .conftest import every_card

# What stands in cards as a number and is none: versions of licenses, years, the precision of the weights, a name.
NO_NUMBERS = r"Apache 2\.0|CC BY-SA 3\.0|EMNLP 2023|a dump of 2014|about 2008|float(16|32)|20 Newsgroups"
SHARES = {"accuracy", "macro_f1", "cosine_accuracy"}  # printed in percent, with two digits


def prose_and_index(card):
    """What a card says, without code, links, addresses and what is no number; and its model-index."""
    _, head, body = card.split("---\n", maxsplit=2)
    body = re.sub(r"```.*?```", " ", body, flags=re.DOTALL)
    body = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", body)
    leaves = leaves_of(yaml.safe_load(head).get("model-index", []))
    index = [f"{leaf:.2f}" if isinstance(leaf, float) else str(leaf) for leaf in leaves]
    shown = [leaf for leaf in index if not leaf.startswith("https://")]
    return re.sub(NO_NUMBERS, " ", "\n".join([body, *shown]))


def leaves_of(content):
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [leaf for part in content for leaf in leaves_of(part)]
    return [content]


def numbers_in(text):
    return re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)", text)


def known_numbers(content):
    """What is in a results.json: of repeats their number, mean and deviation; shares in percent; all other numbers.

    Returns:
        The shares, which are printed with two digits; and the others, which are printed with any.
    """
    shares, others, groups = set(), set(), {}
    for record in content["records"]:
        key = json.dumps([record[field] for field in ("system", "task", "protocol", "settings")], sort_keys=True)
        for name, value in record["metrics"].items():
            if record["protocol"] in ("full", "few_shot", "citation"):
                assert name in SHARES
                groups.setdefault((key, name), []).append(100 * value)
            else:
                others |= {value, 100 * value} if value < 1 else {value}
        for leaf in leaves_of([record["settings"], record["seed"]]):
            if isinstance(leaf, float):
                others |= {leaf, 100 * leaf}
            others |= {float(number.replace(",", "")) for number in numbers_in(str(leaf))}
    for values in groups.values():
        others.add(len(values))
        shares.add(statistics.fmean(values))
        if len(values) > 1:
            shares.add(statistics.stdev(values))
    for leaf in leaves_of([*content["tasks"].values(), *(run["ran_on"] for run in content["runs"])]):
        others |= {float(number.replace(",", "")) for number in numbers_in(str(leaf))}
    return shares, others


def numbers_without_source(card, content):
    shares, others = known_numbers(content)
    lacking = []
    for written in numbers_in(prose_and_index(card)):
        value, digits = float(written.replace(",", "")), len(written.partition(".")[2])
        known = others | shares if digits == 2 else others
        if not any(abs(value - number) <= 0.5 * 10**-digits + 1e-9 for number in known):
            lacking.append(written)
    return lacking


@every_card
def test_every_number_is_in_a_results_file(name, card_of):
    card, content = card_of(name)
    assert len(numbers_in(prose_and_index(card))) > 20
    assert numbers_without_source(card, content) == []


@every_card
def test_a_changed_number_is_noticed(name, card_of):
    """One digit changed in every number of three digits and more: nearly all are no number of the file then."""
    card, content = card_of(name)
    changed = []
    for written in set(numbers_in(prose_and_index(card))):
        if len(written) > 3:
            place = -1 if written[-1] != "9" else 0
            digits = list(written)
            digits[place] = str((int(digits[place]) + 1) % 10)
            changed.append("".join(digits))
    lacking = numbers_without_source("---\n{}\n---\n" + "\n".join(changed), content)
    assert len(changed) > 5 and len(lacking) / len(changed) > 0.8, sorted(set(changed) - set(lacking))
