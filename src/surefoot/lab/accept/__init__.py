"""Acceptance without timing: what drafts would have given at each token, what they gave scored, what they give live.

`run` writes and replays the texts and keeps each as a record; `counts` says what the records hold; `predict` says what
that would be worth on a machine whose costs are known.
"""
