from datasets import ClassLabel, Dataset, List

from docsplit_hf.text.labels import labels_by_name


def test_labels_by_name():
    label = ClassLabel(names=["river", "engine"])
    one = Dataset.from_dict({"label": [1, 0]}).cast_column("label", label)
    several = Dataset.from_dict({"label": [[0, 1], []]}).cast_column("label", List(label))
    assert labels_by_name(one) == ["engine", "river"]
    assert labels_by_name(several) == [["river", "engine"], []]
