"""Coroutines in tests, beside a browser's event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def run_elsewhere(coroutine):
    """Run a coroutine in a thread: in the main thread of a test process, Playwright's loop may be running."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
