"""Another Python, with all that is installed here but for docsplit_hf."""

import os
import sysconfig
import venv


def without_docsplit_hf(folder):
    """Its command, and the variables of this environment that do not lead back to docsplit_hf."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # and nothing that its own .pth files name
    return folder / "bin" / "python", {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
