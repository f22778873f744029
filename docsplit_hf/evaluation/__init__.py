"""Compare encoders on a user's own texts: tasks, systems, protocols, results and the report."""
