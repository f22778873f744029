"""Sort new files of a folder as they come, and learn from the files that you move to another label's folder.

    docsplit watch inbox/ sorted/ --model output/kinds

Stop it by Ctrl-C. To continue, run the same command again: no file is sorted twice, and none is missed.
"""

import logging
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from ...classifier.sorting.sorted_files import check_not_inside
from ...classifier.sorting.sorted_folder import SortedFolder
from ...classifier.sorting.watching import Watcher
from ...fitting.rejection import RejectionLimits
from .classify import open_classifier, show_plan
from .options import option, read_options
from .run_command import script, show_log

logger = logging.getLogger(__name__)

TICK = 500  # milliseconds between two looks at the clock


@dataclass
class WatchArguments:
    """The folders, the classifier, and when files are sorted."""

    inbox: str = option(
        help="The folder with the new files, at any depth (required), also as the first word without the name of the "
        "option. They stay where they are."
    )
    sorted: str = option(
        help="The folder that they are copied into (required), also as the second word. It has sub-folders by label; "
        "files without a label go into _unsure, those that cannot be read into _failed. It may be the --predict_output "
        "of docsplit classify. A file that you move to the folder of another label becomes an example of it, and the "
        "classifier is fitted and saved. docsplit undo removes the copies.",
    )
    model: str = option(help="A saved classifier (required), the --output_dir of docsplit fit or docsplit train.")
    reject: float | None = option(
        default=None,
        help="Target error rate, such as 0.05: files whose label is too uncertain go into _unsure. For a classifier of "
        "fit. Default: every file gets a label.",
    )
    novelty: float | None = option(
        default=None, help="With --reject: as for docsplit classify, the limit for files unlike all examples."
    )
    explain: bool = option(default=False, help="Also log the words that decided. For a classifier of fit.")
    rest: float = option(
        default=3.0,
        help="Seconds for which a file must be unchanged before it is read. A file that cannot be read gets ten times "
        "as long, as it may be unfinished.",
    )
    sweep: float = option(
        default=180.0,
        help="Seconds after which the folders are compared, even if the system reports no change, as for network "
        "drives.",
    )
    dry_run: bool = option(
        default=False,
        help="Copy and learn nothing: print where each file of the inbox would go, and write it into a file beside "
        "the folder, such as sorted-plan.csv.",
    )
    use_cpu: bool = option(default=False, help="Do not use a GPU.")

    def __post_init__(self) -> None:
        if self.rest < 0 or self.sweep <= 0:
            raise ValueError(f"--rest must be at least 0 and --sweep above 0, got {self.rest} and {self.sweep}.")
        if self.novelty is not None and self.reject is None:
            raise ValueError("--novelty limits what --reject leaves without a label: give it.")

    def check_folders(self) -> None:
        """Raise an error if a folder is missing, or files would be sorted into the inbox."""
        for name in ("inbox", "model"):
            if not Path(getattr(self, name)).is_dir():
                raise FileNotFoundError(
                    f"There is no folder {getattr(self, name)!r}: give an existing one by --{name}."
                )
        check_not_inside(Path(self.sorted), Path(self.inbox))

    def call_options(self) -> dict[str, Any]:
        """Return the options of a call of the classifier."""
        options: dict[str, Any] = {"explain": True} if self.explain else {}
        if self.reject is not None:
            options["reject"] = RejectionLimits(self.reject, self.novelty)
        return options


def watch_folders(watcher: Watcher, sweep: float) -> None:
    """Sort files until the process is stopped, with one line of status on a terminal."""
    from watchfiles import watch

    due = 0.0
    logger.info("%s is watched. Stop it by Ctrl-C.", watcher.inbox)
    with (
        tqdm(bar_format="{desc}", disable=None) as status,
        logging_redirect_tqdm([logging.getLogger("docsplit_hf")]),
    ):
        for changes in watch(
            watcher.inbox,
            watcher.sorted_folder.path,
            watch_filter=None,
            rust_timeout=TICK,
            yield_on_timeout=True,
        ):
            if changes or time.monotonic() >= due:
                watcher.step()
                due = min(watcher.next_step(), time.monotonic() + sweep)
            status.set_description_str(f"{watcher.inbox.name}: {watcher.status()}")


def main() -> dict[str, Any]:
    """Watch a folder, or plan; return the figures for ``--json``."""
    (arguments,) = read_options((WatchArguments,), __doc__, first=("inbox", "sorted"))
    arguments.check_folders()
    show_log()
    watcher_of = partial(
        Watcher,
        open_classifier=partial(open_classifier, arguments.model, arguments.use_cpu),
        folder=Path(arguments.model),
        inbox=Path(arguments.inbox),
        options=arguments.call_options(),
        rest=arguments.rest,
    )
    folder = Path(arguments.sorted)
    if arguments.dry_run:
        return show_plan(watcher_of(sorted_folder=SortedFolder(folder)).plan(), Path(arguments.inbox), folder)
    with SortedFolder.opened(folder) as sorted_folder:
        watch_folders(watcher_of(sorted_folder=sorted_folder), arguments.sweep)
    return {}


run = script(main, "To continue, run the same command again.")
