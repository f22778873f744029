import threading
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.encoding.read_ahead import read_ahead

WAIT = 60  # seconds until a test fails that would otherwise wait forever


def reading_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read_ahead")]


@given(st.lists(st.none() | st.integers()), st.none() | st.integers(0, 5))
def test_items_come_in_order_and_an_error_comes_after_the_items_before_it(items, fails_at):
    def some():
        for number, item in enumerate(items):
            if number == fails_at:
                raise KeyError(item)
            yield item

    found = []
    if fails_at is None or fails_at >= len(items):
        found.extend(read_ahead(some()))
        assert found == items
    else:
        with pytest.raises(KeyError):
            found.extend(read_ahead(some()))
        assert found == items[:fails_at]
    assert not reading_threads()


def test_the_next_item_is_made_while_the_caller_uses_the_current_one_and_no_further_one():
    made = [threading.Event() for _ in range(5)]

    def some():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in read_ahead(some()):
        if number + 1 < len(made):
            assert made[number + 1].wait(WAIT)
        assert not any(event.is_set() for event in made[number + 2 :])


@pytest.mark.parametrize("error", [GeneratorExit, KeyboardInterrupt, ValueError])
def test_the_thread_ends_when_the_caller_stops_in_the_middle(error):
    made = []
    items = read_ahead(made.append(number) or number for number in range(100))
    assert next(items) == 0 and reading_threads()
    if error is GeneratorExit:
        items.close()
    else:
        with pytest.raises(error):
            items.throw(error)
    assert not reading_threads()
    assert len(made) <= 2


def test_the_thread_has_the_context_of_the_caller():
    variable = ContextVar("variable", default=None)
    token = variable.set("outer")
    try:
        assert list(read_ahead(variable.get() for _ in range(2))) == ["outer", "outer"]
    finally:
        variable.reset(token)
