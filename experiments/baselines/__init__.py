"""The baselines that only the papers need, as objectives beside those of the package: a module for each."""
