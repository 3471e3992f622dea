"""`python -m tokenworlds`."""

import sys

from tokenworlds.cli import main

if __name__ == "__main__":
    sys.exit(main())
