"""Read spreadsheets of Excel (XLSX, XLSB, XLS) sheet by sheet."""

from __future__ import annotations

import io

from ..failures import DAMAGED, ENCRYPTED, Refusal
from ..parts import Budget, Content, Part
from ..places import SHEET
from .zip_files import ZipMembers


def read_sheets(content: bytes, budget: Budget) -> Content:
    """Read the cells of each sheet as text: tabs between cells, a line for each row, blank ones left out."""
    import python_calamine

    if content.startswith(b"PK"):
        ZipMembers(content, budget).check_sizes((".xml", ".bin"))  # calamine unpacks these by itself
    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = workbook.sheet_names
        budget.take_pages(len(names))
        parts = [Part(kind=SHEET, name=name, text=_text_of(workbook.get_sheet_by_name(name))) for name in names]
    except python_calamine.PasswordError as error:
        raise Refusal(ENCRYPTED, str(error)) from error
    except python_calamine.CalamineError as error:
        raise Refusal(DAMAGED, str(error)) from error
    return Content(parts)


def _text_of(sheet) -> str:
    """The text of a sheet."""
    lines = ("\t".join(map(_text_of_cell, row)).rstrip() for row in sheet.iter_rows())
    return "\n".join(filter(None, lines))


def _text_of_cell(value: object) -> str:
    """The text of a cell: whole numbers without decimals, dates as ISO 8601."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return " ".join(str(value).split())
