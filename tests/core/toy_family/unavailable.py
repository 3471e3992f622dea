"""A member whose dependency nobody has."""

import a_package_that_does_not_exist  # type: ignore[import-not-found]  # noqa: F401
