"""``python -m docsplit_hf.demo`` does what ``docsplit-demo`` does."""

from .command_line import main

if __name__ == "__main__":
    main()
