"""Compare encoders on your own texts: tasks, systems, protocols, results and the report."""
