"""Read files (PDF, Word, HTML, mail, ...) as texts that keep their places, within limits."""
