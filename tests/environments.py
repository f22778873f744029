"""Python environment with all installed packages except docsplit_hf."""

import os
import sysconfig
import venv


def without_docsplit_hf(folder):
    """Return the command of the new Python, and environment variables without paths to docsplit_hf."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # .pth files there are not read
    return folder / "bin" / "python", {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
