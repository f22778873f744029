"""Instructions of processors."""

import pytest
import torch

from docsplit_hf.encoding.backends.instructions import int8_overflows


@pytest.mark.parametrize(
    "capabilities, overflows",
    [
        ({"architecture": "x86_64", "avx2": True}, True),
        ({"architecture": "x86_64", "avx2": True, "avx_vnni": False}, True),
        ({"architecture": "x86_64", "avx2": True, "avx_vnni": True}, False),
        ({"architecture": "x86_64", "avx512_vnni": True}, False),
        ({"architecture": "aarch64"}, False),
    ],
)
def test_products_of_int8_overflow_on_x86_without_vnni(capabilities, overflows, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert int8_overflows() is overflows


def test_older_versions_of_torch_do_not_tell_whether_int8_overflows(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not int8_overflows()
