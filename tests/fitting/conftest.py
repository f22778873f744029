"""The pipelines of the tests of classification: some behavior of a fit is tested through them."""

from ..classifier.conftest import (  # noqa: F401
    classifier,
    examples,
    make_fitted,
    pipe,
    pipe_of_module,
    untrained,
    untrained_of_module,
)
