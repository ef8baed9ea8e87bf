"""Surefoot's drafters and policies inside other engines, which score the drafts themselves."""
