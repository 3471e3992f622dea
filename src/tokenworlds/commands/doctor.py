"""`tokenworlds doctor`."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.commands.options import Json

SIGNS = {"good": "ok", "note": "--", "bad": "!!"}


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check whether this machine can train agents."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Exits with 1 if something that training needs does not work."""
        from tokenworlds.commands.diagnosis import diagnose
        from tokenworlds.recipes.catalogue import load

        findings = []
        for finding in diagnose(load("step-vq-m", "nano").recipe, Path("runs")):
            findings.append(finding)
            if not self.json:
                print(f"{SIGNS[finding.state]}  {finding.name:18} {finding.text}", flush=True)
        fit = all(finding.state != "bad" for finding in findings)
        if self.json:
            found = [dataclasses.asdict(finding) for finding in findings]
            print(json.dumps({"fit": fit, "findings": found}, indent=2))
        else:
            print(
                "This machine can train agents." if fit else "Something above (!!) needs attention."
            )
        return 0 if fit else 1
