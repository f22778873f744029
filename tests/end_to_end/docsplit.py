"""The command ``docsplit`` as a file, for processes that are forked."""

from docsplit_hf.__main__ import main

if __name__ == "__main__":
    main()
