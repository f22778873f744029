"""DatastoreError: what is wrong with the files of a datastore, and what to do."""

REMEDY = "Copy or download the datastore again, or build it again."


class DatastoreError(ValueError):
    """The files of a datastore are damaged, incomplete or of another format."""
