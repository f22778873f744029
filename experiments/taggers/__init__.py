"""Part-of-speech taggers: of NLTK and of spaCy, by one form."""
