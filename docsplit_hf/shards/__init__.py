"""A folder of shards: the keys, ids, texts and labels of a corpus, written by many tasks."""
