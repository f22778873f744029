"""DocSplitClassifier, the estimator of scikit-learn, and what it keeps between fits."""
