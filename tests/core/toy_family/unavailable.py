"""A member whose dependency does not exist."""

import a_package_that_does_not_exist  # type: ignore[import-not-found]  # noqa: F401
