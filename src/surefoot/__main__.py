"""`python -m surefoot`, the same as the command `surefoot`."""

from surefoot.app.cli.main import main

raise SystemExit(main())
