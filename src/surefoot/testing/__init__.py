"""Public tools to prove that a part keeps Surefoot's promises. No product code imports this package."""
