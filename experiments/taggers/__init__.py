"""Part-of-speech taggers of NLTK and spaCy behind one interface."""
