"""Split jobs by worker processes of fixed rates, with a real store, held against the ideal makespan."""
